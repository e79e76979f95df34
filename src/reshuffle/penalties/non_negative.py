from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class NonNegative(Separable):
    """ψ(x) = l1·Σ_j x_j + (l2/2)·‖x‖² where x ≥ 0, +inf elsewhere.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.NonNegative(l1=0.5).prox(np.array([2.0, 0.3, -1.0]), step=1.0)
    array([1.5, 0. , 0. ])
    """

    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower = 0.0

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.01), cls()]
