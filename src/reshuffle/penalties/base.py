"""What a penalty is: a value and a prox."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError

Array = NDArray[np.float64]
Numbers = float | NDArray[np.float64]
"""One number for all coordinates, or an array that broadcasts against them."""


@runtime_checkable
class Penalty(Protocol):
    """Anything with these two methods is a penalty; no base class is needed.

    It may also say how strongly convex it is (``strong_convexity``, 0 where it does not).
    """

    def value(self, x: Array) -> float:
        """ψ(x), +inf outside a constraint."""
        ...

    def prox(self, x: Array, step: float) -> Array:
        """argmin_u step·ψ(u) + ‖u - x‖²/2."""
        ...


class Separable:
    """ψ(x) = Σ_j l1_j|x_j| + (l2_j/2)x_j² + indicator(lower_j ≤ x_j ≤ upper_j).

    The prox is soft thresholding, then shrinking, then clipping; the kernels know it too, so these
    penalties may be applied after every step at compiled speed.
    """

    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower: Numbers = -np.inf
    upper: Numbers = np.inf

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            check_non_negative(name, getattr(self, name))
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        if np.isnan(low).any() or np.isnan(high).any() or not np.all(low <= high):
            raise InputError(
                f"lower must not exceed upper, got lower={self.lower!r}, upper={self.upper!r}"
            )

    @property
    def strong_convexity(self) -> float:
        return float(np.min(self.l2))

    def value(self, x: Array) -> float:
        if np.any(x < self.lower) or np.any(x > self.upper):
            return np.inf
        return float(np.sum(self.l1 * np.abs(x)) + 0.5 * np.sum(self.l2 * x * x))

    def prox(self, x: Array, step: float) -> Array:
        shrunk = np.maximum(np.abs(x) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        clipped: Array = np.clip(np.copysign(shrunk, x), self.lower, self.upper)
        return clipped

    def coefficients(self, shape: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
        """l1, l2, lower, upper for every coordinate, flat: what the kernels take."""
        try:
            l1, l2, lower, upper = (
                np.ascontiguousarray(np.broadcast_to(v, shape), dtype=np.float64).ravel()
                for v in (self.l1, self.l2, self.lower, self.upper)
            )
        except ValueError:
            raise InputError(
                f"penalty {self!r} has coefficients that do not fit coordinates of shape {shape}"
            ) from None
        return l1, l2, lower, upper


def check_non_negative(name: str, value: Numbers) -> None:
    """A strength is a finite number that is not negative, or an array of such."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iuf" or not np.all((numbers >= 0) & np.isfinite(numbers)):
        raise InputError(f"{name} must be finite and not negative, got {value!r}")
