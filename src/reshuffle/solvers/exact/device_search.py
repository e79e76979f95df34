"""P along the line of a Newton step on a device, where each trial is a pass over all rows: as few of them as core/line_search.hpp would make."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from reshuffle.core import native
from reshuffle.objective import Array

ARMIJO = 0.1
"""A step has to keep this share of what the slope promises."""
STRAIGHT = 0.9
"""A step that keeps this share of it (half is what a parabola keeps) met next to no curvature, and is doubled."""
DOUBLINGS = 60
"""Doublings at most."""


class Searched(NamedTuple):
    """Where a search ends, the length of the step (0 where none lowers P as promised), P there, and the passes."""

    x: Array
    length: float
    height: float
    passes: int


def searched(
    height: Callable[[Array], float], x: Array, u: Array, slope: float, halvings: int
) -> Searched:
    """The step from x to u, halved until P falls as promised and as long as it falls further, or doubled where the line is straight.

    ``height`` is P, ``slope`` what the slopes at x promise for the whole step.
    """
    before, best = height(x), Searched(x, 0.0, height(x), 0)
    if not 0.0 < slope < inf:
        return best
    for k in range(halvings + 1):
        t = 0.5**k
        if k and t * slope <= native.ROUNDING * abs(before):
            break
        to = u if k == 0 else x + t * (u - x)
        there = height(to)
        best = best._replace(passes=k + 1)
        if best.length and not there < best.height:
            return best
        if there <= before - ARMIJO * t * slope:
            best = Searched(to, t, there, k + 1)
            if k == 0:
                break
    if best.length == 1.0 and before - best.height > STRAIGHT * slope:
        for made in range(2, DOUBLINGS + 2):
            t = 2.0 * best.length
            to = x + t * (u - x)
            if not (there := height(to)) < best.height:
                return best._replace(passes=made)
            best = Searched(to, t, there, made)
    return best
