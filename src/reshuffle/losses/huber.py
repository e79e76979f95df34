from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.losses.base import Loss


@dataclass(frozen=True, repr=False)
class Huber(Loss):
    """l(z, y) = r²/2 where ``|r| ≤ δ``, ``δ(|r| - δ/2)`` beyond, with r = z - y.

    Parameters
    ----------
    delta : the residual δ > 0 at which the loss turns from quadratic to linear.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((5, 1)), [1.0, 2.0, 3.0, 4.0, 1000.0]
    >>> problem = rs.Problem(X, y, loss=rs.losses.Huber(delta=1.0))
    >>> rs.ExactProxRR().solve(problem).x.round(3)  # the mean is 202
    array([3.])
    """

    core = "huber"
    delta: float = 1.35
    curvature = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.delta, (int, float, np.number)) and self.delta > 0):
            raise InputError(f"delta must be positive, got {self.delta!r}")

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(0.7)]

    @staticmethod
    def value(z: float, y: float, delta: float) -> float:
        r = abs(z - y)
        return 0.5 * r * r if r <= delta else delta * (r - 0.5 * delta)

    @staticmethod
    def derivative(z: float, y: float, delta: float) -> float:
        return min(max(z - y, -delta), delta)

    @staticmethod
    def second(z: float, y: float, delta: float) -> float:
        return 1.0 if abs(z - y) <= delta else 0.0

    @staticmethod
    def conjugate(s: float, y: float, delta: float) -> float:
        return 0.5 * s * s + s * y

    @staticmethod
    def oracle(z: Array, y: Array, delta: float) -> Array:
        r = np.abs(z - y)
        return np.minimum(r, delta) * (r - np.minimum(r, delta) / 2.0)
