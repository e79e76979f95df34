from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class L1(Separable):
    """ψ(x) = l1·‖x‖₁, or Σ_j l1_j|x_j| when l1 is an array.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L1(0.5).prox(np.array([2.0, 0.3, -1.0]), step=1.0)  # soft thresholding
    array([ 1.5,  0. , -0.5])
    >>> rs.penalties.L1([0.0, 1.0, 1.0]).value(np.array([2.0, -0.3, 1.0]))  # the first is free
    1.3
    """

    l1: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02), cls(np.linspace(0.0, 0.04, int(np.prod(shape))).reshape(shape))]
