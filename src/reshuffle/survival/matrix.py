"""The design matrix of a survival model: dense or sparse, with the operations that the likelihood needs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.digests import digest
from reshuffle.errors import InputError
from reshuffle.objective import Array, Visits
from reshuffle.shards import Shards
from reshuffle.validation import as_array, check_finite

BLOCK = 1 << 22
"""The largest number of entries of the dense block in which squares of sparse rows are computed: 32 MB."""


def is_sparse(values: object) -> bool:
    """Whether this is a sparse matrix of scipy."""
    return bool(sp.issparse(values))


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of numbers in double precision."""

    values: Any
    """An array whose columns lie one after the other, or a sparse matrix in CSR format."""

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.values.shape
        return int(n), int(d)

    def rows(self, order: NDArray[np.intp]) -> Matrix:
        """These rows, in this order (a copy)."""
        some = self.values[order]
        return Matrix(some if is_sparse(some) else np.asfortranarray(some))

    @property
    def columns(self) -> Array | None:
        """The transpose of dense rows, with a row for each column; None for sparse rows."""
        return None if is_sparse(self.values) else np.ascontiguousarray(self.values.T)

    def centred(self, bounds: NDArray[np.intp]) -> tuple[Matrix, Array]:
        """Subtract from the rows of each piece their mean, in place, and return the means; sparse rows are not changed, and their means are given as zero."""
        means = np.zeros((bounds.size - 1, self.shape[1]))
        if not is_sparse(self.values):
            with np.errstate(over="ignore", invalid="ignore"):
                for k, (start, stop) in enumerate(pairwise(bounds.tolist())):
                    own, first = self.values[start:stop], self.values[start].copy()
                    own -= first  # Columns that do not vary then become exactly zero.
                    mean = own.mean(axis=0)
                    own -= mean
                    means[k] = first + mean
        return self, means

    def times(self, x: Array) -> Array:
        """a_jᵀx for every row."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.values @ x)

    def combined(self, slopes: Array) -> Array:
        """Σ_j slopes_j a_j."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.values.T @ slopes)

    def block(self, rows: slice, kept: Visits) -> Array:
        """These rows in these columns, dense."""
        some, whole = self.values[rows], kept.size == self.shape[1]
        if not whole:
            some = some[:, kept.astype(np.intp)]
        return np.asarray(some.toarray() if is_sparse(some) else some)

    def centred_squares(self, rows: slice) -> Array:
        """‖a_j - c‖² with c the mean of these rows, computed without cancellation."""
        some = self.values[rows]
        mean = np.asarray(some.mean(axis=0)).ravel()
        if not is_sparse(some):
            return np.asarray(((some - mean) ** 2).sum(axis=1))
        step = max(1, BLOCK // max(1, self.shape[1]))
        parts = [
            ((some[k : k + step].toarray() - mean) ** 2).sum(axis=1)
            for k in range(0, some.shape[0], step)
        ]
        return np.concatenate(parts)

    def varying(self, rows: slice) -> NDArray[np.bool_]:
        """The columns that are not the same in all of these rows."""
        some = self.values[rows]
        if not is_sparse(some):
            return np.asarray(np.ptp(some, axis=0) > 0.0)
        return np.asarray((some.max(axis=0) != some.min(axis=0)).toarray()).ravel()

    def digest(self) -> str:
        if is_sparse(self.values):
            return digest(self.values.data, self.values.indices, self.values.indptr, self.shape)
        return digest(self.values)


def check_matrix(X: Any) -> Matrix:
    """X as a matrix of finite numbers with a row and a column."""
    if isinstance(X, Shards):
        raise InputError("X must be in memory for a survival model, got rows on disk")
    if is_sparse(X):
        given = sp.csr_matrix(X, dtype=np.float64) if X.dtype.kind in "fiub" else X
        numbers = given.data
    else:
        given = numbers = as_array("X", X)
    if given.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, got an array of dtype {given.dtype}")
    if given.ndim != 2 or 0 in given.shape:
        raise InputError(
            f"X must be a matrix with a row and a column or more (rows are samples), got shape {given.shape}"
        )
    check_finite("X", numbers)
    return Matrix(given if is_sparse(given) else np.asarray(given, dtype=np.float64))
