from __future__ import annotations

from dataclasses import dataclass

from reshuffle.penalties.base import Numbers, Separable


@dataclass(frozen=True)
class NonNegative(Separable):
    """ψ(x) = l1·Σ_j x_j + (l2/2)·‖x‖² where x ≥ 0, +inf elsewhere."""

    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower = 0.0
