"""Bounded sets: ψ is 0 in the set and +inf elsewhere, its prox is the projection, and ψ* is finite everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import ByContent, WithDual, check_radius


class Bounded(WithDual, ByContent):
    """The indicator of a bounded set; ``own_conjugate`` is its support function."""

    def own_scale(self, g: Array) -> float:
        return 1.0


@dataclass(frozen=True, eq=False)
class Ball(Bounded):
    """Where a norm is at most the radius."""

    radius: float

    def __post_init__(self) -> None:
        check_radius(self.radius)

    example_arguments = ((0.3,),)


class L1Ball(Ball):
    """ψ(x) = 0 where ‖x‖₁ ≤ radius, +inf elsewhere; its prox is the projection.

    Outside the ball the projection is that of the magnitudes onto a ``Simplex``, with the signs of x.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L1Ball(1.0).prox(np.array([2.0, 1.5, 0.1]), step=1.0)
    array([0.75, 0.25, 0.  ])
    """

    def value(self, x: Array) -> float:
        # A projection lies on the sphere up to rounding.
        return 0.0 if np.abs(x).sum() <= self.radius * (1.0 + 1e-12 * x.size) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        magnitudes = np.abs(x)
        if magnitudes.sum() <= self.radius:
            return x.copy()
        return np.copysign(onto_simplex(magnitudes, self.radius), x)

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return ridge == 0  # With a ridge, the conjugate would need another projection.

    def own_conjugate(self, g: Array) -> float:
        """radius·‖g‖_∞."""
        return float(self.radius * np.abs(g).max())


class L2Ball(Ball):
    """ψ(x) = 0 where ‖x‖₂ ≤ radius, +inf elsewhere; its prox is the projection.

    For a matrix unknown this is the Frobenius norm.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L2Ball(1.0).prox(np.array([3.0, 4.0]), step=1.0)
    array([0.6, 0.8])
    """

    radial = True
    """ψ depends on ‖x‖₂ alone: with a positively homogeneous penalty, ``Sum`` is exact."""

    def value(self, x: Array) -> float:
        # A projection lies on the sphere up to rounding.
        return 0.0 if np.linalg.norm(x) <= self.radius * (1.0 + 1e-12) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        norm = float(np.linalg.norm(x))
        projected: Array = x * (self.radius / norm) if norm > self.radius else x.copy()
        return projected

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return True

    def own_conjugate(self, g: Array) -> float:
        """radius·‖g‖₂."""
        return float(self.radius * np.linalg.norm(g))


@dataclass(frozen=True, eq=False)
class Simplex(Bounded):
    """ψ(x) = 0 where x ≥ 0 and Σ_j x_j = total, +inf elsewhere; its prox is the projection.

    A matrix unknown is one simplex as a whole.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.Simplex().prox(np.array([0.9, 0.5, -1.0]), step=1.0)
    array([0.7, 0.3, 0. ])
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        check_radius(self.total, "total")

    example_arguments = ((0.3,),)

    def value(self, x: Array) -> float:
        # A projection has the right sum up to rounding.
        there = abs(float(x.sum()) - self.total) <= 1e-12 * x.size * self.total
        return 0.0 if there and np.all(x >= 0) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        return onto_simplex(x, self.total)

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return True

    def own_conjugate(self, g: Array) -> float:
        """total·max_j g_j."""
        return float(self.total * g.max())


def onto_simplex(x: Array, total: float) -> Array:
    """x minus one threshold, clipped at zero; the sorted coordinates give it (Held, Wolfe and Crowder, 1974)."""
    below = x - x.max()  # Relative to the largest, so that large values cancel without rounding.
    ordered = np.sort(below, axis=None)[::-1]
    threshold = np.max((np.cumsum(ordered) - total) / np.arange(1, x.size + 1))
    projected: Array = np.maximum(below - threshold, 0.0)
    return projected
