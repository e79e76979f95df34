"""Names of version 0.1.0 that have another name now. They keep working for one version, with a warning."""

from __future__ import annotations

import warnings
from typing import Any

ALSO = "the old name goes in version 0.3"


def warn(old: str, new: str, depth: int = 3) -> None:
    """A ``DeprecationWarning`` at the line that used the old name."""
    warnings.warn(f"{old} is now called {new}; {ALSO}", DeprecationWarning, stacklevel=depth)


def renamed(old: str, new: str) -> Any:
    """A property that passes an old attribute name on to the new one."""

    def get(self: Any) -> Any:
        warn(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)

    return property(get, doc=f"The old name of ``{new}``.")
