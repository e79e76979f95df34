from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss


def without_mean(slopes: Array, y: Array, weights: Array) -> Array:
    """``balanced`` of a square: s_i - Σ_k w_k s_k/Σ_k w_k, the slopes at the best intercept (of each output).

    The mean is subtracted twice, since the rounding of a large mean would stay in small slopes.
    """
    for _ in range(2):
        slopes = slopes - np.average(slopes, axis=0, weights=weights if weights.size else None)
    return slopes


class Squared(Loss):
    """l(z, y) = (z - y)²/2; with a matrix of targets ‖z - y‖²/2, a margin and a column for each output.

    The unknown is then a matrix too, with a column per output: what ``NuclearNorm`` and a ``GroupLasso`` of its
    rows are for.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, Y = np.eye(3), np.array([[1.0, 4.0], [2.0, 0.5], [0.1, 0.2]])
    >>> rows = rs.penalties.GroupLasso(0.5, weights=np.ones(3))  # each row of x is a group
    >>> problem = rs.Problem(X, Y, rs.losses.Squared(), rows)
    >>> rs.ExactProxRR(tol=1e-12).solve(problem).x.round(3)
    array([[0.636, 2.545],
           [0.545, 0.136],
           [0.   , 0.   ]])
    """

    core = "squared"
    curvature = 1.0
    quadratic = True

    def for_targets(self, y: ArrayLike) -> Loss:
        return SquaredOutputs() if np.ndim(y) == 2 else self

    @staticmethod
    def value(z: float, y: float) -> float:
        return 0.5 * (z - y) * (z - y)

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return z - y

    @staticmethod
    def second(z: float, y: float) -> float:
        return 1.0

    @staticmethod
    def conjugate(s: float, y: float) -> float:
        return 0.5 * s * s + s * y

    balanced = staticmethod(without_mean)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        return (z**2 - 2.0 * z * y + y**2) / 2.0


class SquaredOutputs(Loss):
    """l(z, y) = ‖z - y‖²/2 over several outputs: what ``Squared`` becomes where y is a matrix.

    Its Hessian is the identity, which no p with the Hessian diag(p) - ppᵀ gives: it has no ``second``.
    """

    core = "squared_outputs"
    curvature = 1.0
    quadratic = True
    targets: ClassVar[str] = "rows"
    vector = True
    each = Squared

    @staticmethod
    def value(z: Array, y: Array) -> float:
        total = 0.0
        for k in range(z.size):
            total += (z[k] - y[k]) * (z[k] - y[k])
        return 0.5 * total

    @staticmethod
    def derivative(z: Array, y: Array) -> Array:
        for k in range(z.size):
            z[k] -= y[k]
        return z

    @staticmethod
    def conjugate(s: Array, y: Array) -> float:
        total = 0.0
        for k in range(s.size):
            total += 0.5 * s[k] * s[k] + s[k] * y[k]
        return total

    balanced = staticmethod(without_mean)

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        found: Array = ((z**2 - 2.0 * z * y + y**2) / 2.0).sum(axis=-1)
        return found

    def __repr__(self) -> str:
        return "Squared()"
