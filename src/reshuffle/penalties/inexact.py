"""A prox that is found by iterations: their start, and a bound on their final error.

With Φ(u) = step·ψ(u) + ‖u - x‖²/2, the objective of the prox p*, a point p has a gap Φ(p) - Φ(p*). Φ is 1-strongly
convex, so that

    ‖p - p*‖²/2 ≤ Φ(p) - Φ(p*) ≤ gap:        a gap bounds the error of the prox by √(2·gap).

Two ways to know one: a subgradient r of Φ at p, gap = ‖r‖²/2 (again by strong convexity); and weak duality. For a
positively homogeneous ψ (a norm), ψ* is the indicator of ∂ψ(0); iterations that keep (x - p)/step in this set
have Φ(p*) ≥ ‖x‖²/2 - ‖p‖²/2, hence gap = step·ψ(p) - ⟨x - p, p⟩.

The caller of such a prox keeps ``start`` between calls. The penalty keeps nothing, so that equal runs are equal.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.penalties.abilities import Penalty, ability

COLD: Array = np.empty(0)
"""The start of the first call: nothing is known."""


class Approximate(NamedTuple):
    """The result of ``prox_from``."""

    point: Array
    """p."""
    start: Array
    """The start of the next call: numbers in one row, whose meaning only the penalty knows."""
    gap: float = 0.0
    """A bound on Φ(p) - Φ(p*)."""
    iterations: int = 0
    """The number of inner iterations; 0 if the prox is direct."""

    @property
    def error(self) -> float:
        """A bound on ‖p - p*‖."""
        return sqrt(2.0 * self.gap)


def approximate(
    penalty: Penalty, x: Array, step: float, start: Array = COLD, gap: float = 0.0
) -> Approximate:
    """The prox at x by iterations from ``start`` to a gap of at most ``gap``, or as small as rounding allows; direct if possible."""
    iterate = ability(penalty, "prox_from")
    if iterate is None:
        return Approximate(penalty.prox(x, step), COLD)
    found = iterate(x, step, start, gap)
    if not _is_whole(found):
        raise InputError(
            f"prox_from(x, step, start, gap) of penalty {type(penalty).__name__} must return an "
            f"Approximate with a gap that is not negative, got {shown(found)}"
        )
    checked: Approximate = found
    return checked


def _is_whole(found: object) -> bool:
    if not isinstance(found, Approximate) or not isinstance(found.start, np.ndarray):
        return False
    numbers = all(isinstance(v, (int, float, np.number)) for v in (found.gap, found.iterations))
    return numbers and found.gap >= 0 and found.start.dtype == np.float64 and found.start.ndim == 1
