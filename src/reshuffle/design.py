"""Checks the user's design matrix and converts it to a layout that the kernels read."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray
from reshuffle.errors import ConversionWarning, InputError
from reshuffle.rows import Rows
from reshuffle.shards import Shards
from reshuffle.validation import as_array, check_finite, laid_out, read_only


def check_rows(X: object) -> tuple[Rows | Shards, int, int]:
    """The rows of X, in memory or on disk. X is not copied if it is C-ordered or canonical CSR in float32 or float64."""
    if isinstance(X, Shards):
        _check_size(*X.shape)
        return X, *X.shape
    if sp.issparse(X):
        return _check_sparse(X)
    given = as_array("X", X)
    if given.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, got an array of dtype {given.dtype}")
    if given.ndim != 2:
        raise InputError(f"X must be a matrix (rows are samples), got shape {given.shape}")
    _check_size(*given.shape)
    dtype = given.dtype if given.dtype in (np.float32, np.float64) else np.float64
    if given.dtype == dtype and not given.flags.c_contiguous:
        _note("X is not stored row by row (C order) and was copied into that order", depth=4)
    values = laid_out(given, dtype)
    check_finite("X", values)
    return Rows.of_dense(values), *given.shape


def _check_sparse(X: Any) -> tuple[Rows, int, int]:
    if X.ndim != 2:
        raise InputError(f"X must be a matrix (rows are samples), got shape {X.shape}")
    _check_size(*X.shape)
    if X.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, got a sparse matrix of dtype {X.dtype}")
    if X.format != "csr":
        if hasattr(X, "check_format"):  # The conversion does not check the indices.
            try:
                X.check_format(full_check=True)
            except ValueError as error:
                kind = X.format.upper()
                raise InputError(f"X is not a valid {kind} matrix: {error}") from None
        _note(f"X is sparse in {X.format.upper()} format and was converted to CSR", depth=5)
        X = X.tocsr()
    _check_csr(X)
    if not X.has_canonical_format:
        _note(
            "X has unsorted or duplicate column indices and was copied with them in order", depth=5
        )
        X = X.copy()
        X.sum_duplicates()
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    values = laid_out(X.data[: X.nnz], dtype)
    check_finite("X", values)
    rows = Rows(read_only(values), _unsigned(X.indices[: X.nnz], X), _unsigned(X.indptr, X))
    return rows, *X.shape


def _check_csr(X: sp.csr_matrix) -> None:
    """Check that indices are in range. (scipy's own check "prunes" the caller's arrays, which may copy them.)"""
    indptr, stored = X.indptr, int(X.indptr[-1])
    if indptr.size != X.shape[0] + 1 or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        fault = f"indptr must rise from 0 in {X.shape[0] + 1} entries"
    elif stored > min(X.indices.size, X.data.size):
        fault = f"indptr ends at {stored}, but indices and data are shorter"
    elif stored and not 0 <= X.indices[:stored].min() <= X.indices[:stored].max() < X.shape[1]:
        fault = f"column indices must lie in 0 … {X.shape[1] - 1}"
    else:
        return
    raise InputError(f"X is not a valid CSR matrix: {fault}")


def _unsigned(index: AnyArray, X: sp.csr_matrix) -> AnyArray:
    """Indices as unsigned 32-bit integers: int32 is only reinterpreted, int64 is narrowed by a copy if it fits."""
    if index.dtype == np.int32:
        return read_only(np.ascontiguousarray(index).view(np.uint32))
    if max(X.nnz, X.shape[1]) < 2**32:
        return read_only(index.astype(np.uint32))
    return read_only(np.ascontiguousarray(index, dtype=np.int64).view(np.uint64))


def _check_size(n: int, d: int) -> None:
    if n == 0 or d == 0:
        raise InputError(f"X must have at least one row and one column, got shape ({n}, {d})")


def _note(message: str, depth: int) -> None:
    """Warn at the line that made the problem, this many calls up."""
    warnings.warn(message, ConversionWarning, stacklevel=depth)
