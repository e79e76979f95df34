"""The incremental pass that every shuffled method of the package is made of.

    x <- x - step * (sum over the batch of  w_i l_i'(a_i^T x) a_i  + ridge x) * average

over a given list of visits, in their order. The ridge costs nothing on sparse rows: the iterate is
kept as ``scale * x``, and shrinking touches ``scale`` alone. A long list comes in several calls, which hand it on. ``prox_step > 0`` adds the prox of a
compiled penalty after every step (the baselines that the paper compares with): O(d) by nature.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit
from numba.extending import overload

from reshuffle.kernels.loss import keep, slope
from reshuffle.kernels.options import KERNEL, OPTIONS
from reshuffle.kernels.prefetch import prefetch, prefetch_entry, prefetch_pointer
from reshuffle.kernels.prox import prox
from reshuffle.kernels.rows import add_bias, add_row, margin


def sweep_visits(
    stamp, values, indices, indptr, targets, weights, params, bias, visits, batch, average, x, flat,
    penalised, step, ridge, prox_step, form, coefs, ahead, scale,
): ...  # fmt: skip


@overload(sweep_visits, jit_options=OPTIONS, prefer_literal=True)
def _sweep_visits(
    stamp, values, indices, indptr, targets, weights, params, bias, visits, batch, average, x, flat,
    penalised, step, ridge, prox_step, form, coefs, ahead, scale,
):  # fmt: skip
    """The sweep, for the kernels of this file and of ``clients.py``, and the scale of the iterate at its end."""

    def sweep(
        stamp, values, indices, indptr, targets, weights, params, bias, visits, batch, average, x,
        flat, penalised, step, ridge, prox_step, form, coefs, ahead, scale,
    ):  # fmt: skip
        total = visits.size
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
                if scale != 1.0:
                    for j in range(penalised):
                        flat[j] *= scale
                    scale = 1.0
                prox(form, flat, prox_step)
        return scale

    return sweep


@cache
def sweep_kernel(stamp: int) -> Any:
    """The compiled sweep for the loss with this stamp."""

    @njit(**KERNEL)
    def sweep(
        values, indices, indptr, targets, weights, params, bias, visits, batch, average, x, flat,
        penalised, step, ridge, prox_step, form, coefs, ahead, scale,
    ):  # fmt: skip
        return sweep_visits(
            stamp, values, indices, indptr, targets, weights, params, bias, visits, batch, average,
            x, flat, penalised, step, ridge, prox_step, form, coefs, ahead, scale,
        )  # fmt: skip

    return sweep
