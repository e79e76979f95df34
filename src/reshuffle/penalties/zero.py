from __future__ import annotations

from dataclasses import dataclass

from reshuffle.penalties.base import Separable


@dataclass(frozen=True)
class Zero(Separable):
    """ψ(x) = 0."""
