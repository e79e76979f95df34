from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties.base import ByContent, check_radius, check_strength, strength_that_holds


@dataclass(frozen=True, eq=False)
class MCP(ByContent):
    """ψ(x) = Σ_j ``ρ(|x_j|)``, ρ(t) = λt - t²/(2γ) up to t = γλ and γλ²/2 beyond: large coefficients are not shrunk.

    It is not convex: ψ + ‖·‖²/(2γ) is. The prox is a global minimiser for every step: firm thresholding::

        0 for |x| ≤ λs,   sign(x)(|x| - λs)/(1 - s/γ) up to |x| = γλ,   x beyond,

    if the step s is below γ, and otherwise hard thresholding at λ√(sγ). Solvers that need a convex
    penalty refuse it; with those that take it, a run ends at a stationary point.

    Parameters
    ----------
    strength : λ, not negative.
    gamma : γ > 0: the larger, the nearer to the l1 norm.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.MCP(1.0, gamma=3.0).prox(np.array([0.5, 2.0, 5.0]), step=1.0)
    array([0. , 1.5, 5. ])

    References
    ----------
    Zhang: Nearly unbiased variable selection under minimax concave penalty, 2010.
    """

    strength: float
    gamma: float = 3.0

    def __post_init__(self) -> None:
        check_strength(self.strength)
        check_radius(self.gamma, "gamma")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02, 3.0)]

    @property
    def weak_convexity(self) -> float:
        """1/γ."""
        return 1.0 / self.gamma

    def value(self, x: Array) -> float:
        t = np.minimum(np.abs(x), self.gamma * self.strength)
        return float(np.sum(self.strength * t - t * t / (2.0 * self.gamma)))

    def prox(self, x: Array, step: float) -> Array:
        size, threshold = np.abs(x), self.strength * step
        if step < self.gamma:
            firm = np.maximum(size - threshold, 0.0) / (1.0 - step / self.gamma)
            kept = np.where(size <= self.gamma * self.strength, firm, size)
        else:
            kept = np.where(size > self.strength * np.sqrt(step * self.gamma), size, 0.0)
        return np.copysign(kept, x)

    def lambda_max(self, g: Array) -> float:
        """``max_j |g_j|/λ``, where zero becomes stationary."""
        largest = float(np.abs(g).max(initial=0.0))
        return strength_that_holds(largest, self.strength)
