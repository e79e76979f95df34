"""One function of a sum at a time, for inner loops of one's own.

slope(data, i, x)       l'(a_i^T x + b, y_i): all that grad f_i depends on
add(data, i, s, out)    out <- out + w_i s a_i: with s the slope at x, out <- out + grad f_i(x)

Both are compiled functions that a loop of one's own, compiled by ``numba.njit``, takes as arguments.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from reshuffle.kernels.loss import slope
from reshuffle.kernels.options import FAST
from reshuffle.kernels.rows import add_bias, add_row, margin


@cache
def single_functions(stamp: int) -> tuple[Any, Any]:
    """``slope`` and ``add`` for the loss with this stamp."""

    @njit(nogil=True, forceinline=True, fastmath=FAST, error_model="numpy")
    def slope_at(data, i, x):
        values, indices, indptr, targets, _weights, params, bias, coefs = data
        z = margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0)
        return slope(stamp, params, z, targets[i])

    @njit(nogil=True, forceinline=True, fastmath=FAST, error_model="numpy")
    def add(data, i, s, out):
        values, indices, indptr, _targets, weights, _params, bias, coefs = data
        coefs[0] = weights[i] * s if weights.size > 0 else s
        add_row(values, indices, indptr, i, 1.0, coefs, 0, out)
        if bias:
            add_bias(1.0, coefs, 0, out)

    return slope_at, add
