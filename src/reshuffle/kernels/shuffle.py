"""Orders: drawing one, and laying CSR rows out in one."""

from __future__ import annotations

from numba import njit

from reshuffle.kernels.options import CACHE


@njit(cache=CACHE, nogil=True)
def shuffle(visits, uniforms, last):
    """Fisher-Yates, a piece at a time: half the memory of numpy's permutation, and faster.

    Exchanges positions last, last-1, ... with positions drawn by the given uniform numbers.
    """
    for k in range(min(uniforms.size, last)):
        position = last - k
        other = int(uniforms[k] * (position + 1))
        visits[position], visits[other] = visits[other], visits[position]


@njit(cache=CACHE, nogil=True)
def gather(values, indices, indptr, order, new_values, new_indices, new_indptr):
    """Copy the rows of a CSR matrix in the given order; ``new_indptr`` says where they go."""
    for k in range(order.size):
        start, to = indptr[order[k]], new_indptr[k]
        for p in range(indptr[order[k] + 1] - start):
            new_values[to + p] = values[start + p]
            new_indices[to + p] = indices[start + p]
