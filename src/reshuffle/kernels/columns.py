"""Some columns of a CSR matrix, as a smaller CSR matrix."""

from __future__ import annotations

import numpy as np
from numba import njit

from reshuffle.kernels.options import CACHE

ABSENT = np.uint32(2**32 - 1)


@njit(cache=CACHE, nogil=True)
def count_columns(indices, counts):
    """counts[j] = how many entries column j has."""
    for p in range(indices.size):
        counts[indices[p]] += 1


@njit(cache=CACHE, nogil=True)
def add_squares(values, indices, indptr, weights, out):
    """out_j += sum_i w_i a_ij^2; values that are not there are 1."""
    for i in range(weights.size):
        for p in range(indptr[i], indptr[i + 1]):
            a = values[p] if values.size > 0 else 1.0
            out[indices[p]] += weights[i] * a * a


@njit(cache=CACHE, nogil=True)
def add_entries(values, indices, indptr, out):
    """out_ij += a_ij; values that are not there are 1."""
    for i in range(out.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            out[i, indices[p]] += values[p] if values.size > 0 else 1.0


@njit(cache=CACHE, nogil=True)
def count_kept(indices, indptr, place, lengths):
    """lengths[i + 1] = how many entries of row i have a place."""
    for i in range(lengths.size - 1):
        count = 0
        for p in range(indptr[i], indptr[i + 1]):
            count += place[indices[p]] != ABSENT
        lengths[i + 1] = count


@njit(cache=CACHE, nogil=True)
def keep_columns(values, indices, indptr, place, new_values, new_indices, new_indptr):
    """Copy the entries whose column has a place, in the columns that ``place`` says.

    Every entry is written, and the next one over it unless it stays: no branch to mispredict. The new
    arrays need room for one entry more.
    """
    for i in range(new_indptr.size - 1):
        to = np.uint64(new_indptr[i])
        for p in range(indptr[i], indptr[i + 1]):
            j = place[indices[p]]
            new_values[to] = values[p]
            new_indices[to] = j
            to = np.uint64(to + np.uint64(j != ABSENT))


@njit(cache=CACHE, nogil=True)
def keep_indices(indices, indptr, place, new_indices, new_indptr):
    """The same for a matrix of ones."""
    for i in range(new_indptr.size - 1):
        to = np.uint64(new_indptr[i])
        for p in range(indptr[i], indptr[i + 1]):
            j = place[indices[p]]
            new_indices[to] = j
            to = np.uint64(to + np.uint64(j != ABSENT))
