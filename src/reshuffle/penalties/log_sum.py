from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import ByContent, check_radius, check_strength, strength_that_holds


@dataclass(frozen=True, eq=False)
class LogSum(ByContent):
    """ψ(x) = strength · Σ_j ``log(1 + |x_j|/epsilon)``: what reweighting an l1 norm by ``1/(|x_j| + epsilon)`` again and again minimises.

    The larger a coefficient, the less it is shrunk. It is not convex: ψ + (ρ/2)‖·‖² is, ρ = strength/epsilon². The prox is a global
    minimiser for every step s: 0, or the larger root of the quadratic equation of a stationary point::

        sign(x)·(|x| - epsilon + √((|x| + epsilon)² - 4·s·strength))/2,

    whichever is lower. Like ``MCP`` and ``SCAD`` it is refused by solvers that need a convex penalty.

    Parameters
    ----------
    strength : not negative.
    epsilon : positive; near zero the penalty is an l1 norm with factor strength/epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.LogSum(1.0, epsilon=1.0).prox(np.array([0.5, 2.0, 10.0]), step=1.0).round(3)
    array([0.   , 1.618, 9.908])

    References
    ----------
    Candès, Wakin, Boyd: Enhancing sparsity by reweighted ℓ1 minimization, 2008.
    """

    strength: float
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_strength(self.strength)
        check_radius(self.epsilon, "epsilon")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02, 0.5)]

    @property
    def weak_convexity(self) -> float:
        """strength/epsilon²."""
        return self.strength / self.epsilon**2

    def value(self, x: Array) -> float:
        return float(self.strength * np.sum(np.log1p(np.abs(x) / self.epsilon)))

    def prox(self, x: Array, step: float) -> Array:
        size, factor = np.abs(x), step * self.strength
        inside = (size + self.epsilon) ** 2 - 4.0 * factor
        root = 0.5 * (size - self.epsilon + np.sqrt(np.maximum(inside, 0.0)))
        root = np.maximum(root, 0.0)
        gain = 0.5 * root * (2.0 * size - root) - factor * np.log1p(root / self.epsilon)
        zero = (inside < 0.0) | (gain <= 0.0)  # false for what is not a number, which stays so
        return np.copysign(np.where(zero, 0.0, root), x)

    def lambda_max(self, g: Array) -> float:
        """``max_j |g_j|·epsilon/strength``, where zero becomes stationary."""
        largest = float(np.abs(g).max(initial=0.0))
        return strength_that_holds(largest * self.epsilon, self.strength)
