from __future__ import annotations

from math import exp, log
from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss


class Gamma(Loss):
    """l(z, y) = y·exp(-z) + z - log(y) - 1 for y > 0: half the deviance of a Gamma distribution with mean exp(z).

    It is at least 0, and 0 where exp(z) = y. As with ``Poisson``, the curvature y·exp(-z) has no bound, and
    ``ExactProxRR`` takes it by Newton steps.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((4, 1)), [100.0, 300.0, 250.0, 1350.0]
    >>> x = rs.ExactProxRR(tol=1e-12).solve(rs.Problem(X, y, loss=rs.losses.Gamma())).x
    >>> np.exp(x).round(3)  # the mean
    array([500.])
    """

    core = "gamma"
    curvature = np.inf
    self_concordance = 1.0
    targets: ClassVar[str] = "positive"
    log_link = True

    @staticmethod
    def value(z: float, y: float) -> float:
        return y * exp(-z) + z - log(y) - 1.0

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return 1.0 - y * exp(-z)

    @staticmethod
    def second(z: float, y: float) -> float:
        return y * exp(-z)

    @staticmethod
    def conjugate(s: float, y: float) -> float:
        u = max(1.0 - s, 0.0)
        return (u * log(u) if u > 0.0 else 0.0) + s + s * log(y)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        return y * np.exp(-z) + z - np.log(y) - 1.0
