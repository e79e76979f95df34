from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class L2(Separable):
    """ψ(x) = (l2/2)·‖x‖², strongly convex with μ = l2."""

    l2: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [
            cls(0.1),
            cls(np.linspace(0.05, 0.2, shape[0]).reshape(-1, *[1] * (len(shape) - 1))),
        ]
