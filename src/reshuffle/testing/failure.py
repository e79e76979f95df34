from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


class CheckFailed(AssertionError):
    """A property does not hold; the message names the part, the property and an example."""


def run_checks(subject: T, checks: Mapping[str, Callable[[T], None] | None]) -> list[str]:
    """Run the checks of the subject and return the names of those that ran; a check of ``None`` does not apply."""
    made = []
    for name, check in checks.items():
        if check is not None:
            check(subject)
            made.append(name)
    return made
