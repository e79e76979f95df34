"""Projects onto cylinders by Newton's method with exact steps, for groups that share coordinates of very different size.

``core/cylinders.hpp`` states the problem and takes cheap steps, which stall when multipliers trade places (one goes to zero
while another grows a thousandfold). Here a step minimises the whole quadratic model of d over m ≥ 0,

    min_t  ‖Bᵀt‖²/2 - ⟨c, t⟩,   t ≥ 0,       B_gj = |y_j|/√s_j for j in g,   c = r + BBᵀm,   r = -∇d(m),

the dual of the shortest move into a polyhedron. The step is shortened until d falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Array
from reshuffle.core import native
from reshuffle.penalties.least_distance import least_move
from reshuffle.penalties.overlapping import Members

SHORTEST = 30  # A step is halved at most this many times, to a billionth of its length.
CURVED = 5  # Halvings of the step on 1/‖y_g‖, which takes few rounds but may fail to lower d however short it is.


class State(NamedTuple):
    """The quantities that belong to given multipliers: see ``cylinder_state``."""

    multipliers: Array
    s: Array
    y: Array
    parts: Array
    point: Array
    d: float
    gap: float


def newton(
    x: Array, groups: Members, gap: float, most: int, multipliers: Array
) -> tuple[State, int]:
    """The state at a gap of at most ``gap``, from these multipliers, and the rounds: negative if ``most`` were not enough."""
    members, starts, bounds = groups
    within = np.zeros((bounds.size, x.size))
    within[np.repeat(np.arange(bounds.size), np.diff(starts)), members] = 1.0
    now = _state(x, groups, multipliers)
    for k in range(most):
        if not now.gap > gap:
            return now, k
        m, s = now.multipliers.copy(), now.s.copy()
        native.cylinder_pass(x, *groups, m, s)
        now = _state(x, groups, m)
        if not now.gap > gap:
            return now, k + 1
        for trial in _trials(within, bounds, now):
            new = _state(x, groups, trial)
            if new.d < now.d or new.gap < 0.5 * now.gap:
                now = new
                break
    return now, -most


def _state(x: Array, groups: Members, multipliers: Array) -> State:
    sizes = (x.size, x.size, groups.members.size, x.size)
    s, y, parts, point = (np.empty(size) for size in sizes)
    d, gap = native.cylinder_state(x, *groups, multipliers, s, y, parts, point)
    return State(multipliers, s, y, parts, point, d, gap)


def _trials(within: Array, bounds: Array, now: State) -> Iterator[Array]:
    """The multipliers after a step on 1/‖y_g‖ = 1/bounds_g, in full and shortened, then after one on d."""
    m, squares = now.multipliers, within @ now.y**2
    lower = 0.5 * (squares - bounds**2)
    ratios = np.divide(np.sqrt(squares), bounds, out=np.ones(m.size), where=bounds > 0)
    curved = np.where((m > 0) | (lower > 0), squares * (ratios - 1.0), lower)
    rows = within * (np.abs(now.y) / np.sqrt(now.s))
    for residual, shortest in ((curved, CURVED), (lower, SHORTEST)):
        step = _minimiser(rows, residual, m) - m
        for k in range(shortest):
            yield np.maximum(m + 0.5**k * step, 0.0)


def _minimiser(rows: Array, residual: Array, m: Array) -> Array:
    """The minimiser t of the quadratic model; 0 for a row of zeros, whose group is empty."""
    t, lengths = np.zeros(m.size), np.linalg.norm(rows, axis=1)
    met = lengths > 0
    units = rows[met] / lengths[met, None]
    start = m[met] * lengths[met]
    c = residual[met] / lengths[met] + units @ (units.T @ start)
    t[met] = least_move(units, -c, start > 0).multipliers / lengths[met]
    return t
