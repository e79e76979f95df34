"""A small set as one dense matrix, and f on it.

T has a column of the set in each of its rows: all loops go along the samples, of which there are many. Columns are less
their means, with one of ones at the end, where there is an intercept.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.gram import multiply
from reshuffle.kernels.loss import conjugate_at, loss_at
from reshuffle.kernels.newton import expand
from reshuffle.kernels.options import KERNEL, LOOP
from reshuffle.kernels.passes import BLOCK
from reshuffle.kernels.search import EPS

CONSTANT = 1e-14  # of a mean: a deviation that rounding explains


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
        value, least = 0.0, 0.0 if has_conjugate else -np.inf
        for start in range(0, len(targets), BLOCK):  # two short sums, not one long
            part, below, stop = 0.0, 0.0, min(start + BLOCK, len(targets))
            for i in range(start, stop):
                weight = weights[i] if weights.size > 0 else 1.0
                part += weight * loss_at(stamp, params, zeros[i], targets[i])
            if has_conjugate:
                for i in range(start, stop):
                    weight = weights[i] if weights.size > 0 else 1.0
                    below -= weight * conjugate_at(stamp, params, zeros, i, 1.0, targets[i], coefs)
            value, least = value + part, least + below
        return value, least

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
            y, w = targets[start:stop], weights[start:stop]
            z, s = margins[start:stop], slopes[start:stop]
            margins_of(T, start, x, z)
            total += expand(stamp, params, y, w, z, s, curvatures[start:stop])
            scale(s, w, 1.0 / n, scaled[start:stop])
            gather(T, start, scaled[start:stop], out)
        return total / n

    return loop
