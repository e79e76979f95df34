"""The projection onto cylinders ‖y_g‖ ≤ bounds_g, and the latent group norm, whose dual ball they make."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.core import native
from reshuffle.penalties.cylinder_newton import newton
from reshuffle.penalties.overlapping import Members

Array = NDArray[np.float64]
QUICK = (
    100  # rounds of the compiled method: two to five as a rule, some dozens with hundreds of groups
)
CAREFUL = 60  # rounds of the one for the rest: of 60,000 projections with coordinates of every size none took more
LARGE = 1_000_000  # groups times coordinates, 8 MB: careful steps hold a few matrices of this size
PATIENT = 200  # rounds of the compiled method for more
SMALL = 1e-100  # of the largest coordinate: a bound below it is none that a digit of x could tell from 0
STEP = 100.0  # of the first step of a split in the one where the first group leaves zero, and of each in the last
STEPS = 20  # of a split: two to five are enough where coordinates are of one size
ENOUGH = 1e-13  # of the norm: where its upper and its lower bound meet
ROUNDED = (
    1e-29  # of t times the norm: the square of rounding, to which a projection can be asked for
)


class Projected(NamedTuple):
    """x minus its projection, this itself, the parts of the difference, a bound on how far it is from the minimum, and the rounds.

    The rounds are negative where they did not do.
    """

    point: Array
    y: Array
    parts: Array
    gap: float
    rounds: int


class CylinderSplit(NamedTuple):
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
    members, starts, _ = groups
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    with np.errstate(over="ignore"):
        scaled, bounds = x / largest, np.minimum(bounds / largest, 1.0 / SMALL)
    bounds[bounds < SMALL] = 0.0
    free = members[np.repeat(bounds == 0, np.diff(starts))]
    scaled[free] = 0.0
    y, parts, point = np.empty(x.size), np.empty(members.size), np.empty(x.size)
    enough = 0.5 * (tolerance * float(np.linalg.norm(scaled))) ** 2
    enough = max(gap / largest / largest, enough)
    small = bounds.size * x.size <= LARGE
    rounds, left = native.cylinder_solve(
        scaled,
        members,
        starts,
        bounds,
        enough,
        QUICK if small else PATIENT,
        multipliers,
        parts,
        point,
        y,
    )
    if rounds < 0 and small:
        found, rounds = newton(scaled, groups, bounds, enough, CAREFUL, multipliers)
        y, parts, point, left = found.y, found.parts, found.point, found.gap
        multipliers[:] = found.multipliers
    point *= largest
    point[free] = x[free]
    return Projected(point, largest * y, largest * parts, largest * largest * left, rounds)


def split(x: Array, groups: Members, weights: Array) -> CylinderSplit:
    """The least Σ_g w_g ‖v_g‖ with Σ_g v_g = x; infinite where a coordinate that is not zero lies in no group.

    By proximal steps on the dual, max ⟨x, y⟩ with ‖y_g‖ ≤ w_g: y becomes the projection of y + tx, whose parts, over t,
    go to those of x. What they lack of x is shared out, and y is brought into the balls, so that every step has an
    upper and a lower bound. x_j counts where t·x_j is as large as y_j: t grows until the small ones do.
    """
    members, starts, _ = groups
    best, covered = (
        CylinderSplit(np.zeros(members.size), np.inf, np.inf),
        np.zeros(x.size, dtype=bool),
    )
    covered[members] = True
    if not np.isfinite(x).all() or x[~covered].any():
        return best
    takes, free = _takes(groups, weights, x.size), np.zeros(x.size, dtype=bool)
    free[members[np.repeat(weights == 0, np.diff(starts))]] = True
    whole, x = x, np.where(free, 0.0, x)
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    x = x / largest
    held, y, lack, multipliers = weights > 0, 0.0 * x, 0.0 * x, np.zeros(weights.size)
    top = float(np.max(_norms(x[members], starts)[held] / weights[held], initial=0.0)) or 1.0
    t, least = STEP / top, float(x @ x) / top  # at x/top, which is in the balls
    for _ in range(STEPS):
        found = project(y + t * x, groups, weights, ROUNDED * t * least, 0.0, multipliers)
        v = found.parts / t
        native.renew_rest(x, v, members, lack)
        v += takes * lack[members]
        native.into_balls(found.y, members, starts, weights, y)
        gap = native.apart_from_support(y, v, members, starts, weights)
        if gap > best.gap / STEP:
            t *= STEP
        best = min(
            best, CylinderSplit(v, float(weights @ _norms(v, starts)), gap), key=lambda s: s.gap
        )
        if best.gap <= ENOUGH * best.value:
            break
    parts = largest * best.parts + takes * (free * whole)[members]
    return CylinderSplit(parts, largest * best.value, largest * best.gap)


def _norms(parts: Array, starts: NDArray[np.int64]) -> Array:
    norms: Array = np.sqrt(np.add.reduceat(parts**2, starts[:-1]))
    return norms


def _takes(groups: Members, weights: Array, size: int) -> Array:
    """How much of what is shared out each member of a group takes: nothing where another group has it for nothing."""
    members, starts, _ = groups
    costs = np.repeat(weights > 0, np.diff(starts))
    cheapest = np.ones(size, dtype=bool)
    np.minimum.at(cheapest, members, costs)
    asked = costs == cheapest[members]
    share: Array = asked / np.bincount(members, asked, size)[members]
    return share
