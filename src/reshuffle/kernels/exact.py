"""The inner loops of the exact method: steps along gradient differences, a prox after each block.

The functions are F_c, c = 0, …, N-1, with f = (1/N) Σ F_c; F_c = w_i f_i belongs to sample
i = owner[c]. A table keeps the last slope of each F_c, and g = (1/N) Σ w_i table[c] a_i their mean
gradient. Inside a block of m visits, with q fixed,

    x <- x - step * (w_i (l'(a_i^T x) - table[c]) a_i + q),   table[c] <- l'(a_i^T x).

The drift along q is not carried out: y holds x without it, and step k of the block reads
a_i^T x as a_i^T (y - step k q). At the end of the block, with tau = step * m,

    x = prox_{tau psi}(y - tau g),
    q = (y_start - y) / (step N) + (y - x) / tau,     g <- g + (y_start - y) / (step N).

This is x^ = y - tau q, x = prox(x^ - tau h), h <- h + (x - x^)/tau, q = g - h with h eliminated.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit
from numba.extending import overload

from reshuffle.kernels.loss import conjugate_at, exchange, keep, put, slope, slope_in_pass
from reshuffle.kernels.options import KERNEL, OPTIONS
from reshuffle.kernels.passes import BLOCK
from reshuffle.kernels.prefetch import prefetch, prefetch_entry, prefetch_pointer
from reshuffle.kernels.prox import prox
from reshuffle.kernels.rows import add_bias, add_row, drifted_margin, margin


@cache
def table_kernel(stamp: int) -> Any:
    """table_i = l'(a_i^T x, y_i), and factor * sum_i w_i table_i a_i added to ``out``."""

    @njit(**KERNEL)
    def tabulate(
        values, indices, indptr, targets, weights, params, bias, x, coefs, factor, table, out
    ):
        for start in range(0, len(targets), BLOCK):
            stop = min(start + BLOCK, len(targets))
            for i in range(start, stop):
                put(table, i, margin(values, indices, indptr, i, x, 1.0, bias, coefs, 0))
            s, y = table[start:stop], targets[start:stop]
            for k in range(len(y)):
                keep(s, k, 1.0, slope_in_pass(stamp, params, s[k], y[k]))
            for i in range(start, stop):
                weight = weights[i] * factor if weights.size > 0 else factor
                add_row(values, indices, indptr, i, weight, table, i, out)
                if bias:
                    add_bias(weight, table, i, out)

    return tabulate


@cache
def slopes_kernel(stamp: int) -> Any:
    """l'(z_i, y_i) in place of the margins z_i."""

    @njit(**KERNEL)
    def tabulate(targets, params, table):
        for i in range(len(targets)):
            keep(table, i, 1.0, slope_in_pass(stamp, params, table[i], targets[i]))

    return tabulate


@cache
def combine_kernel(stamp: int) -> Any:
    """Adds factor * sum_i w_i table_i a_i to ``out``; the stamp is that of the sources."""

    @njit(**KERNEL)
    def combine(values, indices, indptr, weights, bias, factor, table, out):
        _ = stamp
        for i in range(table.shape[0]):
            weight = weights[i] * factor if weights.size > 0 else factor
            add_row(values, indices, indptr, i, weight, table, i, out)
            if bias:
                add_bias(weight, table, i, out)

    return combine


@cache
def conjugate_kernel(stamp: int) -> Any:
    """total + sum_i w_i l*(factor * table_i, y_i): what the dual objective is made of."""

    @njit(**KERNEL)
    def conjugates(targets, weights, params, table, factor, coefs, total):
        for i in range(table.shape[0]):
            weight = weights[i] if weights.size > 0 else 1.0
            total += weight * conjugate_at(stamp, params, table, i, factor, targets[i], coefs)
        return total

    return conjugates


def steps_of_block(
    stamp, values, indices, indptr, targets, weights, params, bias, owner, visits, origin, first,
    last, table, y, q, step, coefs, ahead,
): ...  # fmt: skip


@overload(steps_of_block, jit_options=OPTIONS, prefer_literal=True)
def _steps_of_block(
    stamp, values, indices, indptr, targets, weights, params, bias, owner, visits, origin, first,
    last, table, y, q, step, coefs, ahead,
):  # fmt: skip
    """Steps over visits of the block that begins at ``origin``: changes ``y`` and the table, leaves the drift to the end.

    Not a compiled function that the kernels below close over: numba would then find none of them again
    in another process.
    """

    def steps(
        stamp, values, indices, indptr, targets, weights, params, bias, owner, visits, origin,
        first, last, table, y, q, step, coefs, ahead,
    ):  # fmt: skip
        for k in range(first, last):
            c = visits[k]
            i = owner[c] if owner.size > 0 else c
            if owner.size > 0 and k + 3 * ahead < visits.size:
                prefetch_entry(owner, visits[k + 3 * ahead])
            if k + 2 * ahead < visits.size:
                later, soon = visits[k + 2 * ahead], visits[k + ahead]
                prefetch_entry(table, later)
                if weights.size > 0:
                    prefetch_entry(weights, later)
                if owner.size > 0:
                    later, soon = owner[later], owner[soon]
                prefetch_pointer(values, indices, indptr, later)
                prefetch_entry(targets, later)
                prefetch(values, indices, indptr, soon)
            drift = step * (k - origin)
            z = drifted_margin(values, indices, indptr, i, y, q, drift, bias, coefs, 0)
            weight = weights[c] if weights.size > 0 else 1.0
            exchange(table, c, coefs, 0, weight, slope(stamp, params, z, targets[i]))
            add_row(values, indices, indptr, i, -step, coefs, 0, y)
            if bias:
                add_bias(-step, coefs, 0, y)

    return steps


@cache
def block_kernel(stamp: int) -> Any:
    """Steps over visits of one block."""

    @njit(**KERNEL)
    def block(
        values, indices, indptr, targets, weights, params, bias, owner, visits, origin, first, last,
        table, y, q, step, coefs, ahead,
    ):  # fmt: skip
        steps_of_block(
            stamp, values, indices, indptr, targets, weights, params, bias, owner, visits, origin,
            first, last, table, y, q, step, coefs, ahead,
        )  # fmt: skip

    return block


@cache
def epoch_kernel(stamp: int) -> Any:
    """The visits from ``begin`` up to ``end`` of an epoch in blocks, with the prox of a compiled penalty after each.

    An epoch may come in several calls, to the same bits: ``start``, g and q are handed on.
    ``corrected`` is 1; with 0, and nothing remembered, the epoch is one of ProxRR that remembers.
    """

    @njit(**KERNEL)
    def epoch(
        values, indices, indptr, targets, weights, params, bias, owner, visits, begin, end, steps,
        corrected, table, y, flat_y, q, flat_q, start, g, form, coefs, ahead,
    ):  # fmt: skip
        total, count, blocks = visits.size, table.shape[0], steps.size
        for b in range(blocks):
            first, last = b * total // blocks, (b + 1) * total // blocks
            if last <= begin:
                continue
            steps_of_block(
                stamp, values, indices, indptr, targets, weights, params, bias, owner, visits,
                first, max(first, begin), min(last, end), table, y, q, steps[b], coefs, ahead,
            )  # fmt: skip
            if end < last:
                return
            tau = steps[b] * (last - first)
            share = 1.0 / (steps[b] * count)
            penalised = form.l1.size
            for j in range(penalised):  # q is free until the block's end: the prox works in it
                flat_q[j] = flat_y[j] - corrected * tau * g[j]
            prox(form, flat_q, tau)
            for j in range(flat_y.size):
                x = flat_q[j] if j < penalised else flat_y[j] - corrected * tau * g[j]
                change = (start[j] - flat_y[j]) * share
                flat_q[j] = corrected * (change + (flat_y[j] - x) / tau)
                g[j] += change
                flat_y[j] = x
                start[j] = x

    return epoch
