"""What a Newton step needs from the rows: one linearisation, and P along a line.

For z_i = a_i^T x + b the pass of ``linearise_kernel`` gives l, l', l'' of every row and the gradient.
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

from reshuffle.kernels.loss import keep, loss_at, register, slope
from reshuffle.kernels.options import FAST, KERNEL, OPTIONS
from reshuffle.kernels.passes import BLOCK
from reshuffle.kernels.rows import add_bias, add_row, margin
from reshuffle.kernels.stamp import stamp_of

SECONDS: dict[int, Any] = {}
"""Stamp of a loss with its second derivative -> that derivative, compiled."""

TINY = 1e-250  # a curvature that is as good as none: its square root and inverse stay finite


def register_second(functions: tuple[Callable[..., Any], ...], second: Callable[..., Any]) -> int:
    """Make a loss and its second derivative known to these kernels; the stamp to ask for them."""
    stamp = stamp_of(*functions, second)
    register(stamp, *functions)
    if stamp not in SECONDS:
        SECONDS[stamp] = njit(fastmath=FAST, error_model="numpy")(second)
    return stamp


def bend(stamp, params, curvatures, i, z, y): ...
def move(coefs, z, dz, t, i): ...
def project(coefs, dz, i, g): ...
def put(array, i, z): ...


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


@overload(move, jit_options=OPTIONS)
def _move(coefs, z, dz, t, i):
    """z_i + t dz_i."""

    def vector(coefs, z, dz, t, i):
        return z[i] + t * dz[i]

    def matrix(coefs, z, dz, t, i):
        for o in range(coefs.shape[1]):
            coefs[0, o] = z[i, o] + t * dz[i, o]
        return coefs[0]

    return vector if z.ndim == 1 else matrix


@overload(project, jit_options=OPTIONS)
def _project(coefs, dz, i, g):
    """<g, dz_i>."""

    def vector(coefs, dz, i, g):
        return g * dz[i]

    def matrix(coefs, dz, i, g):
        total = 0.0
        for o in range(dz.shape[1]):
            total += g[o] * dz[i, o]
        return total

    return vector if dz.ndim == 1 else matrix


@cache
def linearise_kernel(stamp: int) -> Any:
    """z, l'(z), l''(z) of every row, factor * sum_i w_i l'_i a_i added to out; sum_i w_i l_i."""

    @njit(**KERNEL)
    def linearise(
        values, indices, indptr, targets, weights, params, bias, x, coefs, factor, margins, slopes,
        curvatures, out,
    ):  # fmt: skip
        total = 0.0
        for start in range(0, targets.size, BLOCK):
            part = 0.0
            for i in range(start, min(start + BLOCK, targets.size)):
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

    return linearise


@cache
def line_kernel(stamp: int) -> Any:
    """sum_i w_i l(z_i + t dz_i) and its derivative in t: no row is read."""

    @njit(**KERNEL)
    def along(targets, weights, params, margins, change, t, coefs):
        total, rise = 0.0, 0.0
        for start in range(0, targets.size, BLOCK):
            part, part_rise = 0.0, 0.0
            for i in range(start, min(start + BLOCK, targets.size)):
                weight = weights[i] if weights.size > 0 else 1.0
                z = move(coefs, margins, change, t, i)
                part += weight * loss_at(stamp, params, z, targets[i])
                g = slope(stamp, params, z, targets[i])
                part_rise += weight * project(coefs, change, i, g)
            total += part
            rise += part_rise
        return total, rise

    return along


@cache
def lower_kernel(stamp: int) -> Any:
    """Curvatures from below: l(z_i + v) >= l + l' v + out_i v^2 / 2 for |v| <= radius_i.

    For an l'' with one peak the mean curvature over [z, z + v] is least at an end, so the least of
    l''(z) and (l'(z ± r) - l'(z)) / (± r) will do. The radius is twice what a model of decrease
    ``cap`` can reach, 2 sqrt(2 cap n / (w_i out_i)), and wide enough for the difference of slopes to
    have six digits. Rows without curvature have no radius (infinity): convexity is enough for them.
    """

    @njit(**KERNEL)
    def lower(targets, weights, params, margins, slopes, curvatures, cap, out, radius):
        n = targets.size
        for i in range(n):
            weight = weights[i] if weights.size > 0 else 1.0
            c, r = curvatures[i], np.inf
            for _ in range(4):  # the radius grows as the curvature falls, mostly to a fixed point
                if not c * weight > TINY:
                    c, r = 0.0, np.inf
                    break
                r = 2.1 * sqrt(2.0 * cap * n / (weight * c)) + 1e-10 * abs(slopes[i]) / c
                up = (slope(stamp, params, margins[i] + r, targets[i]) - slopes[i]) / r
                down = (slopes[i] - slope(stamp, params, margins[i] - r, targets[i])) / r
                c = min(curvatures[i], min(up, down))
            if not c * weight > TINY or not 2.0 * sqrt(2.0 * cap * n / (weight * c)) <= r:
                c, r = 0.0, np.inf  # too little to matter: convexity alone
            out[i], radius[i] = c, r

    return lower
