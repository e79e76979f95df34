from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from reshuffle.penalties.base import Numbers, check_radius
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class LInfBall(Separable):
    """ψ(x) = 0 where ‖x‖_∞ ≤ radius, +inf elsewhere: the box -radius ≤ x ≤ radius.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.LInfBall(1.0).prox(np.array([3.0, -0.5]), step=1.0)
    array([ 1. , -0.5])
    """

    radius: float
    lower: Numbers = field(init=False, repr=False)
    upper: Numbers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_radius(self.radius)
        object.__setattr__(self, "lower", -float(self.radius))
        object.__setattr__(self, "upper", float(self.radius))
        super().__post_init__()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.08)]
