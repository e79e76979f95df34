"""The old home of what a method of one's own needs: use ``reshuffle.solvers``."""

from __future__ import annotations

from typing import Any

from reshuffle.deprecation import warn

_NAMES = {"Epoch": "Epoch", "Method": "Method", "Solver": "Solver", "State": "State"}


def __getattr__(name: str) -> Any:
    """The part, with a warning; what was called Certificate is a Check now."""
    from reshuffle import solvers

    new = _NAMES.get(name) or {"Certificate": "Check"}.get(name)
    if new is None:
        raise AttributeError(f"module 'reshuffle.solvers.base' has no attribute {name!r}")
    warn(f"reshuffle.solvers.base.{name}", f"reshuffle.solvers.{new}")
    return getattr(solvers, new)
