from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import ByContent, check_radius, conjugate_with_ridge


@dataclass(frozen=True, eq=False)
class Simplex(ByContent):
    """ψ(x) = 0 where x ≥ 0 and Σ_j x_j = total, +inf elsewhere; its prox is the projection.

    The projection subtracts one threshold from all coordinates and clips at zero; the threshold comes from
    the sorted coordinates (Held, Wolfe and Crowder, 1974). A matrix unknown is one simplex as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.Simplex().prox(np.array([0.9, 0.5, -1.0]), step=1.0)
    array([0.7, 0.3, 0. ])
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        check_radius(self.total, "total")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.3)]

    def value(self, x: Array) -> float:
        # A projection has the right sum up to rounding.
        there = abs(float(x.sum()) - self.total) <= 1e-12 * x.size * self.total
        return 0.0 if there and np.all(x >= 0) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        # Relative to the largest coordinate, so that large values cancel without rounding.
        below = x - x.max()
        ordered = np.sort(below, axis=None)[::-1]
        threshold = np.max((np.cumsum(ordered) - self.total) / np.arange(1, x.size + 1))
        projected: Array = np.maximum(below - threshold, 0.0)
        return projected

    # --- abilities -----------------------------------------------------------------------------

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return True

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """ψ*(g) = total·max_j g_j, with a ridge r at the projection of g/r."""
        if ridge > 0:
            return conjugate_with_ridge(self, g, ridge)
        return float(self.total * g.max())

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        """1: the conjugate of a bounded set's indicator is finite everywhere."""
        return 1.0
