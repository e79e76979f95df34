"""Checks of numbers and arrays: bad input gets a clear error before any work starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError

CHUNK = 1 << 20
"""Numbers are checked this many at a time, so that no mask is as large as the data."""


def read_only(array: AnyArray) -> AnyArray:
    """A read-only view, so that kernels always get one type of array."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def laid_out(array: AnyArray, dtype: DTypeLike) -> AnyArray:
    """The array in C order, aligned and of this type; the same array if it is so already."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype == dtype:
        return array
    return np.require(array, dtype=dtype, requirements=["C", "A"])


def as_array(name: str, given: object) -> AnyArray:
    """``given`` as an array; masks and missing values are refused, not ignored."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{name} has masked values: fill them in or leave these rows out")
    try:
        array = np.asarray(given)
    except ValueError:
        raise InputError(f"{name} must be an array, got rows of different lengths") from None
    if array.dtype == object and hasattr(given, "to_numpy"):  # These are pandas' nullable types.
        try:
            return np.asarray(given.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            return array
    return array


def check_finite(name: str, values: AnyArray) -> None:
    """Refuse NaN and infinity."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        if not np.logical_and.reduce(np.isfinite(flat[start : start + CHUNK])):
            kind = "NaN" if np.isnan(flat).any() else "infinity"
            raise InputError(f"{name} must be finite, got {kind}")


def check_column(name: str, given: object, n: int) -> Array:
    """One finite number for each row of X, in a new array."""
    numbers = as_array(name, given)
    if numbers.shape != (n,) or numbers.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be {n} numbers, one per row of X, got shape {numbers.shape}, dtype {numbers.dtype}"
        )
    found = numbers.astype(np.float64)
    check_finite(name, found)
    return found


def check_weights(sample_weight: object, n: int) -> Array:
    """n·w_i/Σw, so that the weighted mean is a plain mean; empty if there are no weights."""
    if sample_weight is None:
        return read_only(np.empty(0))
    weights = check_column("sample_weight", sample_weight, n)
    if weights.min() < 0:
        raise InputError(f"sample_weight must not be negative, got {weights.min():g}")
    if not weights.max() > 0:
        raise InputError("sample_weight must not be zero everywhere")
    weights /= weights.max()  # Divided first, so that no sum overflows.
    weights *= n / weights.sum()
    return read_only(weights)


def mean_weight(sample_weight: object) -> float:
    """The mean of weights that ``check_weights`` has accepted; 1 if there are none."""
    if sample_weight is None:
        return 1.0
    with np.errstate(over="ignore"):
        weights = np.asarray(sample_weight)
        mean = float(np.mean(weights))
    if mean < np.inf:
        return mean
    largest = float(np.max(weights))
    return largest * float(np.mean(weights / largest))


def check_start(x0: object, shape: tuple[int, ...]) -> Array:
    """A fresh, writable starting point: zeros if none is given."""
    if x0 is None:
        return np.zeros(shape)
    given = as_array("x0", x0)
    if given.shape != shape or given.dtype.kind not in "fiub":
        found = f"shape {given.shape}, dtype {given.dtype}"
        raise InputError(f"x0 must have shape {shape} and hold numbers, got {found}")
    start = np.array(given, dtype=np.float64, order="C")
    check_finite("x0", start)
    return start


def is_number(value: object) -> bool:
    """Whether this is a number of Python or numpy, and not a truth value."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def check_positive(
    name: str, value: object, *, integer: bool = False, optional: bool = False
) -> None:
    """Check that a value is a positive, finite number (an integer if ``integer``), or None if it is ``optional``."""
    if optional and value is None:
        return
    kinds = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    if not (isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < np.inf):
        wanted = "a positive integer" if integer else "a positive, finite number"
        raise InputError(f"{name} must be {wanted}, got {value!r}")


def check_visits(visits: object, count: int, name: str = "visits") -> NDArray[np.uint32]:
    """Visits as 32-bit indices, each checked to be below ``count``, since a kernel reads at these places."""
    if not (isinstance(visits, np.ndarray) and visits.ndim == 1 and visits.dtype.kind in "iu"):
        raise InputError(f"{name} must be a 1-d array of integers, got {_described(visits)}")
    visits = as_array(name, visits)  # A plain array, whatever a subclass may override.
    if visits.size and not 0 <= visits.min() <= visits.max() < count:
        low, high = visits.min(), visits.max()
        raise InputError(f"{name} must lie in 0 … {count - 1}, got numbers from {low} to {high}")
    return np.ascontiguousarray(visits, dtype=np.uint32)


def check_number(name: str, value: object) -> float:
    """The return value of a user's function as one real number (NaN and infinity included)."""
    if type(value) is float:
        return value
    found = np.asarray(value)
    if found.shape != () or found.dtype.kind not in "fiub":
        raise InputError(f"{name} must return one number, got {_described(value)}")
    return float(found)


def check_vector(name: str, value: object, shape: tuple[int, ...]) -> Array:
    """The return value of a user's function as a float64 array of this shape."""
    try:
        found = as_array(name, value)
    except InputError as error:
        raise InputError(f"{name} must return shape {shape} of numbers: {error}") from None
    if found.shape != shape or found.dtype.kind not in "fiub":
        raise InputError(f"{name} must return shape {shape} of numbers, got {_described(value)}")
    return np.ascontiguousarray(found, dtype=np.float64)


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"shape {value.shape}, dtype {value.dtype}"
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:40]}…"
