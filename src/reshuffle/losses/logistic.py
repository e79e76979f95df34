from __future__ import annotations

from math import exp, log, log1p
from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss, on_the_right_side


class Logistic(Loss):
    """l(z, y) = log(1 + exp(-yz)) for y in {-1, +1}.

    The paper writes it with labels b in {0, 1}; y = 2b - 1. Both branches exponentiate a negative
    number, so that no margin overflows.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> problem = rs.Problem(np.array([[1.0], [2.0]]), [-1, 1], loss=rs.losses.Logistic())
    >>> round(problem.objective(np.array([1.0])), 4)  # (log(1 + e) + log(1 + e⁻²))/2
    0.7201
    """

    core = "logistic"
    curvature = 0.25
    self_concordance = 1.0
    targets: ClassVar[str] = "signs"

    @staticmethod
    def value(z: float, y: float) -> float:
        m = y * z
        return log1p(exp(-abs(m))) + max(-m, 0.0)

    @staticmethod
    def derivative(z: float, y: float) -> float:
        m = y * z
        e = exp(-abs(m))
        return -y * ((e if m > 0.0 else 1.0) / (1.0 + e))

    @staticmethod
    def second(z: float, y: float) -> float:
        e = exp(-abs(y * z))  # as in the other two: compiled together, it is taken once
        return e / ((1.0 + e) * (1.0 + e))

    @staticmethod
    def conjugate(s: float, y: float) -> float:
        p = min(max(-s * y, 0.0), 1.0)
        r = 1.0 - p
        return (p * log(p) if p > 0.0 else 0.0) + (r * log(r) if r > 0.0 else 0.0)

    recedes = staticmethod(on_the_right_side)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * z)
