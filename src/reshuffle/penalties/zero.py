from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class Zero(Separable):
    """ψ(x) = 0."""

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls()]
