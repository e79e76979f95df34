"""What the penalties of this package share: checks, equality by content."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError, shown

Array = NDArray[np.float64]
Numbers = float | NDArray[np.float64]
"""One number for all coordinates, or an array that broadcasts against them."""
BELOW = 1.0 - 2.0**-51  # keeps a scaled point feasible in spite of rounding
FAR_BELOW = 1.0 - 1e-12  # the same where norms or singular values are summed up anew


class ByContent:
    """Equal where class and parameters are, arrays included. For dataclasses with ``eq=False``."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(map(_same, self._contents(), other._contents()))

    def __hash__(self) -> int:
        return hash((type(self), *map(_frozen, self._contents())))

    def _contents(self) -> list[Any]:
        return [getattr(self, f.name) for f in fields(self) if f.init]  # type: ignore[arg-type]


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(np.array_equal(one, other))
    except (TypeError, ValueError):  # lists of different lengths
        return bool(one == other)


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(map(_frozen, value))
    return value


def check_non_negative(name: str, value: Numbers) -> None:
    """A strength is a finite number that is not negative, or an array of such."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iuf" or not np.all((numbers >= 0) & np.isfinite(numbers)):
        raise InputError(f"{name} must be finite and not negative, got {shown(value)}")


def check_strength(strength: float) -> None:
    """One number, finite and not negative."""
    check_non_negative("strength", strength)
    if np.ndim(strength):
        raise InputError(f"strength must be one number, got {shown(strength)}")
