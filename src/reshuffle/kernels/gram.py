"""The Hessian of f on a working set, written out: a weighted Gram matrix of rows.

    H = (1/n) sum_i w_i l''_i b_i b_i^T,    b_i = the active columns of row i, and 1 for an intercept.

That of a vector loss, diag(p) - pp^T in each row, is the Laplacian of the Gram matrices with weights
p_k p_l: one call for each pair of outputs. One thread, a fixed order of additions.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.columns import ABSENT
from reshuffle.kernels.options import KERNEL, LOOP, OPTIONS
from reshuffle.kernels.rows import is_dense, is_unit

PACKED = 64  # rows that are laid out side by side: with 500 columns they fill a second-level cache


def pack(values, indices, indptr, i, place, active, row): ...
def entry(values, p): ...


@overload(entry, jit_options=OPTIONS)
def _entry(values, p):
    return (lambda values, p: 1.0) if is_unit(values) else (lambda values, p: values[p])


@overload(pack, jit_options=OPTIONS)
def _pack(values, indices, indptr, i, place, active, row):
    """row = the active entries of row i."""

    def dense(values, indices, indptr, i, place, active, row):
        for j in range(active.size):
            row[j] = values[i, active[j]]

    def sparse(values, indices, indptr, i, place, active, row):
        for j in range(active.size):
            row[j] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            if place[indices[p]] != ABSENT:
                row[place[indices[p]]] = entry(values, p)

    return dense if is_dense(values) else sparse


def scatter(values, indices, indptr, scales, place, active, bias, begin, end, out): ...


@overload(scatter, jit_options=OPTIONS)
def _scatter(values, indices, indptr, scales, place, active, bias, begin, end, out):
    """Entry by entry, on sparse rows: two rows of the matrix by four of its columns at a time.

    Zeros fill up the last four. What is written below the diagonal is made good when the triangles are
    brought together.
    """

    def sparse(values, indices, indptr, scales, place, active, bias, begin, end, out):
        size = active.size
        where, what = np.zeros(size + 4, dtype=np.uint32), np.zeros(size + 4)
        for i in range(begin, end):
            scale, count = scales[i], 0
            if scale == 0.0:
                continue
            for p in range(indptr[i], indptr[i + 1]):
                j = place[indices[p]]
                if j != ABSENT:
                    where[count], what[count] = j, entry(values, p)
                    count += 1
            if bias:
                where[count], what[count] = size, 1.0
                count += 1
            full = count + (-count) % 4
            for p in range(count, full):
                where[p], what[p] = where[0], 0.0
            for p in range(0, count, 2):
                upper, lower = out[where[p]], out[where[p + 1]]
                a, b = scale * what[p], scale * what[p + 1]
                for q in range(p - p % 4, full, 4):
                    j, k, m, n = where[q], where[q + 1], where[q + 2], where[q + 3]
                    c, d, e, f = what[q], what[q + 1], what[q + 2], what[q + 3]
                    upper[j] += a * c
                    upper[k] += a * d
                    upper[m] += a * e
                    upper[n] += a * f
                    lower[j] += b * c
                    lower[k] += b * d
                    lower[m] += b * e
                    lower[n] += b * f

    def dense(values, indices, indptr, scales, place, active, bias, begin, end, out):
        return None

    return dense if is_dense(values) else sparse


@cache
def gram_kernel(stamp: int) -> Any:
    """Adds sum_i scales_i b_i b_i^T over rows from ``begin`` to about ``end``; returns the row to go on from.

    After the last row both triangles of ``out`` are whole. Wherever a call ends, the bits are the same.

    b_i has the active columns of row i (place[j] says where column j goes, ABSENT if nowhere; in
    increasing order), and a one at its end where there is an intercept. ``packed``: rows are laid out
    as dense ones, less ``shift``, and multiplied four at a time; otherwise entry by entry, and
    ``shift`` is ignored.
    """

    @njit(**KERNEL)
    def gram(values, indices, indptr, scales, place, active, shift, bias, packed, begin, end, out):
        _ = stamp
        width, i = out.shape[0], begin
        if not packed:
            scatter(values, indices, indptr, scales, place, active, bias, begin, end, out)
            i = end
        else:
            rows, scaled = np.empty((PACKED, width)), np.empty((PACKED, width))
            while i < end:
                count = 0
                while i < scales.size and count < PACKED:
                    if scales[i] != 0.0:
                        pack(values, indices, indptr, i, place, active, rows[count])
                        for j in range(active.size):
                            rows[count, j] -= shift[j]
                        if bias:
                            rows[count, active.size] = 1.0
                        for j in range(width):
                            scaled[count, j] = scales[i] * rows[count, j]
                        count += 1
                    i += 1
                for r in range(count, count + (-count) % 4):  # rows of zeros, up to a multiple of 4
                    for j in range(width):
                        rows[r, j] = scaled[r, j] = 0.0
                multiply(rows, scaled, count + (-count) % 4, out)
        if i == scales.size:
            for j in range(width):
                for k in range(j):
                    out[j, k] = out[k, j]
        return i

    return gram


@njit(**LOOP)
def multiply(rows, scaled, count, out):
    """The upper triangle of scaled^T rows, added to out: two columns of it by four rows at a time."""
    width = out.shape[0]
    for j in range(0, width - 1, 2):
        out_j, out_k = out[j], out[j + 1]
        for r in range(0, count, 4):
            a, b = scaled[r, j], scaled[r + 1, j]
            c, d = scaled[r + 2, j], scaled[r + 3, j]
            e, f = scaled[r, j + 1], scaled[r + 1, j + 1]
            g, h = scaled[r + 2, j + 1], scaled[r + 3, j + 1]
            for k in range(j, width):
                p, q, s, t = rows[r, k], rows[r + 1, k], rows[r + 2, k], rows[r + 3, k]
                out_j[k] += a * p + b * q + c * s + d * t
                out_k[k] += e * p + f * q + g * s + h * t
    if width % 2 == 1:
        for r in range(count):
            out[width - 1, width - 1] += scaled[r, width - 1] * rows[r, width - 1]
