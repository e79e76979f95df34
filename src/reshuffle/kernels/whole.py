"""Newton steps on a small set from beginning to end, in one call.

The set is laid out column by column (``kernels/laid.py``). All features are in every model, so that no working set is
looked for; otherwise the steps are those of ``solvers/newton.py``, made of the same pieces.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.faces import clip, penalty_value
from reshuffle.kernels.laid import gram, linearise, move, put_back
from reshuffle.kernels.newton import lower
from reshuffle.kernels.options import KERNEL, LOOP
from reshuffle.kernels.progress import adapted, another, from_below
from reshuffle.kernels.quadratic import minimise
from reshuffle.kernels.room import paper_on, room_in
from reshuffle.kernels.search import EPS, ROUNDING, search

ROUGH = 1e-3  # of a model's decrease, that its last round may gain: far from the end, near enough
FINE = 1e-10  # the same for a model that has to prove something
TRACE = 0.01  # of the rounding of P: gains that no one can see
ROUNDS = 100  # of the solver of a model: a face that still changes then is not worth the wait
SOLVED = 1e-3  # of the decrease (or the tolerance) that the last round of a model may have gained
SPARE = 10.0  # times what the last round gained: what the next ones might
DEPENDENT = 1e-11  # of its terms: what rounding leaves of a sum that is zero


def hessian(T, curvatures, extra, factors, weights, paper): ...
def bend_along(curvatures, extra, factors, weights, change): ...
def reaches(curvatures, change, i): ...


@overload(hessian, jit_options=LOOP)
def _hessian(T, curvatures, extra, factors, weights, paper):
    """H = (1/n) sum_i w_i (curvature of row i) a_i a_i^T, both triangles, flat over features and outputs.

    The curvature is c_i factor_i + extra, or factor_i G(p) + extra (I - 11^T / K), where
    G(p) = (sum p) diag(p) - pp^T is the Laplacian of the weights p_k p_l.
    """

    def vector(T, curvatures, extra, factors, weights, paper):
        n, H, scales = curvatures.size, paper.H, paper.scales
        for i in range(n):
            weight = weights[i] if weights.size > 0 else 1.0
            scales[i] = weight * (curvatures[i] * factors[i] + extra) / n
        gram(T, scales, paper.scaled, H)
        for j in range(H.shape[0]):
            for k in range(j):
                H[j, k] = H[k, j]

    def matrix(T, curvatures, extra, factors, weights, paper):
        n, outputs = curvatures.shape
        G, H, scales, width = paper.gram, paper.H, paper.scales, T.shape[0]
        for j in range(H.shape[0]):
            for k in range(H.shape[1]):
                H[j, k] = 0.0
        for k in range(outputs):
            for o in range(k):
                for i in range(n):
                    weight = weights[i] if weights.size > 0 else 1.0
                    both = factors[i] * curvatures[i, k] * curvatures[i, o] + extra / outputs
                    scales[i] = weight * both / n
                gram(T, scales, paper.scaled, G)
                for a in range(width):
                    for b in range(width):
                        entry = G[a, b] if a <= b else G[b, a]
                        H[a * outputs + k, b * outputs + o] = -entry
                        H[a * outputs + o, b * outputs + k] = -entry
                        H[a * outputs + k, b * outputs + k] += entry
                        H[a * outputs + o, b * outputs + o] += entry

    return vector if curvatures.ndim == 1 else matrix


@overload(bend_along, jit_options=LOOP)
def _bend_along(curvatures, extra, factors, weights, change):
    """(1/n) sum_i w_i change_i^T (curvature of row i) change_i, a common shift of outputs left out."""

    def vector(curvatures, extra, factors, weights, change):
        total = 0.0
        for i in range(change.size):
            weight = weights[i] if weights.size > 0 else 1.0
            total += weight * (curvatures[i] * factors[i] + extra) * change[i] * change[i]
        return total / change.size

    def matrix(curvatures, extra, factors, weights, change):
        n, outputs = change.shape
        total = 0.0
        for i in range(n):
            weight = weights[i] if weights.size > 0 else 1.0
            part = 0.0
            for k in range(outputs):
                for o in range(k):
                    both = factors[i] * curvatures[i, k] * curvatures[i, o] + extra / outputs
                    part += both * (change[i, k] - change[i, o]) ** 2
            total += weight * part
        return total / n

    return vector if curvatures.ndim == 1 else matrix


@overload(reaches, jit_options=LOOP)
def _reaches(curvatures, change, i):
    """How far the margins of row i move, where they have curvature."""

    def vector(curvatures, change, i):
        return abs(change[i])

    def matrix(curvatures, change, i):
        most, least = -np.inf, np.inf
        for k in range(change.shape[1]):
            if curvatures[i, k] > 0.0:
                most, least = max(most, change[i, k]), min(least, change[i, k])
        return most - least

    return vector if curvatures.ndim == 1 else matrix


@cache
def proof_kernel(stamp: int) -> Any:
    @njit(**KERNEL)
    def kernel(curvatures, radius, shares, change, decrease):
        _ = stamp
        return stays_inside(curvatures, radius, shares, change, decrease)

    return kernel


@njit(**LOOP)
def stays_inside(curvatures, radius, shares, change, decrease):
    """Whether no point below a model from below lies outside the radius of a row."""
    for i in range(radius.size):
        if radius[i] < np.inf:
            further = sqrt(2.0 * decrease / shares[i])
            if not reaches(curvatures, change, i) + further <= radius[i]:
                return False
    return True


@cache
def whole_kernel(stamp: int) -> Any:
    """Newton steps from u, in place, until the bound is at most ``target``; see ``Whole``.

    u is the unknown for columns less ``centre``, which is empty where these are as they were given; at the end x is the
    same for those, g the gradient there, and ``at`` has margins, slopes and curvatures. ``numbers`` has damping,
    expected decrease and whether a model from below was tried on entry and exit, then the bound and whether no step
    lowers P, and counts of steps, passes and rounds.
    """

    @njit(**KERNEL)
    def kernel(
        T, centre, targets, weights, params, form, bound_on_curvature, concordance, u, x, g, step, coefs,
        at, loose, floor, target, at_zero, most, pad, rented, numbers,
    ):  # fmt: skip
        n, size = len(targets), u.size
        flat, g_flat, step_flat = u.reshape(size), g.reshape(size), step.reshape(size)
        paper, room = paper_on(pad), room_in(rented)
        margins, slopes, curvatures = at[0], at[1], at[2]
        change, low, factors = paper.change, paper.low, paper.factors
        best, d, to = paper.best, paper.d, paper.to
        damping, expected, seen = numbers[0], numbers[1], numbers[2]
        steps, passes, rounds, bound, stuck = 0, 0, 0, np.inf, False
        value, psi, before, decrease, left, spent, t = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        moved, lowered, proved = True, False, False
        clip(form, flat)
        while True:
            if moved:
                for j in range(size):
                    g_flat[j] = 0.0
                before = value + psi
                value = linearise(
                    stamp, T, targets, weights, params, u, margins, slopes, curvatures, g, change
                )
                psi, passes = penalty_value(form, flat), passes + 1
            now = value + psi
            if passes > 1:
                gained = before - now if moved else 0.0
                if moved:
                    damping, expected = adapted(damping, decrease, t, gained, lowered, spent)
                    seen = 0.0
                bound = max(now - floor, 0.0) + ROUNDING * abs(now)
                if proved:
                    rest = max(decrease - gained, 0.0) + SPARE * left
                    bound = min(bound, rest + ROUNDING * abs(now + gained))
                if not moved and not bound <= target:  # NaN too
                    again, damping, expected, seen = another(damping, expected, seen, decrease)
                    stuck = not again
            if bound <= target or stuck or steps == most:
                break
            cap = from_below(damping, expected, target, at_zero, n)
            lowered, extra = cap > 0.0, 0.0
            if lowered:
                lower(
                    stamp, targets, weights, params, concordance, margins, slopes, curvatures, cap,
                    low, factors, paper.radius, paper.shares,
                )  # fmt: skip
            else:
                extra = damping * plain(curvatures, bound_on_curvature, low, factors)
            hessian(T, low, extra, factors, weights, paper)
            for j in range(size):
                best[j], room.null[j] = flat[j], 0.0
            decrease, left, length, made = minimise(
                form, paper.H, g_flat, flat, best, FINE if lowered else ROUGH,
                TRACE * EPS * abs(now), ROUNDS, room,
            )  # fmt: skip
            proved = lowered and decrease < np.inf
            proved = proved and left <= SOLVED * max(decrease, target)
            if proved and length > 0.0:  # a direction without curvature must leave all margins
                for j in range(size):
                    step_flat[j] = room.null[j]
                move(T, step, change)
                bent = sqrt(max(bend_along(low, extra, factors, weights, change), 0.0))
                proved = bent <= DEPENDENT * length and length < np.inf
                passes += 1
            slope = 0.0
            for j in range(size):
                step_flat[j] = best[j] - flat[j]
            still(step, loose)
            for j in range(size):
                d[j] = step_flat[j]
                slope += g_flat[j] * d[j]
            move(T, step, change)
            proved = proved and stays_inside(low, paper.radius, paper.shares, change, decrease)
            t = search(
                stamp, form, targets, weights, params, margins, change, flat, d, slope, value, psi,
                to, coefs,
            )  # fmt: skip
            rounds, passes, moved, spent = rounds + made, passes + 2, t > 0.0, 0.0
            if moved:
                if extra > 0.0:
                    spent = bend_along(low, extra, factors, weights, change)
                    spent = 0.5 * (spent - bend_along(low, 0.0, factors, weights, change))
                for j in range(size):
                    flat[j] = to[j]
                steps += 1
        bound += put_back(centre, flat, g_flat, x.reshape(size), curvatures, bound_on_curvature)
        numbers[0], numbers[1], numbers[2], numbers[3] = damping, expected, seen, bound
        numbers[4], numbers[5], numbers[6], numbers[7] = stuck, steps, passes, rounds
        return value, psi

    return kernel


def still(step, loose): ...


@overload(still, jit_options=LOOP)
def _still(step, loose):
    """A common shift of all outputs taken out of the rows that no penalty holds: it changes nothing.

    Softmax is flat along it, and rounding would carry x away.
    """

    def vector(step, loose):
        return None

    def matrix(step, loose):
        for j in range(step.shape[0]):
            if loose[j]:
                mean = 0.0
                for k in range(step.shape[1]):
                    mean += step[j, k]
                mean /= step.shape[1]
                for k in range(step.shape[1]):
                    step[j, k] -= mean

    return vector if step.ndim == 1 else matrix


def plain(curvatures, bound, low, factors): ...


@overload(plain, jit_options=LOOP)
def _plain(curvatures, bound, low, factors):
    """low <- the curvatures as they are; a bound on them, or the largest where the loss has none."""

    def vector(curvatures, bound, low, factors):
        largest = 0.0
        for i in range(curvatures.size):
            low[i], factors[i] = curvatures[i], 1.0
            largest = max(largest, curvatures[i])
        return bound if bound < np.inf else largest

    def matrix(curvatures, bound, low, factors):
        largest = 0.0
        for i in range(curvatures.shape[0]):
            factors[i] = 1.0
            for k in range(curvatures.shape[1]):
                low[i, k] = curvatures[i, k]
                largest = max(largest, curvatures[i, k])
        return bound if bound < np.inf else largest

    return vector if curvatures.ndim == 1 else matrix
