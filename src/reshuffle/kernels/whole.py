"""Newton steps on a small set from beginning to end, in one call.

A is the set as one dense matrix: columns less their means, and a column of ones where there is an
intercept. All features are in every model, so that no working set is looked for; otherwise the steps
are those of ``solvers/newton.py``, made of the same pieces.
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
from reshuffle.kernels.newton import linearise, lower
from reshuffle.kernels.options import FAST, KERNEL, LOOP
from reshuffle.kernels.progress import adapted, another, from_below
from reshuffle.kernels.quadratic import minimise
from reshuffle.kernels.search import EPS, ROUNDING, search

ROUGH = 1e-3  # of a model's decrease, that its last round may gain: far from the end, near enough
FINE = 1e-10  # the same for a model that has to prove something
TRACE = 0.01  # of the rounding of P: gains that no one can see
ROUNDS = 100  # of the solver of a model: a face that still changes then is not worth the wait
SOLVED = 1e-3  # of the decrease (or the tolerance) that the last round of a model may have gained
SPARE = 10.0  # times what the last round gained: what the next ones might
DEPENDENT = 1e-11  # of its terms: what rounding leaves of a sum that is zero


def hessian(A, curvatures, extra, factors, weights, scaled, H): ...
def bend_along(curvatures, extra, factors, weights, change): ...
def reaches(curvatures, change, i): ...


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def add_gram(A, scales, scaled, out):
    """The upper triangle of A^T diag(scales) A, added to out; A has a multiple of four rows."""
    for i in range(scales.size):
        for j in range(A.shape[1]):
            scaled[i, j] = scales[i] * A[i, j]
    multiply(A, scaled, A.shape[0], out)


@overload(hessian, jit_options=LOOP)
def _hessian(A, curvatures, extra, factors, weights, scaled, H):
    """H = (1/n) sum_i w_i (curvature of row i) a_i a_i^T, both triangles, flat over features and outputs.

    The curvature is c_i factor_i + extra, or factor_i G(p) + extra (I - 11^T / K), where
    G(p) = (sum p) diag(p) - pp^T is the Laplacian of the weights p_k p_l.
    """

    def vector(A, curvatures, extra, factors, weights, scaled, H):
        n = curvatures.size
        scales = np.empty(n)
        for i in range(n):
            weight = weights[i] if weights.size > 0 else 1.0
            scales[i] = weight * (curvatures[i] * factors[i] + extra) / n
        H[:] = 0.0
        add_gram(A, scales, scaled, H)
        for j in range(H.shape[0]):
            for k in range(j):
                H[j, k] = H[k, j]

    def matrix(A, curvatures, extra, factors, weights, scaled, H):
        n, outputs = curvatures.shape
        width, scales = A.shape[1], np.empty(n)
        G = np.empty((width, width))
        H[:] = 0.0
        for k in range(outputs):
            for o in range(k):
                for i in range(n):
                    weight = weights[i] if weights.size > 0 else 1.0
                    both = factors[i] * curvatures[i, k] * curvatures[i, o] + extra / outputs
                    scales[i] = weight * both / n
                G[:] = 0.0
                add_gram(A, scales, scaled, G)
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


@njit(nogil=True, fastmath=FAST, error_model="numpy")
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
    """Newton steps from x, in place, until the bound is at most ``target``; see ``Whole``.

    ``numbers`` has damping, expected decrease and whether a model from below was tried on entry and
    exit, then the bound and whether no step lowers P, and counts of steps, passes and rounds.
    """

    @njit(**KERNEL)
    def kernel(
        A, targets, weights, params, form, bound_on_curvature, x, flat, margins, slopes, curvatures,
        g, g_flat, floor, target, at_zero, most, numbers,
    ):  # fmt: skip
        n, size = targets.size, flat.size
        nothing = np.empty(0, dtype=np.uint32)
        rows, starts = nothing, nothing
        coefs = np.empty_like(margins[:1])
        change, low = np.empty_like(margins), np.empty_like(margins)
        factors, radius, shares = np.ones(n), np.empty(n), np.empty(n)
        scaled, H = np.zeros(A.shape), np.empty((size, size))
        u, d, to, null = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
        step = np.empty_like(x)
        step_flat = step.reshape(size)
        damping, expected, seen = numbers[0], numbers[1], numbers[2]
        steps, passes, rounds, bound, stuck = 0, 1, 0, np.inf, False
        clip(form, flat)
        g[:] = 0.0
        value = linearise(
            stamp, A, rows, starts, targets, weights, params, False, x, coefs, 1.0 / n, margins,
            slopes, curvatures, g,
        ) / n  # fmt: skip
        psi = penalty_value(form, flat)
        while steps < most and bound > target and not stuck:
            objective = value + psi
            cap = from_below(damping, expected, target, at_zero, n)
            lowered, extra = cap > 0.0, 0.0
            if lowered:
                lower(
                    stamp, targets, weights, params, margins, slopes, curvatures, cap, low,
                    factors, radius, shares,
                )  # fmt: skip
            else:
                largest = bound_on_curvature
                if not largest < np.inf:
                    largest = np.max(curvatures)
                extra, low[:], factors[:] = damping * largest, curvatures, 1.0
            hessian(A, low, extra, factors, weights, scaled, H)
            for j in range(size):
                u[j], null[j] = flat[j], 0.0
            decrease, left, length, made = minimise(
                form, H, g_flat, flat, u, FINE if lowered else ROUGH, TRACE * EPS * abs(objective),
                ROUNDS, null,
            )  # fmt: skip
            slope = 0.0
            for j in range(size):
                d[j] = u[j] - flat[j]
                slope += g_flat[j] * d[j]
                step_flat[j] = d[j]
            move(A, step, change)
            t = search(
                stamp, form, targets, weights, params, margins, change, flat, d, slope, value, psi,
                to, coefs,
            )  # fmt: skip
            rounds, passes, bound = rounds + made, passes + 2, np.inf
            proved = lowered and decrease < np.inf
            proved = proved and left <= SOLVED * max(decrease, target)
            if proved and length > 0.0:  # a direction without curvature must leave all margins
                for j in range(size):
                    step_flat[j] = null[j]
                moved_by = np.empty_like(change)
                move(A, step, moved_by)
                bent = sqrt(max(bend_along(low, extra, factors, weights, moved_by), 0.0))
                proved = bent <= DEPENDENT * length and length < np.inf
                passes += 1
            proved = proved and stays_inside(low, radius, shares, change, decrease)
            now = objective
            if t > 0.0:
                spent = 0.0
                if extra > 0.0:
                    spent = bend_along(low, extra, factors, weights, change)
                    spent = 0.5 * (spent - bend_along(low, 0.0, factors, weights, change))
                for j in range(size):
                    flat[j] = to[j]
                g[:] = 0.0
                value = linearise(
                    stamp, A, rows, starts, targets, weights, params, False, x, coefs, 1.0 / n,
                    margins, slopes, curvatures, g,
                ) / n  # fmt: skip
                psi = penalty_value(form, flat)
                now = value + psi
                damping, expected = adapted(damping, decrease, t, objective - now, lowered, spent)
                seen, passes, steps = 0.0, passes + 1, steps + 1
            if proved:
                left = max(decrease - (objective - now), 0.0) + SPARE * left
                bound = left + ROUNDING * abs(objective)
            bound = min(bound, max(now - floor, 0.0) + ROUNDING * abs(now))
            if t == 0.0 and bound > target:
                again, damping, expected, seen = another(damping, expected, seen, decrease)
                stuck = not again
        numbers[0], numbers[1], numbers[2], numbers[3] = damping, expected, seen, bound
        numbers[4], numbers[5], numbers[6], numbers[7] = stuck, steps, passes, rounds
        return value, psi

    return kernel


def move(A, d, out): ...


@overload(move, jit_options=LOOP)
def _move(A, d, out):
    """out = A d."""

    def vector(A, d, out):
        for i in range(out.size):
            total = 0.0
            for j in range(d.size):
                total += A[i, j] * d[j]
            out[i] = total

    def matrix(A, d, out):
        for i in range(out.shape[0]):
            for o in range(out.shape[1]):
                out[i, o] = 0.0
            for j in range(d.shape[0]):
                for o in range(out.shape[1]):
                    out[i, o] += A[i, j] * d[j, o]

    return vector if d.ndim == 1 else matrix
