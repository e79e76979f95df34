"""Passes over all rows in storage order: value, gradient, margins, row norms, curvature product.

Each runs on one thread in a fixed order of additions, so its bits depend on the data alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from reshuffle.kernels.loss import keep, loss_at, slope
from reshuffle.kernels.options import CACHE, FAST, KERNEL
from reshuffle.kernels.rows import add_bias, add_row, margin

BLOCK = (
    1024  # rows whose losses are added up before they join the total: two short sums, not one long
)


@cache
def value_kernel(stamp: int) -> Any:
    """total + sum_i w_i l(a_i^T x, y_i) for the loss with this stamp."""

    @njit(**KERNEL)
    def value(values, indices, indptr, targets, weights, params, bias, x, coefs, total):
        for start in range(0, len(targets), BLOCK):
            part = 0.0
            for i in range(start, min(start + BLOCK, len(targets))):
                z = margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0)
                loss = loss_at(stamp, params, z, targets[i])
                part += weights[i] * loss if weights.size > 0 else loss
            total += part
        return total

    return value


@cache
def gradient_kernel(stamp: int) -> Any:
    """Adds factor * sum_i w_i l'(a_i^T x, y_i) a_i to ``out`` for the loss with this stamp."""

    @njit(**KERNEL)
    def gradient(values, indices, indptr, targets, weights, params, bias, x, coefs, factor, out):
        for i in range(len(targets)):
            z = margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0)
            weight = weights[i] if weights.size > 0 else 1.0
            keep(coefs, 0, weight, slope(stamp, params, z, targets[i]))
            add_row(values, indices, indptr, i, factor, coefs, 0, out)
            if bias:
                add_bias(factor, coefs, 0, out)

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


@njit(cache=CACHE, nogil=True, fastmath=FAST)
def dense_squared_norms(values, out):
    for i in range(out.size):
        total = 0.0
        for j in range(values.shape[1]):
            total += np.float64(values[i, j]) * values[i, j]
        out[i] = total


@njit(cache=CACHE, nogil=True, fastmath=FAST)
def csr_squared_norms(values, indptr, out):
    for i in range(out.size):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += np.float64(values[p]) * values[p]
        out[i] = total
