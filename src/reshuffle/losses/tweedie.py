from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.arrays import Array
from reshuffle.cached import keep
from reshuffle.errors import InputError, shown
from reshuffle.losses.base import Loss, towards_no_events
from reshuffle.losses.gamma import Gamma
from reshuffle.validation import is_number

LARGEST = 10.0
"""The largest power: larger ones have no known use, and y to such a power leaves the range of floating point."""
RANGE = 1e300
"""For p > 2 targets are limited so that μ^(1-p) is at least 1/RANGE, a normal number with digits to spare."""


@dataclass(frozen=True, repr=False)
class Tweedie(Loss):
    """l(z, y) = y^(2-p)/((1-p)(2-p)) - y·μ^(1-p)/(1-p) + μ^(2-p)/(2-p), μ = exp(z): half the deviance at variance μ^p.

    For 1 < p < 2 the targets are sums of Gamma variables in Poisson numbers, with zeros among them, as the claims
    of a policy in a year. p = 2 is ``Gamma``, and p = 3 ``InverseGaussian``. For p > 2 targets are positive and the
    loss is not convex: beyond μ = y(p-1)/(p-2) it bends down, so that P may have several stationary points. A
    run then ends at one of them and proves nothing about others.

    Parameters
    ----------
    power : p, the power of the mean that the variance is proportional to: between 1 and 2 (both excluded), or 2 and more.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((4, 1)), [0.0, 0.0, 300.0, 100.0]
    >>> x = rs.ExactProxRR(tol=1e-12).solve(rs.Problem(X, y, loss=rs.losses.Tweedie(1.5))).x
    >>> np.exp(x).round(3)  # the mean
    array([100.])
    """

    core = "tweedie"
    power: float = 1.5
    curvature = np.inf
    self_concordance = 1.0  # |(2-p)²μ^(2-p) - (p-1)²yμ^(1-p)| ≤ max(2-p, p-1)·l'' for p ≤ 2
    targets: ClassVar[str] = "counts"
    log_link = True

    def __post_init__(self) -> None:
        p = self.power
        if not (is_number(p) and 1 < p <= LARGEST):
            raise InputError(
                f"power must be between 1 and 2, or 2 and more (up to {LARGEST:g}), got {shown(p)}; "
                "for power 0 use losses.Squared(), for power 1 losses.Poisson()"
            )
        known: dict[str, object] = {"power": float(p)}
        if p >= 2:
            known |= {"targets": "positive"}
        if p > 2:
            largest = RANGE ** (1.0 / (p - 1.0))
            known |= {"convex": False, "self_concordance": np.inf, "largest_target": largest}
        keep(self, **known)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(1.5), cls(1.1)]

    def for_targets(self, y: ArrayLike) -> Loss:
        return Gamma() if self.power == 2.0 else self

    @staticmethod
    def value(z: float, y: float, power: float) -> float:
        if power == 2.0:
            return y * exp(-z) + z - log(y) - 1.0
        low = y * exp((1.0 - power) * z) if y > 0.0 else 0.0
        own = exp((2.0 - power) * log(y)) / ((1.0 - power) * (2.0 - power)) if y > 0.0 else 0.0
        return low / (power - 1.0) + exp((2.0 - power) * z) / (2.0 - power) + own

    @staticmethod
    def derivative(z: float, y: float, power: float) -> float:
        low = y * exp((1.0 - power) * z) if y > 0.0 else 0.0
        return exp((2.0 - power) * z) - low

    @staticmethod
    def second(z: float, y: float, power: float) -> float:
        low = y * exp((1.0 - power) * z) if y > 0.0 else 0.0
        high = exp((2.0 - power) * z)
        found = (2.0 - power) * high + (power - 1.0) * low
        return found if found > 0.0 else high  # its value at y = μ

    recedes = staticmethod(towards_no_events)

    @staticmethod
    def oracle(z: Array, y: Array, power: float) -> Array:
        if power == 2.0:
            return Gamma.oracle(z, y)
        p, positive = power, np.where(y > 0, y, 1.0)
        own = np.where(y > 0, positive ** (2.0 - p), 0.0) / ((1.0 - p) * (2.0 - p))
        return own - y * np.exp((1.0 - p) * z) / (1.0 - p) + np.exp((2.0 - p) * z) / (2.0 - p)
