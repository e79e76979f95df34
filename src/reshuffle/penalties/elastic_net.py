from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class ElasticNet(Separable):
    """ψ(x) = l1·‖x‖₁ + (l2/2)·‖x‖², the regulariser of the paper's experiments.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.ElasticNet(l1=1.0, l2=1.0).prox(np.array([3.0, -0.5]), step=1.0)
    array([ 1., -0.])
    """

    l1: Numbers = field()
    l2: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02, 0.1)]
