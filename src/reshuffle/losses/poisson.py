from __future__ import annotations

from math import exp, log
from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss, towards_no_events


class Poisson(Loss):
    """l(z, y) = exp(z) - yz + y·log(y) - y for y ≥ 0: half the deviance of counts with mean exp(z).

    It is at least 0, and 0 where exp(z) = y. Its curvature exp(z) has no bound, so that no step of the
    paper's methods is safe: they refuse it. ``ExactProxRR`` takes it, by Newton steps with a line search.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((4, 1)), [0, 1, 2, 5]
    >>> x = rs.ExactProxRR().solve(rs.Problem(X, y, loss=rs.losses.Poisson())).x
    >>> np.exp(x).round(3)  # the mean
    array([2.])
    """

    core = "poisson"
    curvature = np.inf
    self_concordance = 1.0
    targets: ClassVar[str] = "counts"
    log_link = True

    @staticmethod
    def value(z: float, y: float) -> float:
        return exp(z) - y * z + (y * log(y) - y if y > 0.0 else 0.0)

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return exp(z) - y

    @staticmethod
    def second(z: float, y: float) -> float:
        return exp(z)

    @staticmethod
    def conjugate(s: float, y: float) -> float:
        mean = max(s + y, 0.0)
        own = mean * log(mean) - mean if mean > 0.0 else 0.0
        return own - (y * log(y) - y if y > 0.0 else 0.0)

    recedes = staticmethod(towards_no_events)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        return np.exp(z) - y * z + y * np.log(np.where(y > 0, y, 1.0)) - y
