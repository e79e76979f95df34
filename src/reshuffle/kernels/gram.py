"""The Hessian of f on a working set, written out: a weighted Gram matrix of rows.

    H = (1/n) sum_i w_i l''_i b_i b_i^T,    b_i = the active columns of row i, and 1 for an intercept.

That of a vector loss, diag(p) - pp^T in each row, is the Laplacian of the Gram matrices with weights
p_k p_l: one call for each pair of outputs. One thread, a fixed order of additions.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.options import KERNEL, LOOP, OPTIONS
from reshuffle.kernels.rows import is_dense, is_unit
from reshuffle.rows import ABSENT

PACKED = 256  # rows that are laid out side by side: with 500 columns they fill a second-level cache


def pack(values, indices, indptr, chosen, place, active, T): ...
def entry(values, p): ...


@overload(entry, jit_options=OPTIONS)
def _entry(values, p):
    return (lambda values, p: 1.0) if is_unit(values) else (lambda values, p: values[p])


@overload(pack, jit_options=OPTIONS)
def _pack(values, indices, indptr, chosen, place, active, T):
    """T[j, r] = the active entry j of the r-th chosen row."""

    def dense(values, indices, indptr, chosen, place, active, T):
        for j in range(active.size):
            column, a = T[j], active[j]
            for r in range(chosen.size):
                column[r] = values[chosen[r], a]

    def sparse(values, indices, indptr, chosen, place, active, T):
        for j in range(active.size):
            for r in range(chosen.size):
                T[j, r] = 0.0
        for r in range(chosen.size):
            for p in range(indptr[chosen[r]], indptr[chosen[r] + 1]):
                if place[indices[p]] != ABSENT:
                    T[place[indices[p]], r] = entry(values, p)

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
    as dense columns, less ``shift`` and times the roots of their scales, which keeps what depends on each other so, and
    multiplied; otherwise entry by entry, and ``shift`` is ignored.
    """

    @njit(**KERNEL)
    def gram(values, indices, indptr, scales, place, active, shift, bias, packed, begin, end, out):
        _ = stamp
        width, i = out.shape[0], begin
        if not packed:
            scatter(values, indices, indptr, scales, place, active, bias, begin, end, out)
            i = end
        else:
            T, roots = np.empty((width, PACKED)), np.empty(PACKED)
            chosen = np.empty(PACKED, dtype=np.int64)
            while i < end:
                count = 0
                while i < scales.size and count < PACKED:
                    if scales[i] != 0.0:
                        chosen[count], roots[count] = i, sqrt(scales[i])
                        count += 1
                    i += 1
                pack(values, indices, indptr, chosen[:count], place, active, T)
                for j in range(active.size):
                    column, mean = T[j], shift[j]
                    for r in range(count):
                        column[r] = roots[r] * (column[r] - mean)
                if bias:
                    for r in range(count):
                        T[active.size, r] = roots[r]
                multiply(T, count, out)
        if i == scales.size:
            for j in range(width):
                for k in range(j):
                    out[j, k] = out[k, j]
        return i

    return gram


@njit(**LOOP)
def multiply(T, count, out):
    """The upper triangle of T T^T, added to out: products of columns that lie in the rows of T, so many entries of each.

    Eight sums at a time, which stay in registers: two columns by four others. All products are sums in the same order,
    so that columns that are equal have equal products, and what depends on each other is seen to.
    """
    width = out.shape[0]
    for j in range(0, width, 2):
        last = min(j + 1, width - 1)
        for k in range(j, width, 4):
            add_dots(T, T[j, :count], T[last, :count], k, out[j], out[last], last > j)


@njit(**LOOP)
def add_dots(T, s, t, k, out_s, out_t, both):
    """Add the products of s, and t, with the columns k ... k + 3 of T, as far as there are so many."""
    n, most = s.size, out_s.size - 1
    p, q = T[k, :n], T[min(k + 1, most), :n]
    r, v = T[min(k + 2, most), :n], T[min(k + 3, most), :n]
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        a += s[i] * p[i]
        b += s[i] * q[i]
        c += s[i] * r[i]
        d += s[i] * v[i]
        e += t[i] * p[i]
        f += t[i] * q[i]
        g += t[i] * r[i]
        h += t[i] * v[i]
    put_four(out_s, k, most, a, b, c, d)
    if both:
        put_four(out_t, k, most, e, f, g, h)


@njit(**LOOP)
def put_four(out, k, most, a, b, c, d):
    """Add to the entries k ... k + 3, as far as there are so many."""
    out[k] += a
    if k + 1 <= most:
        out[k + 1] += b
    if k + 2 <= most:
        out[k + 2] += c
    if k + 3 <= most:
        out[k + 3] += d
