from __future__ import annotations

from collections.abc import Callable, Iterable


class CheckFailed(AssertionError):
    """A property does not hold; the message names the part, the property and an example."""


def run_checks(checks: Iterable[tuple[str, Callable[[], None] | None]]) -> list[str]:
    """Run the checks one after the other and return the names of those that ran; a check of ``None`` does not apply."""
    made = []
    for name, check in checks:
        if check is not None:
            check()
            made.append(name)
    return made
