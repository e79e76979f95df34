from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class L1(Separable):
    """ψ(x) = l1·‖x‖₁, or Σ_j l1_j|x_j| when l1 is an array."""

    l1: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02), cls(np.linspace(0.0, 0.04, int(np.prod(shape))).reshape(shape))]
