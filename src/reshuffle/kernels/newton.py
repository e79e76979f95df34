"""What a Newton step needs from the rows: one linearisation, and curvatures from below.

For z_i = a_i^T x + b the pass of ``linearise`` gives l, l', l'' of every row and the gradient.
The Hessian is a weighted Gram matrix (``kernels/gram.py``). Every loop runs on one thread in a fixed
order.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import expm1, sqrt
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.loss import keep, loss_at, register, slope
from reshuffle.kernels.options import FAST, KERNEL, LOOP, OPTIONS
from reshuffle.kernels.passes import BLOCK
from reshuffle.kernels.rows import add_bias, add_row, margin
from reshuffle.kernels.stamp import stamp_of

SECONDS: dict[int, Any] = {}
"""Stamp of a loss with its second derivative -> that derivative, compiled."""

TINY = 1e-250  # a curvature that is as good as none: its square root and inverse stay finite
WIDE = 1.0  # a change of softmax's margins: beyond it little is left of the curvature
SMALL = 1e-5  # below it e^-r + r - 1 is lost in rounding
REACH = 2.1  # times what a model of the expected decrease reaches: 2 is needed, 2.1 leaves room
TURNS = 4  # in which radius and curvature find to each other; rows that do not are left out


@cache
def register_second(functions: tuple[Callable[..., Any], ...], second: Callable[..., Any]) -> int:
    """Make a loss and its second derivative known to these kernels; the stamp to ask for them."""
    stamp = stamp_of(*functions, second)
    register(stamp, *functions)
    if stamp not in SECONDS:
        SECONDS[stamp] = njit(fastmath=FAST, error_model="numpy")(second)
    return stamp


def bend(stamp, params, curvatures, i, z, y): ...
def put(array, i, z): ...
def linearise(
    stamp, values, indices, indptr, targets, weights, params, bias, x, coefs, factor, margins,
    slopes, curvatures, out, total,
): ...  # fmt: skip
def lower(
    stamp, targets, weights, params, margins, slopes, curvatures, cap, low, factors, radius, shares
): ...


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


@overload(put, jit_options=OPTIONS)
def _put(array, i, z):
    def vector(array, i, z):
        array[i] = z

    def matrix(array, i, z):
        for o in range(array.shape[1]):
            array[i, o] = z[o]

    return vector if array.ndim == 1 else matrix


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
            part = 0.0
            for i in range(start, min(start + BLOCK, len(targets))):
                z = margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0)
                put(margins, i, z)
                loss = loss_at(stamp, params, z, targets[i])
                bend(stamp, params, curvatures, i, z, targets[i])
                keep(coefs, 0, 1.0, slope(stamp, params, z, targets[i]))
                slopes[i] = coefs[0]
                weight = weights[i] if weights.size > 0 else 1.0
                part += weight * loss
                add_row(values, indices, indptr, i, weight * factor, coefs, 0, out)
                if bias:
                    add_bias(weight * factor, coefs, 0, out)
            total += part
        return total

    return loop


@overload(lower, jit_options=LOOP, prefer_literal=True)
def _lower(
    stamp, targets, weights, params, margins, slopes, curvatures, cap, low, factors, radius, shares
):
    """Curvatures from below, for a model whose decrease is at most ``cap``.

    (change of the margins of row i)^2 <= 2 (decrease of the model's quadratic) / shares_i. Rows that
    count with no curvature have no radius (infinity): convexity is enough for them.
    """
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def vector(
        stamp, targets, weights, params, margins, slopes, curvatures, cap, low, factors, radius,
        shares,
    ):  # fmt: skip
        # l(z_i + v) >= l + l' v + low_i v^2 / 2 for |v| <= radius_i. For an l'' with one peak the mean
        # curvature over [z, z + v] is least at an end, so the least of l''(z) and
        # (l'(z ± r) - l'(z)) / (± r) will do. The radius is twice what a model of that decrease can
        # reach, 2 sqrt(2 cap n / (w_i low_i)), and wide enough for the difference of slopes to have
        # six digits.
        n = len(targets)
        for i in range(n):
            weight = weights[i] if weights.size > 0 else 1.0
            c, r = curvatures[i], np.inf
            if cap == np.inf:  # the curvature is the same everywhere
                low[i], factors[i], radius[i], shares[i] = c, 1.0, r, weight * c / n
                continue
            for _ in range(TURNS):  # the radius grows as the curvature falls
                if not c * weight > TINY:
                    c, r = 0.0, np.inf
                    break
                r = REACH * sqrt(2.0 * cap * n / (weight * c)) + 1e-10 * abs(slopes[i]) / c
                up = (slope(stamp, params, margins[i] + r, targets[i]) - slopes[i]) / r
                down = (slopes[i] - slope(stamp, params, margins[i] - r, targets[i])) / r
                c = min(curvatures[i], min(up, down))
                if 2.0 * sqrt(2.0 * cap * n / (weight * c)) <= r:
                    break
            if not c * weight > TINY or not 2.0 * sqrt(2.0 * cap * n / (weight * c)) <= r:
                c, r = 0.0, np.inf  # too little to matter: convexity alone
            low[i], factors[i], radius[i], shares[i] = c, 1.0, r, weight * c / n

    def matrix(
        stamp, targets, weights, params, margins, slopes, curvatures, cap, low, factors, radius,
        shares,
    ):  # fmt: skip
        # Softmax; S are the outputs whose p is not too small. Jensen: log sum_k p_k e^{v_k} >=
        # s log sum_S (p_k/s) e^{v_k} + sum_{not S} p_k v_k with s = sum_S p, with the same slope at
        # v = 0. Where v has a range of at most r on S, the curvature of the first term is at least
        # 2 (e^-r + r - 1) / r^2 of that at v = 0 (a third cumulant is at most r times the variance),
        # which is the Laplacian of p_k p_l / s; and r^2 <= 2 curvature / min_S p.
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
            factor, r = 1.0, np.inf
            for _ in range(TURNS if count >= 2 else 0):
                r = REACH * sqrt(need / (least * factor)) + SMALL
                factor = 2.0 * (expm1(-r) + r) / (r * r)
            if count < 2 or not 2.0 * sqrt(need / (least * factor)) <= r:
                factor, r, least, total = 0.0, np.inf, 0.0, 1.0
            for k in range(outputs):
                low[i, k] = low[i, k] / sqrt(total) if factor > 0.0 else 0.0
            factors[i], radius[i], shares[i] = factor, r, 0.5 * weight * least * factor / n

    return vector if curvatures.ndim == 1 else matrix


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
def lower_kernel(stamp: int) -> Any:
    @njit(**KERNEL)
    def kernel(
        targets, weights, params, margins, slopes, curvatures, cap, low, factors, radius, shares
    ):
        lower(
            stamp, targets, weights, params, margins, slopes, curvatures, cap, low, factors,
            radius, shares,
        )  # fmt: skip

    return kernel
