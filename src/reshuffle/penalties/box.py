from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class Box(Separable):
    """ψ(x) = 0 where lower ≤ x ≤ upper, +inf elsewhere.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.Box(0.0, 1.0).prox(np.array([-0.5, 0.5, 3.0]), step=1.0)
    array([0. , 0.5, 1. ])
    """

    lower: Numbers = -np.inf
    upper: Numbers = np.inf

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(-0.05, 0.1)]
