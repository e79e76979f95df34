from __future__ import annotations

from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss
from reshuffle.losses.tweedie import Tweedie

POWER = 3.0  # The variance of this distribution is proportional to the third power of its mean.


class InverseGaussian(Loss):
    """l(z, y) = (y - μ)²/(2yμ²), μ = exp(z), for y > 0: half the deviance of an inverse Gaussian distribution.

    It is not convex in z: beyond μ = 2y it bends down. A run ends at a stationary point, as with ``Tweedie(3)``, and
    proves nothing about others.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((4, 1)), [1.0, 2.0, 2.5, 2.5]
    >>> x = rs.ExactProxRR(tol=1e-9).solve(rs.Problem(X, y, loss=rs.losses.InverseGaussian())).x
    >>> np.exp(x).round(3)  # the mean
    array([2.])
    """

    core = "inverse_gaussian"
    curvature = np.inf
    convex = False
    largest_target = Tweedie(POWER).largest_target
    targets: ClassVar[str] = "positive"
    log_link = True

    @staticmethod
    def value(z: float, y: float) -> float:
        return Tweedie.value(z, y, POWER)

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return Tweedie.derivative(z, y, POWER)

    @staticmethod
    def second(z: float, y: float) -> float:
        return Tweedie.second(z, y, POWER)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        return (y - np.exp(z)) ** 2 / (2.0 * y * np.exp(2.0 * z))
