"""Line search for Newton steps on a device. A trial is a pass over all rows; there are as few as core/line_search.hpp would make."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from reshuffle.core import native
from reshuffle.objective import Array

ARMIJO = 0.1
"""A step must achieve this share of the decrease that the slope promises."""
STRAIGHT = 0.9
"""A step that achieves this share met almost no curvature and is doubled; on a parabola the share is a half."""
DOUBLINGS = 60
"""The most doublings of a step."""


class Searched(NamedTuple):
    """The end point of a search, the length of the step (0 if none lowers P as promised), P there, and the passes made."""

    x: Array
    length: float
    height: float
    passes: int


def searched(
    height: Callable[[Array], float], x: Array, u: Array, slope: float, halvings: int
) -> Searched:
    """The step from x to u, halved until P falls as promised and then while P falls further, or doubled while P falls along a straight line.

    ``height`` is P(x); ``slope`` is the change of P that the slopes at x promise for the whole step.
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
