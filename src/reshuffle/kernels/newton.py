"""What a Newton step needs from the rows: one linearisation, and curvatures from below.

For z_i = a_i^T x + b the pass of ``linearise`` gives l, l', l'' of every row and the gradient.
The Hessian is a weighted Gram matrix (``kernels/gram.py``). Every loop runs on one thread in a fixed
order.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.elementary import for_rows
from reshuffle.kernels.loss import keep, loss_at, put, register, slope_in_pass
from reshuffle.kernels.options import KERNEL, LOOP, OPTIONS
from reshuffle.kernels.passes import BLOCK
from reshuffle.kernels.rows import add_bias, add_row, margin
from reshuffle.kernels.stamp import stamp_of

SECONDS: dict[int, Any] = {}
"""Stamp of a loss with its second derivative -> that derivative, compiled."""
EXPANSIONS: dict[int, Any] = {}
"""The same stamp -> value and both derivatives in one function, where the loss has one."""

TINY = 1e-250  # a curvature that is as good as none: its square root and inverse stay finite
WIDE = 1.0  # a change of softmax's margins: beyond it little is left of the curvature
REACH = 2.1  # times what a model of the expected decrease reaches: 2 is needed, 2.1 leaves room
TURNS = 4  # in which radius and curvature find to each other; rows that do not are left out


@cache
def register_second(
    functions: tuple[Callable[..., Any], ...],
    second: Callable[..., Any],
    expansion: Callable[..., Any] | None = None,
) -> int:
    """Make a loss and its second derivative known to these kernels; the stamp to ask for them."""
    stamp = stamp_of(*functions, second, *([expansion] if expansion else []))
    register(stamp, *functions)
    if stamp not in SECONDS:
        SECONDS[stamp] = njit(**LOOP)(for_rows(second))
        if expansion is not None:
            EXPANSIONS[stamp] = njit(**LOOP)(for_rows(expansion))
    return stamp


def bend(stamp, params, curvatures, i, z, y): ...
def expand(stamp, params, targets, weights, margins, slopes, curvatures): ...
def linearise(
    stamp, values, indices, indptr, targets, weights, params, bias, x, coefs, factor, margins,
    slopes, curvatures, out, total,
): ...  # fmt: skip
def lower(
    stamp, targets, weights, params, concordance, margins, slopes, curvatures, cap, low, factors,
    radius, shares,
): ...  # fmt: skip


@overload(bend, jit_options=OPTIONS, prefer_literal=True)
def _bend(stamp, params, curvatures, i, z, y):
    """curvatures[i] = l''(z, y), or the p of the Hessian diag(p) - pp^T."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None
    second = SECONDS[stamp.literal_value]

    def vector(stamp, params, curvatures, i, z, y):
        curvatures[i] = second(z, y, *params)

    def matrix(stamp, params, curvatures, i, z, y):
        for o in range(curvatures.shape[1]):
            curvatures[i, o] = z[o]
        second(curvatures[i], y, *params)

    return vector if curvatures.ndim == 1 else matrix


@overload(expand, jit_options=LOOP, prefer_literal=True)
def _expand(stamp, params, targets, weights, margins, slopes, curvatures):
    """l'(z), l''(z) of a block of rows, from their margins; sum_i w_i l_i."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None
    expansion = EXPANSIONS.get(stamp.literal_value)

    def apart(stamp, params, targets, weights, margins, slopes, curvatures):
        total = 0.0
        for k in range(len(targets)):
            weight = weights[k] if weights.size > 0 else 1.0
            total += weight * loss_at(stamp, params, margins[k], targets[k])
        for k in range(len(targets)):
            bend(stamp, params, curvatures, k, margins[k], targets[k])
            put(slopes, k, margins[k])
            keep(slopes, k, 1.0, slope_in_pass(stamp, params, slopes[k], targets[k]))
        return total

    def together(stamp, params, targets, weights, margins, slopes, curvatures):
        return expansion(margins, targets, weights, slopes, curvatures, *params)

    return apart if expansion is None else together


@overload(linearise, jit_options=LOOP, prefer_literal=True)
def _linearise(
    stamp, values, indices, indptr, targets, weights, params, bias, x, coefs, factor, margins,
    slopes, curvatures, out, total,
):  # fmt: skip
    """z, l'(z), l''(z) of every row, factor * sum_i w_i l'_i a_i added to out; total + sum_i w_i l_i."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def loop(
        stamp, values, indices, indptr, targets, weights, params, bias, x, coefs, factor, margins,
        slopes, curvatures, out, total,
    ):  # fmt: skip
        for start in range(0, len(targets), BLOCK):
            stop = min(start + BLOCK, len(targets))
            z, s, c = margins[start:stop], slopes[start:stop], curvatures[start:stop]
            y, w = targets[start:stop], weights[start:stop]
            for i in range(start, stop):
                put(margins, i, margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0))
            part = expand(stamp, params, y, w, z, s, c)
            for i in range(start, stop):
                weight = weights[i] if weights.size > 0 else 1.0
                add_row(values, indices, indptr, i, weight * factor, slopes, i, out)
                if bias:
                    add_bias(weight * factor, slopes, i, out)
            total += part
        return total

    return loop


@overload(lower, jit_options=LOOP, prefer_literal=True)
def _lower(
    stamp, targets, weights, params, concordance, margins, slopes, curvatures, cap, low, factors,
    radius, shares,
):  # fmt: skip
    """Curvatures from below, for a model whose decrease is at most ``cap``.

    (change of the margins of row i)^2 <= 2 (decrease of the model's quadratic) / shares_i. Rows that
    count with no curvature have no radius (infinity): convexity is enough for them.
    """
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def vector(
        stamp, targets, weights, params, concordance, margins, slopes, curvatures, cap, low,
        factors, radius, shares,
    ):  # fmt: skip
        # l(z_i + v) >= l + l' v + low_i v^2 / 2 for |v| <= radius_i, and the radius is twice what a
        # model of that decrease can reach, 2 sqrt(2 cap n / (w_i low_i)), with a little room.
        n = len(targets)
        for i in range(n):
            factors[i], shares[i] = 1.0, 1.0
        if weights.size > 0:
            for i in range(n):
                shares[i] = weights[i]
        if cap == np.inf:  # the curvature is the same everywhere
            for i in range(n):
                low[i], radius[i] = curvatures[i], np.inf
        elif concordance < np.inf:
            for i in range(n):
                share, radius[i] = kept_within(shares[i] * curvatures[i], cap * n, concordance)
                low[i] = share * curvatures[i]
        else:
            for i in range(n):
                low[i], radius[i] = least_secant(
                    stamp, targets[i], shares[i], params, margins[i], slopes[i], curvatures[i],
                    cap * n,
                )  # fmt: skip
        for i in range(n):
            shares[i] *= low[i] / n

    def matrix(
        stamp, targets, weights, params, concordance, margins, slopes, curvatures, cap, low,
        factors, radius, shares,
    ):  # fmt: skip
        # Softmax; S are the outputs whose p is not too small. Jensen: log sum_k p_k e^{v_k} >=
        # s log sum_S (p_k/s) e^{v_k} + sum_{not S} p_k v_k with s = sum_S p, with the same slope at
        # v = 0. The first term has a third cumulant of at most the range of v on S times its variance,
        # and its curvature at v = 0 is the Laplacian of p_k p_l / s; range^2 <= 2 curvature / min_S p.
        n, outputs = curvatures.shape
        for i in range(n):
            weight = weights[i] if weights.size > 0 else 1.0
            need = 4.0 * cap * n / weight if weight > 0.0 else np.inf
            total, least, count = 0.0, np.inf, 0
            for k in range(outputs):
                p = curvatures[i, k]
                inside = p * (WIDE / REACH) ** 2 >= need
                low[i, k] = p if inside else 0.0
                if inside:
                    total, least, count = total + p, min(least, p), count + 1
            factor, r = 0.0, np.inf
            if count >= 2:
                factor, r = kept_within(0.5 * weight * least, cap * n, concordance)
            if not factor > 0.0:
                least, total = 0.0, 1.0
            for k in range(outputs):
                low[i, k] = low[i, k] / sqrt(total) if factor > 0.0 else 0.0
            factors[i], radius[i], shares[i] = factor, r, 0.5 * weight * least * factor / n

    return vector if curvatures.ndim == 1 else matrix


@njit(**OPTIONS)
def kept_within(curvature, cap, concordance):
    """What is left of a curvature within a radius that no model of this decrease leaves, and that radius.

    Where |l'''| <= M l'', a step v takes l up by l' v and at least 2 (e^-t + t - 1) / t^2 of l'' v^2 / 2,
    t = M |v|. That share falls in t, and is at least 1 / (1 + t/6)^2: the difference, times t^2 (1 + t/6)^2,
    is zero with its first two derivatives at t = 0, and its third is (1 - e^-t (1 + t + t^2/6)) / 3 >= 0.
    For a radius of REACH sqrt(2 cap / (share * curvature)), with a = M REACH sqrt(2 cap / curvature), so
    t = a / sqrt(share), this asks for sqrt(share) = 1 - a/6.
    """
    a = concordance * REACH * sqrt(2.0 * cap / max(curvature, TINY))
    root = 1.0 - a / 6.0
    some = root > 0.0 and curvature * root * root > TINY
    return (root * root, a / (concordance * root)) if some else (0.0, np.inf)


@njit(**LOOP)
def least_secant(stamp, y, weight, params, z, slope, curvature, cap):
    """A curvature from below and its radius for an l'' with one peak.

    The mean curvature over [z, z + v] is then least at an end, so the least of l''(z) and
    (l'(z ± r) - l'(z)) / (± r) will do. The radius is wide enough for the difference of slopes to have six
    digits.
    """
    c, r = curvature, np.inf
    for _ in range(TURNS):  # the radius grows as the curvature falls
        if not c * weight > TINY:
            break
        r = REACH * sqrt(2.0 * cap / (weight * c)) + 1e-10 * abs(slope) / c
        up = (slope_in_pass(stamp, params, z + r, y) - slope) / r
        down = (slope - slope_in_pass(stamp, params, z - r, y)) / r
        c = min(curvature, min(up, down))
        if c * weight > TINY and 2.0 * sqrt(2.0 * cap / (weight * c)) <= r:
            return c, r
    return 0.0, np.inf  # too little to matter: convexity alone


@cache
def linearise_kernel(stamp: int) -> Any:
    @njit(**KERNEL)
    def kernel(
        values, indices, indptr, targets, weights, params, bias, x, coefs, factor, margins, slopes,
        curvatures, out, total,
    ):  # fmt: skip
        return linearise(
            stamp, values, indices, indptr, targets, weights, params, bias, x, coefs, factor,
            margins, slopes, curvatures, out, total,
        )  # fmt: skip

    return kernel


@cache
def expand_kernel(stamp: int) -> Any:
    """The same from margins that are known; total + sum_i w_i l_i."""

    @njit(**KERNEL)
    def kernel(targets, weights, params, margins, slopes, curvatures, total):
        for start in range(0, len(targets), BLOCK):
            stop = min(start + BLOCK, len(targets))
            y, w, z = targets[start:stop], weights[start:stop], margins[start:stop]
            total += expand(stamp, params, y, w, z, slopes[start:stop], curvatures[start:stop])
        return total

    return kernel


@cache
def lower_kernel(stamp: int) -> Any:
    @njit(**KERNEL)
    def kernel(
        targets, weights, params, concordance, margins, slopes, curvatures, cap, low, factors,
        radius, shares,
    ):  # fmt: skip
        lower(
            stamp, targets, weights, params, concordance, margins, slopes, curvatures, cap, low,
            factors, radius, shares,
        )  # fmt: skip

    return kernel
