from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.penalties.base import Numbers, Separable


@dataclass(frozen=True)
class Box(Separable):
    """ψ(x) = 0 where lower ≤ x ≤ upper, +inf elsewhere."""

    lower: Numbers = -np.inf
    upper: Numbers = np.inf
