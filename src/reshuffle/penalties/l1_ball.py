from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import ByContent, check_radius


@dataclass(frozen=True, eq=False)
class L1Ball(ByContent):
    """ψ(x) = 0 where ‖x‖₁ ≤ radius, +inf elsewhere; its prox is the projection.

    The projection subtracts the one threshold θ from all magnitudes that brings the norm to the radius;
    θ comes from the sorted magnitudes (Held, Wolfe and Crowder, 1974).

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L1Ball(1.0).prox(np.array([2.0, 1.5, 0.1]), step=1.0)
    array([0.75, 0.25, 0.  ])
    """

    radius: float

    def __post_init__(self) -> None:
        check_radius(self.radius)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.3)]

    def value(self, x: Array) -> float:
        # A projection lies on the sphere up to rounding.
        return 0.0 if np.abs(x).sum() <= self.radius * (1.0 + 1e-12 * x.size) else np.inf

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return ridge == 0  # With a ridge, the conjugate would need another projection.

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """ψ*(g) = radius·‖g‖_∞."""
        return float(self.radius * np.abs(g).max())

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        """1: the conjugate of a bounded set's indicator is finite everywhere."""
        return 1.0

    def prox(self, x: Array, step: float) -> Array:
        magnitudes = np.abs(x)
        if magnitudes.sum() <= self.radius:
            return x.copy()
        # Relative to the largest magnitude, so that large values cancel without rounding.
        below = magnitudes - magnitudes.max()
        ordered = np.sort(below, axis=None)[::-1]
        theta = np.max((np.cumsum(ordered) - self.radius) / np.arange(1, x.size + 1))
        projected: Array = np.copysign(np.maximum(below - theta, 0.0), x)
        return projected
