from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import ByContent, check_radius, conjugate_with_ridge


@dataclass(frozen=True, eq=False)
class L2Ball(ByContent):
    """ψ(x) = 0 where ‖x‖₂ ≤ radius, +inf elsewhere; its prox is the projection.

    For a matrix unknown this is the Frobenius norm.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.L2Ball(1.0).prox(np.array([3.0, 4.0]), step=1.0)
    array([0.6, 0.8])
    """

    radius: float

    radial = True
    """ψ depends on ‖x‖₂ alone: with a positively homogeneous penalty, ``Sum`` is exact."""

    def __post_init__(self) -> None:
        check_radius(self.radius)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.3)]

    def value(self, x: Array) -> float:
        # A projection lies on the sphere up to rounding.
        return 0.0 if np.linalg.norm(x) <= self.radius * (1.0 + 1e-12) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        norm = float(np.linalg.norm(x))
        projected: Array = x * (self.radius / norm) if norm > self.radius else x.copy()
        return projected

    # --- abilities -----------------------------------------------------------------------------

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return True

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """ψ*(g) = radius·‖g‖₂, with a ridge r at the projection of g/r."""
        if ridge > 0:
            return conjugate_with_ridge(self, g, ridge)
        return float(self.radius * np.linalg.norm(g))

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        """1: the conjugate of a bounded set's indicator is finite everywhere."""
        return 1.0
