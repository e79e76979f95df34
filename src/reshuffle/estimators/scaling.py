"""A penalty times a factor, as paths need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties import Penalty, ability, weak_convexity

STRENGTHS = ("l1", "l2", "strength")
"""Parameters of penalties in which ψ is linear."""


@dataclass(frozen=True)
class Times:
    """factor·ψ, with ``value`` and ``prox``, which every penalty has."""

    penalty: Penalty
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


def scaling(penalty: Penalty, shape: tuple[int, ...]) -> Callable[[float], Penalty]:
    """The map from a factor to factor·ψ, which keeps all abilities of ψ if its strengths can be multiplied.

    A penalty may provide it itself, by an ability ``scaled(factor)``. Otherwise it is tested once, at one point,
    that multiplied strengths multiply ψ.
    """
    own = ability(penalty, "scaled")
    if own is not None:
        return own
    if is_dataclass(penalty) and not isinstance(penalty, type):
        names = [f.name for f in fields(penalty) if f.init and f.name in STRENGTHS]
        at = np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)
        expected = 3.0 * penalty.value(at)
        if names and np.isclose(_multiplied(penalty, names, 3.0).value(at), expected, 1e-9, 0.0):
            return partial(_multiplied, penalty, names)
    return partial(Times, penalty)


def _multiplied(penalty: Any, names: list[str], factor: float) -> Any:
    return replace(penalty, **{name: factor * _number(getattr(penalty, name)) for name in names})


def _number(value: Any) -> Any:
    return np.asarray(value, dtype=float) if np.ndim(value) else float(value)
