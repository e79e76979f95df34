from __future__ import annotations

from dataclasses import dataclass, field

from reshuffle.penalties.base import Numbers, Separable


@dataclass(frozen=True)
class L2(Separable):
    """ψ(x) = (l2/2)·‖x‖², strongly convex with μ = l2."""

    l2: Numbers = field()
