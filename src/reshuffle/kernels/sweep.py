"""The incremental pass that every shuffled method of the package is made of.

    x <- x - step * (sum over the batch of  w_i l_i'(a_i^T x) a_i  + ridge x) * average

over a given list of visits, in their order. The ridge costs nothing on sparse rows: the iterate is
kept as ``scale * x``, and shrinking touches ``scale`` alone. ``prox_step > 0`` adds the prox of a
separable penalty after every step (the baselines that the paper compares with): O(d) by nature.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from reshuffle.kernels.rows import (
    FAST,
    add_bias,
    add_row,
    keep,
    margin,
    prefetch,
    prefetch_entry,
    prefetch_pointer,
    slope,
)


@njit(inline="always", error_model="numpy", fastmath=FAST)
def separable_prox(value, step, l1, l2, low, high):
    """argmin_u  l1 |u| + (l2/2) u^2 + indicator[low, high](u) + (u - value)^2 / (2 step)."""
    shrunk = abs(value) - step * l1
    u = (0.0 if shrunk <= 0.0 else shrunk) / (1.0 + step * l2)  # written so that NaN stays NaN
    u = u if value > 0.0 else -u
    return low if u < low else high if u > high else u


@cache
def sweep_kernel(stamp: int) -> Any:
    """The compiled sweep for the loss with this stamp."""

    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    def sweep(
        values, indices, indptr, targets, weights, params, bias, visits, batch, average, x, flat, penalised,
        step, ridge, prox_step, separable, coefs, ahead,
    ):  # fmt: skip
        total, scale = visits.size, 1.0
        l1, l2, low, high = separable
        for start in range(0, total, batch):
            stop = min(start + batch, total)
            for k in range(start, stop):
                i = visits[k]
                # rows in the order of the memory come unasked
                if k + 2 * ahead < total and visits[k + ahead] != i + ahead:
                    later = visits[k + 2 * ahead]
                    prefetch_pointer(values, indices, indptr, later)
                    prefetch_entry(targets, later)
                    if weights.size > 0:
                        prefetch_entry(weights, later)
                    prefetch(values, indices, indptr, visits[k + ahead])
                z = margin(values, indices, indptr, i, x, scale, bias, coefs, k - start)
                weight = average * weights[i] if weights.size > 0 else average
                keep(coefs, k - start, weight, slope(stamp, params, z, targets[i]))
            if ridge > 0.0:
                scale *= 1.0 - step * ridge * average * (stop - start)
                if scale < 1e-9:  # fold the scale in before it underflows
                    for j in range(penalised):
                        flat[j] *= scale
                    scale = 1.0
            for k in range(start, stop):
                add_row(values, indices, indptr, visits[k], -step / scale, coefs, k - start, x)
                if bias:
                    add_bias(-step, coefs, k - start, x)
            if prox_step > 0.0:
                for j in range(penalised):
                    flat[j] = separable_prox(
                        scale * flat[j], prox_step, l1[j], l2[j], low[j], high[j]
                    )
                scale = 1.0
        if scale != 1.0:
            for j in range(penalised):
                flat[j] *= scale

    return sweep
