"""Newton steps on a small set from beginning to end, in one call.

T is the set as one dense matrix, a column of it in each row of T: all loops go along the samples, of which there are
many. Columns are less their means, with one of ones at the end, where there is an intercept. All features are in every
model, so that no working set is looked for; otherwise the steps are those of ``solvers/newton.py``, made of the same
pieces.
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
from reshuffle.kernels.gram import multiply
from reshuffle.kernels.loss import conjugate_at, loss_at
from reshuffle.kernels.newton import expand, lower
from reshuffle.kernels.options import KERNEL, LOOP
from reshuffle.kernels.passes import BLOCK
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
CONSTANT = 1e-14  # of a mean: a deviation that rounding explains
DEPENDENT = 1e-11  # of its terms: what rounding leaves of a sum that is zero


def hessian(T, curvatures, extra, factors, weights, paper): ...
def bend_along(curvatures, extra, factors, weights, change): ...
def reaches(curvatures, change, i): ...


@njit(**LOOP)
def gram(T, scales, scaled, out):
    """out = T diag(scales) T^T, the upper triangle: of columns times the roots of the scales, some rows at a time."""
    for j in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[j, k] = 0.0
    for i in range(scales.size):
        scales[i] = sqrt(scales[i])
    for start in range(0, scales.size, scaled.shape[1]):
        roots = scales[start : start + scaled.shape[1]]
        for j in range(out.shape[0]):
            column, to = T[j, start : start + roots.size], scaled[j]
            for i in range(roots.size):
                to[i] = roots[i] * column[i]
        multiply(scaled, roots.size, out)


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


@njit(**LOOP)
def take_means(T, weights, centre):
    """The columns less their means, and ones in the last one.

    What is left of a column that is a second intercept is the dust of rounding, and is taken away.
    """
    n = T.shape[1]
    for j in range(centre.size):
        total, most, column = 0.0, 0.0, T[j]
        for i in range(n):
            total += weights[i] * column[i] if weights.size > 0 else column[i]
        centre[j] = total / n
        for i in range(n):
            column[i] -= centre[j]
            most = max(most, abs(column[i]))
        if most <= CONSTANT * abs(centre[j]):
            for i in range(n):
                column[i] = 0.0
    for i in range(n):
        T[centre.size, i] = 1.0


@cache
def lay_kernel(stamp: int, has_conjugate: bool) -> Any:
    """Takes the means from the columns, where there is room for them in ``centre``; n f(0), and a bound below n f.

    ``row_weights`` are those of the samples, ``weights`` those of the losses: f >= -(1/n) sum_i w_i l*(0), where the
    loss has a conjugate.
    """

    @njit(**KERNEL)
    def kernel(T, row_weights, centre, targets, weights, params, zeros, coefs):
        if centre.size > 0:
            take_means(T, row_weights, centre)
        value, least = 0.0, 0.0
        for i in range(len(targets)):
            weight = weights[i] if weights.size > 0 else 1.0
            value += weight * loss_at(stamp, params, zeros[i], targets[i])
        if not has_conjugate:
            return value, -np.inf
        for i in range(len(targets)):
            weight = weights[i] if weights.size > 0 else 1.0
            least -= weight * conjugate_at(stamp, params, zeros, i, 1.0, targets[i], coefs)
        return value, least

    return kernel


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


@njit(**LOOP)
def put_back(centre, u, g, x, curvatures, bound):
    """x and g for the columns as they were given; how far f(x) may lie above f at u.

    The intercept b = b' - m^T x is rounded. One that is off by e shifts all margins, so that f grows by at most
    |slope of b| e + c e^2 / 2.
    """
    for j in range(u.size):
        x[j] = u[j]
    if centre.size == 0:
        return 0.0
    outputs = u.size // (centre.size + 1)
    last, bend, lost = centre.size * outputs, bound, 0.0
    if not bound < np.inf:
        bend = 0.0
        for c in curvatures.reshape(curvatures.size):
            bend = max(bend, c)
    for o in range(outputs):
        for j in range(centre.size):
            x[last + o] -= centre[j] * u[j * outputs + o]
            g[j * outputs + o] += centre[j] * g[last + o]
        terms = abs(x[last + o])
        for j in range(centre.size):
            terms += abs(centre[j] * u[j * outputs + o])
        shift = (centre.size + 2) * EPS * terms
        lost += abs(g[last + o]) * shift + 0.5 * bend * shift * shift
    return lost


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


def margins_of(T, start, d, out): ...
def gather(T, start, slopes, out): ...


@overload(margins_of, jit_options=LOOP)
def _margins_of(T, start, d, out):
    """out_i = d^T a_i, of rows from ``start`` on."""

    def vector(T, start, d, out):
        for i in range(out.size):
            out[i] = 0.0
        for j in range(d.size):
            c, column = d[j], T[j, start : start + out.size]
            if c != 0.0:
                for i in range(out.size):
                    out[i] += c * column[i]

    def matrix(T, start, d, out):
        for i in range(out.shape[0]):
            for o in range(out.shape[1]):
                out[i, o] = 0.0
        for j in range(d.shape[0]):
            column = T[j, start : start + out.shape[0]]
            for i in range(out.shape[0]):
                for o in range(out.shape[1]):
                    out[i, o] += column[i] * d[j, o]

    return vector if d.ndim == 1 else matrix


@njit(**LOOP)
def move(T, d, out):
    """out_i = d^T a_i."""
    for start in range(0, len(out), BLOCK):
        margins_of(T, start, d, out[start : start + BLOCK])


@overload(gather, jit_options=LOOP)
def _gather(T, start, slopes, out):
    """out += sum_i slopes_i a_i, over rows from ``start`` on."""

    def vector(T, start, slopes, out):
        for j in range(out.size):
            total, column = 0.0, T[j, start : start + slopes.size]
            for i in range(slopes.size):
                total += slopes[i] * column[i]
            out[j] += total

    def matrix(T, start, slopes, out):
        for j in range(out.shape[0]):
            column = T[j, start : start + slopes.shape[0]]
            for i in range(slopes.shape[0]):
                for o in range(slopes.shape[1]):
                    out[j, o] += column[i] * slopes[i, o]

    return vector if out.ndim == 1 else matrix


@njit(**LOOP)
def scale(slopes, weights, factor, out):
    """out_i = w_i factor slopes_i, flat over rows and outputs."""
    outputs = slopes.size // len(slopes)
    s, to = slopes.reshape(slopes.size), out.reshape(slopes.size)
    for i in range(len(slopes)):
        weight = weights[i] * factor if weights.size > 0 else factor
        for o in range(i * outputs, (i + 1) * outputs):
            to[o] = weight * s[o]


def linearise(
    stamp, T, targets, weights, params, x, margins, slopes, curvatures, out, scaled
): ...  # fmt: skip


@overload(linearise, jit_options=LOOP, prefer_literal=True)
def _linearise(stamp, T, targets, weights, params, x, margins, slopes, curvatures, out, scaled):
    """z, l'(z), l''(z) of every row, the gradient added to out; f."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def loop(stamp, T, targets, weights, params, x, margins, slopes, curvatures, out, scaled):
        n, total = len(targets), 0.0
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            y, w, z, s = (
                targets[start:stop],
                weights[start:stop],
                margins[start:stop],
                slopes[start:stop],
            )
            margins_of(T, start, x, z)
            total += expand(stamp, params, y, w, z, s, curvatures[start:stop])
            scale(s, w, 1.0 / n, scaled[start:stop])
            gather(T, start, scaled[start:stop], out)
        return total / n

    return loop
