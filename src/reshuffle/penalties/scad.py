from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import ByContent, check_strength, strength_that_holds


@dataclass(frozen=True, eq=False)
class SCAD(ByContent):
    """ψ(x) = Σ_j ``ρ(|x_j|)`` with ρ(0) = 0 and ρ'(t) = λ for t ≤ λ, max(aλ - t, 0)/(a - 1) beyond.

    Like ``MCP`` it does not shrink large coefficients and is not convex: ψ + ‖·‖²/(2(a - 1)) is. The prox is a
    global minimiser for every step s; where s < a - 1 it is::

        soft(x, λs) for |x| ≤ (1 + s)λ,   sign(x)((a - 1)|x| - saλ)/(a - 1 - s) up to |x| = aλ,   x beyond.

    Parameters
    ----------
    strength : λ, not negative.
    a : above 2; 3.7 is the authors' choice.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.SCAD(1.0, a=3.0).prox(np.array([1.5, 2.5, 5.0]), step=1.0)
    array([0.5, 2. , 5. ])

    References
    ----------
    Fan, Li: Variable selection via nonconcave penalized likelihood and its oracle properties, 2001.
    """

    strength: float
    a: float = 3.7

    def __post_init__(self) -> None:
        check_strength(self.strength)
        if not (isinstance(self.a, (int, float, np.number)) and 2 < self.a < np.inf):
            raise InputError(f"a must be a finite number above 2, got {shown(self.a)}")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02)]

    @property
    def weak_convexity(self) -> float:
        """1/(a - 1)."""
        return 1.0 / (self.a - 1.0)

    def value(self, x: Array) -> float:
        return float(np.sum(self._rho(np.abs(x))))

    def prox(self, x: Array, step: float) -> Array:
        size, bend = np.abs(x), self.a - 1.0
        soft = np.maximum(size - step * self.strength, 0.0)
        if step < bend:
            middle = (bend * size - step * self.a * self.strength) / (bend - step)
            kept = np.where(size <= (1.0 + step) * self.strength, soft, middle)
            kept = np.where(size <= self.a * self.strength, kept, size)
        else:  # The objective is concave between λ and aλ, so one of the two ends is lowest.
            near = np.minimum(soft, self.strength)
            far = np.maximum(size, self.a * self.strength)
            lower = self._at(near, size, step) <= self._at(far, size, step)
            kept = np.where(lower, near, far)
        return np.copysign(kept, x)

    def lambda_max(self, g: Array) -> float:
        """``max_j |g_j|/λ``, where zero becomes stationary."""
        largest = float(np.abs(g).max(initial=0.0))
        return strength_that_holds(largest, self.strength)

    def _rho(self, t: Array) -> Array:
        """λt, then minus (t - λ)²/(2(a - 1)), and constant from t = aλ on."""
        t = np.minimum(t, self.a * self.strength)
        beyond = np.maximum(t - self.strength, 0.0)
        rho: Array = self.strength * t - beyond * beyond / (2.0 * (self.a - 1.0))
        return rho

    def _at(self, u: Array, size: Array, step: float) -> Array:
        """step·ρ(u) + (u - size)²/2."""
        return step * self._rho(u) + 0.5 * (u - size) ** 2
