from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, log1p
from typing import ClassVar, Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.losses.base import Loss, towards_no_events
from reshuffle.validation import is_number

LEAST, MOST = 1e-8, 1e8
"""The range of α: below the first the distribution is Poisson's up to rounding; the second is its inverse."""


@dataclass(frozen=True, repr=False)
class NegativeBinomial(Loss):
    """l(z, y) = y·log(y/μ) - (y + 1/α)·log((1 + αy)/(1 + αμ)), μ = exp(z), for y ≥ 0: half the deviance of counts.

    Their variance is μ + αμ²; α → 0 is ``Poisson``. The curvature is at most (y + 1/α)/4, which is not the same for all
    targets, so that ``ExactProxRR`` takes the loss by Newton steps.

    Parameters
    ----------
    dispersion : α > 0, known (the ``alpha`` of statsmodels' ``NegativeBinomial``, 1/theta of MASS in R).

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((4, 1)), [0, 1, 2, 5]
    >>> x = rs.ExactProxRR().solve(rs.Problem(X, y, loss=rs.losses.NegativeBinomial(0.5))).x
    >>> np.exp(x).round(3)  # the mean
    array([2.])
    """

    core = "negative_binomial"
    dispersion: float = 1.0
    curvature = np.inf
    self_concordance = 1.0
    targets: ClassVar[str] = "counts"
    log_link = True

    def __post_init__(self) -> None:
        a = self.dispersion
        if not (is_number(a) and LEAST <= a <= MOST):
            raise InputError(
                f"dispersion must be positive, from {LEAST:g} to {MOST:g}, got {shown(a)}; without dispersion use losses.Poisson()"
            )
        object.__setattr__(self, "dispersion", float(a))

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(0.5)]

    @staticmethod
    def value(z: float, y: float, dispersion: float) -> float:
        t, k = z + log(dispersion), 1.0 / dispersion
        own = y * log(y) - (y + k) * log1p(dispersion * y) if y > 0.0 else 0.0
        return (y + k) * (log1p(exp(-abs(t))) + max(t, 0.0)) - y * z + own

    @staticmethod
    def derivative(z: float, y: float, dispersion: float) -> float:
        e = exp(-abs(z))
        return (1.0 - y * e) / (e + dispersion) if z > 0.0 else (e - y) / (1.0 + dispersion * e)

    @staticmethod
    def second(z: float, y: float, dispersion: float) -> float:
        e = exp(-abs(z))
        below = e + dispersion if z > 0.0 else 1.0 + dispersion * e
        return (1.0 + dispersion * y) * e / (below * below)

    @staticmethod
    def conjugate(s: float, y: float, dispersion: float) -> float:
        k = 1.0 / dispersion
        share = min(max((s + y) / (y + k), 0.0), 1.0)
        entropy = share * log(share) if share > 0.0 else 0.0
        if share < 1.0:
            entropy += (1.0 - share) * log1p(-share)
        own = y * log(y) - (y + k) * log1p(dispersion * y) if y > 0.0 else 0.0
        return (y + k) * entropy - (s + y) * log(dispersion) - own

    recedes = staticmethod(towards_no_events)

    @staticmethod
    def oracle(z: Array, y: Array, dispersion: float) -> Array:
        k, mu = 1.0 / dispersion, np.exp(z)
        grown = np.logaddexp(0.0, z + np.log(dispersion)) - np.log1p(dispersion * y)
        found: Array = y * (np.log(np.where(y > 0, y, mu)) - z) + (y + k) * grown
        return found
