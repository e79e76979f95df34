"""Bad input gets a clear error before any work starts."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.errors import ConversionWarning, InputError
from reshuffle.losses import Loss

Array = NDArray[np.float64]


class Rows(NamedTuple):
    """The data matrix as the kernels read it; ``indices`` and ``indptr`` are empty when dense."""

    values: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]

    @property
    def dense(self) -> bool:
        return self.values.ndim == 2

    @property
    def unit(self) -> bool:
        """Whether all values are 1, and left out."""
        return self.values.dtype == np.bool_

    @property
    def stored(self) -> int:
        """How many values are stored."""
        return int(self.values.size if self.dense else self.indices.size)

    def without_ones(self) -> Rows:
        """These rows without their values, where they are sparse and all values are 1."""
        if self.dense or not all(
            np.all(self.values[k : k + PIECE] == 1) for k in range(0, self.values.size, PIECE)
        ):
            return self
        return self._replace(values=UNIT)


PIECE = 1 << 14  # values looked at at a time


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written: one array type for the kernels, whatever came in."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


UNIT = read_only(np.empty(0, dtype=np.bool_))


def check_rows(X: Any) -> tuple[Rows, int, int]:
    """The rows of X, without a copy where X is C-ordered or canonical CSR, float32 or float64."""
    if sp.issparse(X):
        return _check_sparse(X)
    given = _array("X", X)
    if given.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, got an array of dtype {given.dtype}")
    if given.ndim != 2:
        raise InputError(f"X must be a matrix (rows are samples), got shape {given.shape}")
    _check_size(*given.shape)
    dtype = given.dtype if given.dtype in (np.float32, np.float64) else np.float64
    if given.dtype == dtype and not given.flags.c_contiguous:
        _note("X is not stored row by row (C order) and was copied into that order", depth=4)
    values = np.require(given, dtype=dtype, requirements=["C", "A"])
    _check_finite("X", values)
    empty = np.empty(0, dtype=np.uint32)
    return Rows(read_only(values), read_only(empty), read_only(empty)), *given.shape


def _check_sparse(X: Any) -> tuple[Rows, int, int]:
    if X.ndim != 2:
        raise InputError(f"X must be a matrix (rows are samples), got shape {X.shape}")
    _check_size(*X.shape)
    if X.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, got a sparse matrix of dtype {X.dtype}")
    if X.format != "csr":
        if hasattr(X, "check_format"):  # the conversion trusts the indices
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
    values = np.require(X.data[: X.nnz], dtype=dtype, requirements=["C", "A"])
    _check_finite("X", values)
    rows = Rows(read_only(values), _unsigned(X.indices[: X.nnz], X), _unsigned(X.indptr, X))
    return rows, *X.shape


def _check_csr(X: Any) -> None:
    """Indices in range. (scipy's own check "prunes" the caller's arrays, which may copy them.)"""
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


def _unsigned(index: NDArray[Any], X: Any) -> NDArray[Any]:
    """32-bit where they fit: int32 is only reinterpreted, int64 is narrowed by a copy."""
    if index.dtype == np.int32:
        return read_only(np.ascontiguousarray(index).view(np.uint32))
    if max(X.nnz, X.shape[1]) < 2**32:
        return read_only(index.astype(np.uint32))
    return read_only(np.ascontiguousarray(index, dtype=np.int64).view(np.uint64))


def _array(name: str, given: Any) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:
        raise InputError(f"{name} must be an array, got rows of different lengths") from None


def check_targets(y: Any, n: int, loss: Loss) -> NDArray[Any]:
    """y as the loss wants it: -1/+1, real numbers, or classes 0 … K-1."""
    given = _array("y", y)
    if given.shape != (n,):
        raise InputError(f"y must have shape ({n},), one target a row of X, got {given.shape}")
    if given.dtype.kind not in "fiub":
        raise InputError(
            f"y must hold numbers, got dtype {given.dtype}; "
            "encode labels first: y, classes = reshuffle.encode_labels(labels)"
        )
    if loss.targets == "classes":
        return _check_classes(given)
    targets = np.require(given, dtype=np.float64, requirements=["C", "A"])
    _check_finite("y", targets)
    if loss.targets == "signs":
        if np.all((targets == 0.0) | (targets == 1.0)):
            targets = 2.0 * targets - 1.0
        if not np.all(np.abs(targets) == 1.0):
            some = ", ".join(f"{v:g}" for v in np.unique(targets)[:4])
            raise InputError(
                f"y must hold -1 and +1 (or 0 and 1) for {loss!r}, got values such as {some}; "
                "encode labels first: y, classes = reshuffle.encode_labels(labels)"
            )
        if np.all(targets == targets[0]):
            raise InputError(f"y holds one class only ({given[0]!r}); {loss!r} needs two")
    return read_only(targets)


def _check_classes(given: NDArray[Any]) -> NDArray[Any]:
    present = np.unique(given)
    if not np.array_equal(present, np.arange(present.size)):
        some = ", ".join(str(v) for v in present[:6])
        raise InputError(
            f"y must hold the classes 0 … K-1, each at least once, got {some}; "
            "encode labels first: y, classes = reshuffle.encode_labels(labels)"
        )
    if present.size < 2:
        raise InputError(f"y holds one class only ({given[0]!r}); at least two are needed")
    return read_only(given.astype(np.int32))


def check_weights(sample_weight: Any, n: int) -> Array:
    """n·w_i/Σw, so that the weighted mean is a plain mean; empty when there are no weights."""
    if sample_weight is None:
        return read_only(np.empty(0))
    weights = _array("sample_weight", sample_weight)
    if weights.shape != (n,) or weights.dtype.kind not in "fiub":
        raise InputError(
            f"sample_weight must be {n} numbers, one a row of X, "
            f"got shape {weights.shape}, dtype {weights.dtype}"
        )
    weights = weights.astype(np.float64)
    _check_finite("sample_weight", weights)
    if weights.min() < 0:
        raise InputError(f"sample_weight must not be negative, got {weights.min():g}")
    if not weights.max() > 0:
        raise InputError("sample_weight must not be zero everywhere")
    weights /= weights.max()  # so that no sum overflows
    weights *= n / weights.sum()
    return read_only(weights)


def check_start(x0: Any, shape: tuple[int, ...]) -> Array:
    """A fresh, writable start: zeros where none is given."""
    if x0 is None:
        return np.zeros(shape)
    given = _array("x0", x0)
    if given.shape != shape or given.dtype.kind not in "fiub":
        found = f"shape {given.shape}, dtype {given.dtype}"
        raise InputError(f"x0 must have shape {shape} and hold numbers, got {found}")
    start = np.array(given, dtype=np.float64, order="C")
    _check_finite("x0", start)
    return start


def check_positive(name: str, value: Any, *, integer: bool = False) -> None:
    """A positive, finite number; a whole one where asked."""
    kinds = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    good = isinstance(value, kinds) and not isinstance(value, bool)
    if not (good and np.isfinite(value) and value > 0):
        wanted = "a positive integer" if integer else "a positive, finite number"
        raise InputError(f"{name} must be {wanted}, got {value!r}")


def encode_labels(labels: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Targets from any labels: -1/+1 for two classes, 0 … K-1 for more, and the sorted classes.

    Examples
    --------
    >>> y, classes = encode_labels(["edible", "poisonous", "edible"])
    >>> y, classes.tolist()
    (array([-1.,  1., -1.]), ['edible', 'poisonous'])
    """
    given = _array("labels", labels)
    if given.ndim != 1:
        raise InputError(f"labels must be one for each sample, got shape {given.shape}")
    classes, codes = np.unique(given, return_inverse=True)
    if classes.size < 2:
        raise InputError(f"labels hold one class only ({classes.tolist()}); two are needed")
    return (2.0 * codes - 1.0 if classes.size == 2 else codes.astype(np.int32)), classes


def _check_size(n: int, d: int) -> None:
    if n == 0 or d == 0:
        raise InputError(f"X must have at least one row and one column, got shape ({n}, {d})")


def _check_finite(name: str, values: NDArray[Any]) -> None:
    flat = values.reshape(-1)
    for start in range(0, flat.size, 1 << 20):  # piecewise: no mask as large as the data
        if not np.isfinite(flat[start : start + (1 << 20)]).all():
            kind = "NaN" if np.isnan(flat).any() else "infinity"
            raise InputError(f"{name} must be finite, got {kind}")


def _note(message: str, depth: int) -> None:
    """A warning at the line that made the problem, so many calls up."""
    warnings.warn(message, ConversionWarning, stacklevel=depth)
