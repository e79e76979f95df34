"""The projection onto cylinders ‖y_g‖ ≤ bounds_g, whose intersection is the dual ball of the latent group norm, and that norm."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.core import native
from reshuffle.penalties.cylinder_newton import newton
from reshuffle.penalties.overlapping import Members

QUICK = 100  # The most rounds of the compiled method, which usually takes two to five, and dozens with hundreds of groups.
CAREFUL = 60  # The most rounds of the careful method; none of 60,000 projections with coordinates of every size took more.
LARGE = 1_000_000  # The largest product of groups and coordinates (8 MB) for careful steps, which hold a few such matrices.
PATIENT = 200  # The most rounds of the compiled method for larger problems.
SMALL = 1e-100  # Relative to the largest coordinate: a smaller bound cannot be told from 0 by any digit of x.
STEP = 100.0  # The first step of a split is this many times that at which a group leaves zero, and each is this many times the last.
STEPS = 20  # The most steps of a split; two to five are enough for coordinates of similar size.
ENOUGH = 1e-13  # Relative to the norm: upper and lower bounds this close count as equal.
ROUNDED = 1e-29  # Relative to t times the norm: the smallest gap to ask of a projection, the square of rounding.


class Projected(NamedTuple):
    """x minus its projection, the projection, the parts of the difference, a bound on the distance from the minimum, and the rounds.

    The rounds are negative if they were not enough.
    """

    point: Array
    y: Array
    parts: Array
    gap: float
    rounds: int


class CylinderSplit(NamedTuple):
    """Parts with Σ_g v_g = x, the value Σ_g w_g ‖v_g‖, and a bound on how far it is above the least."""

    parts: Array
    value: float
    gap: float


def project(
    x: Array, groups: Members, gap: float, tolerance: float, multipliers: Array
) -> Projected:
    """The projection, from these multipliers (updated in place), to the gap or to an error of ``tolerance``·‖x‖.

    Coordinates of a group whose bound is 0 are free. The others are scaled to ``|x_j| ≤ 1``.
    """
    members, starts, bounds = groups
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    with np.errstate(over="ignore"):
        scaled, bounds = x / largest, np.minimum(bounds / largest, 1.0 / SMALL)
    bounds[bounds < SMALL] = 0.0
    groups = groups._replace(weights=bounds)
    free = members[np.repeat(bounds == 0, np.diff(starts))]
    scaled[free] = 0.0
    y, parts, point = np.empty(x.size), np.empty(members.size), np.empty(x.size)
    enough = 0.5 * (tolerance * float(np.linalg.norm(scaled))) ** 2
    enough = max(gap / largest / largest, enough)
    small = bounds.size * x.size <= LARGE
    most = QUICK if small else PATIENT
    rounds, left = native.cylinder_solve(
        scaled, *groups, enough, most, multipliers, parts, point, y
    )
    if rounds < 0 and small:
        found, rounds = newton(scaled, groups, enough, CAREFUL, multipliers)
        y, parts, point, left = found.y, found.parts, found.point, found.gap
        multipliers[:] = found.multipliers
    point *= largest
    point[free] = x[free]
    return Projected(point, largest * y, largest * parts, largest * largest * left, rounds)


def split(x: Array, groups: Members) -> CylinderSplit:
    """The least Σ_g w_g ‖v_g‖ with Σ_g v_g = x; infinite if a nonzero coordinate lies in no group.

    It is found by proximal steps on the dual, max ⟨x, y⟩ with ‖y_g‖ ≤ w_g: y becomes the projection of y + tx, whose parts, divided by t,
    converge to those of x. The remainder of x is shared out, and y is scaled into the balls, so that every step has an
    upper and a lower bound. x_j has an effect if t·x_j is as large as y_j: t grows until small coordinates have one.
    """
    members, starts, weights = groups
    best = CylinderSplit(np.zeros(members.size), np.inf, np.inf)
    if not np.isfinite(x).all() or np.delete(x, members).any():
        return best
    takes, free = _takes(groups, x.size), np.zeros(x.size, dtype=bool)
    free[members[np.repeat(weights == 0, np.diff(starts))]] = True
    whole, x = x, np.where(free, 0.0, x)
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    x = x / largest
    held, y, lack, multipliers = weights > 0, 0.0 * x, 0.0 * x, np.zeros(weights.size)
    top = float(np.max(_norms(x[members], starts)[held] / weights[held], initial=0.0)) or 1.0
    t, least = STEP / top, float(x @ x) / top  # The lower bound at x/top, which is in the balls.
    for _ in range(STEPS):
        found = project(y + t * x, groups, ROUNDED * t * least, 0.0, multipliers)
        v = found.parts / t
        native.renew_rest(x, v, members, lack)
        v += takes * lack[members]
        native.into_balls(found.y, *groups, y)
        gap = native.apart_from_support(y, v, *groups)
        if gap > best.gap / STEP:
            t *= STEP
        if gap < best.gap:
            best = CylinderSplit(v, float(weights @ _norms(v, starts)), gap)
        if best.gap <= ENOUGH * best.value:
            break
    parts = largest * best.parts + takes * (free * whole)[members]
    return CylinderSplit(parts, largest * best.value, largest * best.gap)


def _norms(parts: Array, starts: NDArray[np.int64]) -> Array:
    norms: Array = np.sqrt(np.add.reduceat(parts**2, starts[:-1]))
    return norms


def _takes(groups: Members, size: int) -> Array:
    """The share of the remainder that each member of a group takes: none if another group takes it at no cost."""
    members, starts, weights = groups
    costs = np.repeat(weights > 0, np.diff(starts))
    cheapest = np.ones(size, dtype=bool)
    np.minimum.at(cheapest, members, costs)
    asked = costs == cheapest[members]
    share: Array = asked / np.bincount(members, asked, size)[members]
    return share
