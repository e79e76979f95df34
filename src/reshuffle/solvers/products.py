"""Rows multiplied with each other: what a Hessian is made of.

Dense rows are multiplied as matrices, some at a time; sparse and narrow ones in a kernel. b_i are the active columns of row i less
``shift``, and 1 for an intercept. Rows that count with nothing are not read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.datafit import Datafit
from reshuffle.interruption import WORK, listen
from reshuffle.objective import Array, Visits
from reshuffle.rows import ABSENT

TOGETHER = 1 << 15  # entries of rows that are multiplied at a time: they stay in the second cache;
ROWS = 400  # and rows at least: the result is read and written once for these
NARROW = 256  # columns, for which the kernel is quicker: libraries are made for wider matrices


def dense_gram(active: Visits, shift: Array, packed: bool, fit: Datafit, scales: Array) -> Array:
    """Σ scales_i b_i b_iᵀ of dense rows: BᵀB with B = √scales·b, some rows at a time."""
    width = active.size + fit.bias
    kept, roots = np.flatnonzero(scales), np.sqrt(np.maximum(scales, 0.0))[:, None]
    most = max(TOGETHER // max(width, 1), ROWS)
    out, room = np.zeros((width, width)), np.empty((min(most, kept.size), width))
    whole = active.size == fit.features
    for start in range(0, kept.size, most):
        listen()
        some = (
            slice(start, start + most) if kept.size == scales.size else kept[start : start + most]
        )
        values = fit.quick.values[some]
        B = room[: len(values)]
        np.subtract(values if whole else values[:, active], shift, out=B[:, : active.size])
        B[:, active.size :] = 1.0
        B *= roots[some]
        out += B.T @ B
    return out


def kernel_gram(active: Visits, shift: Array, packed: bool, fit: Datafit, scales: Array) -> Array:
    """The same of any rows; where they are not ``packed``, nothing is taken off the columns yet."""
    from reshuffle.kernels.gram import gram_kernel
    from reshuffle.kernels.stamp import stamp_of

    place = np.full(fit.features, ABSENT, dtype=np.uint32)
    place[active] = np.arange(active.size, dtype=np.uint32)
    width, kernel = active.size + fit.bias, gram_kernel(stamp_of())
    out, end, most = np.zeros((width, width)), 0, max(2 * WORK // max(width, 1) ** 2, 1)
    while end < scales.size:
        listen()
        stop = min(end + most, scales.size)
        end = kernel(*fit.quick, scales, place, active, shift, fit.bias, packed, end, stop, out)
    return out


def between(
    active: Visits, shift: Array, feature: NDArray[np.int64], output: NDArray[np.int64],
    fit: Datafit, roots: Array,
) -> Array:  # fmt: skip
    """Σ_i c_i c_iᵀ of dense rows, with c_ij = b_i,feature(j) roots_i,output(j) for some pairs of a feature and an output."""
    size, bent = feature.size, np.flatnonzero(roots.any(axis=1))
    most = max(TOGETHER // max(size, 1), ROWS)
    out, room = np.zeros((size, size)), np.empty((2, min(most, bent.size), size))
    for start in range(0, bent.size, most):
        listen()
        some = bent[start : start + most]
        rows = np.ones((some.size, active.size + fit.bias))
        values = np.take(fit.quick.values[some], active, axis=1)
        np.subtract(values, shift, out=rows[:, : active.size])
        C, own = room[0, : some.size], room[1, : some.size]
        np.take(rows, feature, axis=1, out=C, mode="clip")
        np.take(roots[some], output, axis=1, out=own, mode="clip")
        C *= own
        out += C.T @ C
    return out
