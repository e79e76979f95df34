from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class Box(Separable):
    """ψ(x) = 0 where lower ≤ x ≤ upper, +inf elsewhere."""

    lower: Numbers = -np.inf
    upper: Numbers = np.inf

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(-0.05, 0.1)]
