"""A penalty times a factor: what a path goes along."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.penalties import Penalty, ability, weak_convexity

Array = NDArray[np.float64]
STRENGTHS = ("l1", "l2", "strength")
"""Parameters of penalties in which ψ is linear."""


@dataclass(frozen=True)
class Times:
    """factor·ψ, with the two things every penalty can do."""

    penalty: Any
    factor: float

    @property
    def strong_convexity(self) -> float:
        return self.factor * float(getattr(self.penalty, "strong_convexity", 0.0))

    @property
    def weak_convexity(self) -> float:
        return self.factor * weak_convexity(self.penalty)

    def value(self, x: Array) -> float:
        return self.factor * float(self.penalty.value(x))

    def prox(self, x: Array, step: float) -> Array:
        after: Array = self.penalty.prox(x, self.factor * step)
        return after


def scaled(penalty: Penalty, factor: float, shape: tuple[int, ...]) -> Penalty:
    """factor·ψ, with all abilities of ψ where its strengths can be multiplied instead.

    A penalty may say itself how, by an ability ``scaled(factor)``. That multiplied strengths do what they
    should is tried on a point.
    """
    own = ability(penalty, "scaled")
    if own is not None:
        multiplied: Penalty = own(factor)
        return multiplied
    if is_dataclass(penalty) and not isinstance(penalty, type):
        names = [f.name for f in fields(penalty) if f.init and f.name in STRENGTHS]
        if names:
            other = replace(penalty, **{n: factor * _number(getattr(penalty, n)) for n in names})
            at = np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)
            expected = factor * penalty.value(at)
            if np.isclose(other.value(at), expected, rtol=1e-9, atol=0.0):
                return other
    return Times(penalty, factor)


def _number(value: Any) -> Any:
    return np.asarray(value, dtype=float) if np.ndim(value) else float(value)
