"""Penalties that are not convex, because they shrink large coefficients less than small ones, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
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

    example_arguments = ((0.02, 3.0),)

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
        return strength_that_holds(g, self.strength)


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

    example_arguments = ((0.02,),)

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
        return strength_that_holds(g, self.strength)

    def _rho(self, t: Array) -> Array:
        """λt, then minus (t - λ)²/(2(a - 1)), and constant from t = aλ on."""
        t = np.minimum(t, self.a * self.strength)
        beyond = np.maximum(t - self.strength, 0.0)
        rho: Array = self.strength * t - beyond * beyond / (2.0 * (self.a - 1.0))
        return rho

    def _at(self, u: Array, size: Array, step: float) -> Array:
        """step·ρ(u) + (u - size)²/2."""
        return step * self._rho(u) + 0.5 * (u - size) ** 2


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

    example_arguments = ((0.02, 0.5),)

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
        return strength_that_holds(g * self.epsilon, self.strength)
