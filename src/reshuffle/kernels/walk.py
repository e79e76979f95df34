"""Compiled passes of the theory: losses and slopes at given margins, margins along a permutation.

They close over the stamp of the loss, as the kernels of the solvers do, so that an edited loss or
row operation is compiled afresh.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from numba import njit

from reshuffle.kernels.loss import keep, loss_at, slope
from reshuffle.kernels.options import KERNEL
from reshuffle.kernels.rows import add_bias, add_row, margin


class Passes(NamedTuple):
    """The compiled passes of one loss."""

    losses: Any
    slopes: Any
    walk: Any


@cache
def passes(stamp: int) -> Passes:
    """The passes for the loss with this stamp."""

    @njit(**KERNEL)
    def losses(z, targets, params, out):
        """out_i = l(z_i, y_i)."""
        for i in range(len(targets)):
            out[i] = loss_at(stamp, params, z[i], targets[i])

    @njit(**KERNEL)
    def slopes(targets, weights, params, z):
        """z_i <- w_i l'(z_i, y_i), in place."""
        for i in range(len(targets)):
            weight = weights[i] if weights.size > 0 else 1.0
            keep(z, i, weight, slope(stamp, params, z[i], targets[i]))

    @njit(**KERNEL)
    def walk(values, indices, indptr, bias, visits, coefs, step, x, scratch, out):
        """out_k = a_i^T x for the k-th visit i, then x <- x - step * coefs_i a_i."""
        if stamp < 0:  # never: it puts the stamp among the values that the disk cache is keyed on
            return
        for k in range(visits.size):
            i = visits[k]
            out[k] = margin(values, indices, indptr, i, x, 1.0, bias, scratch, 0)
            add_row(values, indices, indptr, i, -step, coefs, i, x)
            if bias:
                add_bias(-step, coefs, i, x)

    return Passes(losses, slopes, walk)
