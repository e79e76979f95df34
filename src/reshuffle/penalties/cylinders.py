"""The projection onto cylinders ‖y_g‖ ≤ bounds_g, and the latent group norm, whose dual ball they make."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.penalties.overlapping import Members

Array = NDArray[np.float64]
MOST = 200  # rounds of one projection: what is not solved then lies on the edge of two patterns
SMALL = 1e-100  # of the largest coordinate: a bound below it is none that a digit of x could tell from 0
STEP = 100.0  # of those of a split, in the step where the first group leaves zero
STEPS = 20  # of a split: with such steps two to five are enough
ENOUGH = 1e-13  # of the norm: where its upper and its lower bound meet


class Projected(NamedTuple):
    """x minus its projection, the parts of this, a bound on how far it is from the minimum, and the rounds.

    The rounds are negative where ``MOST`` did not do.
    """

    point: Array
    parts: Array
    gap: float
    rounds: int


class Split(NamedTuple):
    """Parts with Σ_g v_g = x, Σ_g w_g ‖v_g‖, and how much more this may be than the least."""

    parts: Array
    value: float
    gap: float


def project(
    x: Array, groups: Members, bounds: Array, gap: float, tolerance: float, multipliers: Array
) -> Projected:
    """From these multipliers, which become those at the end, to the gap or to an error of ``tolerance``·‖x‖.

    Coordinates of a group whose bound is 0 are free. All else is scaled to ``|x_j| ≤ 1``.
    """
    from reshuffle.kernels.cylinders import cylinder_solve

    members, starts, _ = groups
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    with np.errstate(over="ignore"):
        scaled, bounds = x / largest, np.minimum(bounds / largest, 1.0 / SMALL)
    bounds[bounds < SMALL] = 0.0
    free = members[np.repeat(bounds == 0, np.diff(starts))]
    scaled[free] = 0.0
    parts, point = np.empty(members.size), np.empty(x.size)
    enough = 0.5 * (tolerance * float(np.linalg.norm(scaled))) ** 2
    enough = max(gap / largest / largest, enough)
    rounds, left = cylinder_solve(
        scaled, members, starts, bounds, enough, MOST, multipliers, parts, point
    )
    point *= largest
    point[free] = x[free]
    return Projected(point, largest * parts, largest * largest * left, rounds)


def split(x: Array, groups: Members, weights: Array, tolerance: float) -> Split:
    """The least Σ_g w_g ‖v_g‖ with Σ_g v_g = x; infinite where a coordinate that is not zero lies in no group.

    By proximal steps on the dual, max ⟨x, y⟩ with ‖y_g‖ ≤ w_g: y becomes the projection of y + tx, whose parts, over t,
    go to those of x. What they lack of x is shared out, and y is brought into the balls, so that every step has an
    upper and a lower bound.
    """
    from reshuffle.kernels.latent import apart_from_support, into_balls
    from reshuffle.kernels.overlap import renew_rest

    members, starts, _ = groups
    v, covered = np.zeros(members.size), np.bincount(members, minlength=x.size) > 0
    if not np.isfinite(x).all() or x[~covered].any():
        return Split(v, np.inf, np.inf)
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    x, takes = x / largest, _takes(groups, weights, x.size)
    norms, held = np.sqrt(np.add.reduceat(x[members] ** 2, starts[:-1])), weights > 0
    t = STEP / (float(np.max(norms[held] / weights[held], initial=0.0)) or 1.0)
    y, lack, multipliers = np.zeros(x.size), np.empty(x.size), np.zeros(weights.size)
    value = gap = np.inf
    for _ in range(STEPS):
        found = project(y + t * x, groups, weights, 0.0, tolerance, multipliers)
        v = found.parts / t
        renew_rest(x, v, members, lack)
        v += takes * lack[members]
        into_balls(y + t * x - found.point, members, starts, weights, y)
        gap = float(apart_from_support(y, v, members, starts, weights))
        value = float(weights @ np.sqrt(np.add.reduceat(v**2, starts[:-1])))
        if gap <= ENOUGH * value:
            break
    return Split(largest * v, largest * value, largest * gap)


def _takes(groups: Members, weights: Array, size: int) -> Array:
    """How much of what is shared out each member of a group takes: nothing where another group has it for nothing."""
    members, starts, _ = groups
    costs = np.repeat(weights > 0, np.diff(starts))
    cheapest = np.ones(size, dtype=bool)
    np.minimum.at(cheapest, members, costs)
    asked = costs == cheapest[members]
    share: Array = asked / np.bincount(members, asked, size)[members]
    return share
