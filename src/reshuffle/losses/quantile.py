from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.losses.base import Loss


@dataclass(frozen=True, repr=False)
class Quantile(Loss):
    """l(z, y) = max_s { s(z - y) - (width/2)s² : -level ≤ s ≤ 1 - level }: quantile regression, smoothed.

    As width → 0 it is the pinball loss level·(y - z) for z ≤ y, (1 - level)·(z - y) beyond, whose
    minimiser is a conditional quantile; it differs from that by at most width/2·max(level, 1 - level)².

    Parameters
    ----------
    level : of the quantile, between 0 and 1; 0.5 is the median.
    width : of the stretch on which the kink is rounded, in the units of y.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> X, y = np.ones((101, 1)), np.arange(101.0)
    >>> loss = rs.losses.Quantile(level=0.9, width=0.1)
    >>> rs.ExactProxRR(tol=1e-9).solve(rs.Problem(X, y, loss=loss)).x.round(1)
    array([90.])
    """

    core = "quantile"
    level: float = 0.5
    width: float = 1.0

    def __post_init__(self) -> None:
        number = (int, float, np.number)
        if not (isinstance(self.level, number) and 0 < self.level < 1):
            raise InputError(f"level must be between 0 and 1, got {self.level!r}")
        if not (isinstance(self.width, number) and 0 < self.width < np.inf):
            raise InputError(f"width must be positive and finite, got {self.width!r}")

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return 1.0 / self.width

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(0.3, 0.5), cls(0.7, 1.0)]

    @staticmethod
    def value(z: float, y: float, level: float, width: float) -> float:
        s = min(max((z - y) / width, -level), 1.0 - level)
        return s * (z - y) - 0.5 * width * s * s

    @staticmethod
    def derivative(z: float, y: float, level: float, width: float) -> float:
        return min(max((z - y) / width, -level), 1.0 - level)

    @staticmethod
    def second(z: float, y: float, level: float, width: float) -> float:
        return 1.0 / width if -level * width <= z - y <= (1.0 - level) * width else 0.0

    @staticmethod
    def conjugate(s: float, y: float, level: float, width: float) -> float:
        return s * y + 0.5 * width * s * s

    @staticmethod
    def oracle(z: Array, y: Array, level: float, width: float) -> Array:
        r = z - y
        below, above = -level * width, (1.0 - level) * width
        linear = np.where(r < 0, -level * r, (1.0 - level) * r)
        slack = np.where(r < 0, level, 1.0 - level) ** 2 * width / 2.0
        return np.where((r >= below) & (r <= above), r**2 / (2.0 * width), linear - slack)
