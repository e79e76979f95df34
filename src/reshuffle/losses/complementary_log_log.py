from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss, on_the_right_side

LOW = -40.0  # Below this exp(z) is lost beside 1.
LARGE = 700.0  # Beyond this exp(-exp(z)) is 0 beside everything.
SMALL = 0.1  # Below this the series of g + u - 1 is exact to rounding, and above it little is lost in the difference.


class ComplementaryLogLog(Loss):
    """l(z, y) = -log(1 - exp(-exp(z))) for y = 1, exp(z) for y = -1: P(y = 1) = 1 - exp(-exp(z)).

    The chance that at least one event of a Poisson process with rate exp(z) happens: an offset of log(time) stands for
    the time under risk. The two classes are not alike: which one is +1 matters. Both are equally likely at
    z = log(log(2)). exp(z) has no bound on its curvature, so that ``ExactProxRR`` takes the loss by Newton steps.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> problem = rs.Problem(np.ones((4, 1)), [-1, 1, 1, 1], loss=rs.losses.ComplementaryLogLog())
    >>> x = rs.ExactProxRR(tol=1e-10).solve(problem).x
    >>> (1 - np.exp(-np.exp(x))).round(4)
    array([0.75])
    """

    core = "complementary_log_log"
    curvature = np.inf
    targets: ClassVar[str] = "signs"
    boundary = log(log(2.0))

    @staticmethod
    def value(z: float, y: float) -> float:
        if y < 0.0:
            return exp(z)
        if z < LOW:
            return -z
        u = exp(min(z, LARGE))
        return -log(-expm1(-u)) if u < 1.0 else -log1p(-exp(-u))

    @staticmethod
    def derivative(z: float, y: float) -> float:
        if y < 0.0:
            return exp(z)
        if z < LOW:
            return -1.0
        u = exp(min(z, LARGE))
        return -u / expm1(u) if u <= LARGE else 0.0

    @staticmethod
    def second(z: float, y: float) -> float:
        if y < 0.0:
            return exp(z)
        if z < LOW:
            return 0.5 * exp(z)
        u = exp(min(z, LARGE))
        if u > LARGE:
            return 0.0
        g, q = u / expm1(u), u * u
        if u < SMALL:
            return g * (u * (1.0 / 2 + u * (1.0 / 12 - q * (1.0 / 720 - q * (1.0 / 30240)))))
        return g * (g + u - 1.0)

    recedes = staticmethod(on_the_right_side)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        u = np.exp(np.asarray(z))
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.where(u < 1.0, -np.log(-np.expm1(-u)), -np.log1p(-np.exp(-u)))
        return np.where(np.asarray(y) > 0, np.where(u > 0.0, near, -np.asarray(z)), u)
