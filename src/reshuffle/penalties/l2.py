from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class L2(Separable):
    """ψ(x) = (l2/2)·‖x‖², strongly convex with μ = l2.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L2(1.0).prox(np.array([2.0, -4.0]), step=1.0)  # x/(1 + step·l2)
    array([ 1., -2.])
    """

    l2: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [
            cls(0.1),
            cls(np.linspace(0.05, 0.2, shape[0]).reshape(-1, *[1] * (len(shape) - 1))),
        ]
