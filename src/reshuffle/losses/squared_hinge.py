from __future__ import annotations

from typing import ClassVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses.base import Loss


class SquaredHinge(Loss):
    """l(z, y) = max(0, 1 - yz)²/2 for y in {-1, +1}.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> problem = rs.Problem(np.array([[1.0], [2.0]]), [-1, 1], loss=rs.losses.SquaredHinge())
    >>> problem.objective(np.array([1.0]))  # (2² + 0)/2, over two rows
    1.0
    """

    core = "squared_hinge"
    curvature = 1.0
    targets: ClassVar[str] = "signs"

    @staticmethod
    def value(z: float, y: float) -> float:
        slack = max(1.0 - y * z, 0.0)
        return 0.5 * slack * slack

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return -y * max(1.0 - y * z, 0.0)

    @staticmethod
    def second(z: float, y: float) -> float:
        return 1.0 if y * z < 1.0 else 0.0

    @staticmethod
    def conjugate(s: float, y: float) -> float:
        return 0.5 * s * s + s * y

    @staticmethod
    def oracle(z: Array, y: Array) -> Array:
        return np.where(y * z < 1.0, (1.0 - y * z) ** 2 / 2.0, 0.0)
