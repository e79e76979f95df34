"""Passes over all rows in storage order: value, gradient, margins, curvature product.

Each runs on one thread in a fixed order of additions, so its bits depend on the data alone. ``coefs`` has
room for the margins of a block.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from reshuffle.kernels.loss import keep, loss_at, put, slope_in_pass
from reshuffle.kernels.options import KERNEL
from reshuffle.kernels.rows import add_bias, add_row, margin

BLOCK = 1024
"""Rows that are taken together: margins first, then losses, then what is added for each row.

Losses then need not wait for rows, and several are computed at a time; margins stay in the nearest cache. A
loss is added to those of its block before that joins the total: two short sums, not one long. A loop that
stores nothing, or reads only arrays that are as long as it is, is compiled in one way; else the compiler
would look at addresses to choose between two, and bits would depend on them.
"""


@cache
def value_kernel(stamp: int) -> Any:
    """total + sum_i w_i l(a_i^T x, y_i) for the loss with this stamp."""

    @njit(**KERNEL)
    def value(values, indices, indptr, targets, weights, params, bias, x, coefs, total):
        for start in range(0, len(targets), BLOCK):
            stop, part = min(start + BLOCK, len(targets)), 0.0
            for i in range(start, stop):
                k = i - start
                put(coefs, k, margin(values, indices, indptr, i, x, 1.0, bias, coefs, k))
            y, w = targets[start:stop], weights[start:stop]
            for k in range(len(y)):
                weight = w[k] if w.size > 0 else 1.0
                part += weight * loss_at(stamp, params, coefs[k], y[k])
            total += part
        return total

    return value


@cache
def gradient_kernel(stamp: int) -> Any:
    """Adds factor * sum_i w_i l'(a_i^T x, y_i) a_i to ``out`` for the loss with this stamp."""

    @njit(**KERNEL)
    def gradient(values, indices, indptr, targets, weights, params, bias, x, coefs, factor, out):
        for start in range(0, len(targets), BLOCK):
            stop = min(start + BLOCK, len(targets))
            for i in range(start, stop):
                k = i - start
                put(coefs, k, margin(values, indices, indptr, i, x, 1.0, bias, coefs, k))
            y = targets[start:stop]
            for k in range(len(y)):
                keep(coefs, k, 1.0, slope_in_pass(stamp, params, coefs[k], y[k]))
            for i in range(start, stop):
                weight = weights[i] * factor if weights.size > 0 else factor
                add_row(values, indices, indptr, i, weight, coefs, i - start, out)
                if bias:
                    add_bias(weight, coefs, i - start, out)

    return gradient


@cache
def margins_kernel(stamp: int) -> Any:
    """out_i = a_i^T x + intercept; the stamp is that of the sources."""

    @njit(**KERNEL)
    def margins(values, indices, indptr, bias, x, coefs, out):
        _ = stamp  # closed over, so that an edit of the sources compiles anew
        for i in range(out.shape[0]):
            out[i] = margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0)

    return margins


@cache
def curvature_kernel(stamp: int) -> Any:
    """Adds factor * sum_i w_i a_i a_i^T v to ``out``: the product with A^T W A, never formed."""

    @njit(**KERNEL)
    def curvature_product(values, indices, indptr, weights, n, bias, v, factor, out):
        _ = stamp
        coefs = np.zeros(1)
        for i in range(n):
            z = margin(values, indices, indptr, i, v, 1.0, bias, coefs, 0)
            coefs[0] = weights[i] * z if weights.size > 0 else z
            add_row(values, indices, indptr, i, factor, coefs, 0, out)
            if bias:
                add_bias(factor, coefs, 0, out)

    return curvature_product
