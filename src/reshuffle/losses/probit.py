from __future__ import annotations

from math import erfc, exp, log, log1p, sqrt
from typing import ClassVar

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss, on_the_right_side

ROOT_HALF = sqrt(0.5)
PER_ROOT_2PI = 0.3989422804014327
FAR = 6.0  # From here on the continued fraction below is exact to rounding with TERMS terms.
TERMS = 40


class Probit(Loss):
    """l(z, y) = -log Φ(yz) for y in {-1, +1}, with the normal distribution function Φ: P(y = 1) = Φ(z).

    With m = yz and r = φ(m)/Φ(m), l' = -yr and l'' = r(r + m), which falls from 1 to 0 as m grows. There is no
    conjugate in elementary functions: the bounds of runs are those of Newton steps.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> problem = rs.Problem(np.ones((4, 1)), [-1, 1, 1, 1], loss=rs.losses.Probit())
    >>> rs.ExactProxRR(tol=1e-10).solve(problem).x.round(4)  # Φ(0.6745) = 3/4
    array([0.6745])
    """

    core = "probit"
    curvature = 1.0
    targets: ClassVar[str] = "signs"

    @staticmethod
    def value(z: float, y: float) -> float:
        m = y * z
        if m < -FAR:
            tail = -m
            for k in range(TERMS, 0, -1):
                tail = -m + k / tail
            return 0.5 * m * m - log(PER_ROOT_2PI) + log(tail)
        if m > 0.0:
            return -log1p(-0.5 * erfc(m * ROOT_HALF))
        return -log(0.5 * erfc(-m * ROOT_HALF))

    @staticmethod
    def derivative(z: float, y: float) -> float:
        m = y * z
        if m < -FAR:
            tail = -m
            for k in range(TERMS, 0, -1):
                tail = -m + k / tail
            return -y * tail
        return -y * PER_ROOT_2PI * exp(-0.5 * m * m) / (0.5 * erfc(-m * ROOT_HALF))

    @staticmethod
    def second(z: float, y: float) -> float:
        m = y * z
        if m < -FAR:
            tail = -m
            for k in range(TERMS, 1, -1):
                tail = -m + k / tail
            return (-m + 1.0 / tail) / tail
        r = PER_ROOT_2PI * exp(-0.5 * m * m) / (0.5 * erfc(-m * ROOT_HALF))
        return min(r * (r + m), 1.0)

    recedes = staticmethod(on_the_right_side)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        from scipy.special import log_ndtr

        return -log_ndtr(y * z)
