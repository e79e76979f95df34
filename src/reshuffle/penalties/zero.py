from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class Zero(Separable):
    """ψ(x) = 0.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.Zero().prox(np.array([2.0, -3.0]), step=1.0)
    array([ 2., -3.])
    """

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls()]
