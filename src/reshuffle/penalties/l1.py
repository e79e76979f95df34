from __future__ import annotations

from dataclasses import dataclass, field

from reshuffle.penalties.base import Numbers, Separable


@dataclass(frozen=True)
class L1(Separable):
    """ψ(x) = l1·‖x‖₁, or Σ_j l1_j|x_j| when l1 is an array."""

    l1: Numbers = field()
