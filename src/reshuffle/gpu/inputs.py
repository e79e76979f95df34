"""Checks a user's arrays on a device, without copying them to the processor."""

from __future__ import annotations

from typing import Any

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.device import Device
from reshuffle.losses import Loss
from reshuffle.rows import Rows
from reshuffle.validation import check_positive

PIECE = 1 << 26
"""Numbers that are checked at a time, so that a check takes 64 MB."""
MOST_FEATURES = 2**31
"""Kernels number columns with signed 32-bit integers."""
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
NO_INDEX = np.empty(0, dtype=np.uint32)


def check_device_rows(device: Device, X: Any, features: int | None) -> tuple[Rows, int, int]:
    """The rows of X on the device, the number of rows, and the number of columns."""
    values: Any
    if isinstance(X, Rows):
        if features is None:
            raise InputError("features must be given where X is Rows(values, columns, starts)")
        check_positive("features", features, integer=True)
        if features >= MOST_FEATURES:
            raise InputError(f"features must be fewer than 2^31 on a device, got {features}")
        if X.dense:
            X = X.values
        else:
            values = X.values if X.unit else _floats(device, "X", X.values, 1)
            return X._replace(values=values), len(X.indptr) - 1, int(features)
    if getattr(X, "format", None) == "csr":
        if not X.nnz:
            raise InputError("X must have at least one entry that is stored, got none")
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values = _floats(device, "X", X.data, 1)
        rows = Rows(values, _unsigned(device, X.indices), _unsigned(device, X.indptr))
        return rows, int(X.shape[0]), int(X.shape[1])
    if getattr(X, "format", None) is not None:
        raise InputError(
            f"X must be a CSR matrix where it is sparse, got {X.format}: give X.tocsr()"
        )
    values = _floats(device, "X", X, 2)
    if features not in (None, int(values.shape[1])):
        raise InputError(
            f"features must be the {values.shape[1]} columns of X, got {shown(features)}"
        )
    return Rows(values, NO_INDEX, NO_INDEX), int(values.shape[0]), int(values.shape[1])


def check_device_targets(device: Device, y: object, n: int, loss: Loss) -> DeviceArray:
    """Targets on the device as the loss takes them."""
    found = check_device_vector(device, "y", y, n)
    if loss.targets == "signs":
        numbers: Any = found
        least, most = float(found.min()), float(found.max())
        if (least, most) == (0.0, 1.0) and bool(((numbers == 0.0) | (numbers == 1.0)).all()):
            return found * 2.0 - 1.0
        if (least, most) != (-1.0, 1.0) or not bool((abs(numbers) == 1.0).all()):
            raise InputError(
                f"y must be -1 and +1, or 0 and 1, and have both; it goes from {least:g} to {most:g}"
            )
    elif loss.targets == "counts" and float(found.min()) < 0.0:
        raise InputError(f"y must not be negative for {loss!r}, got {float(found.min()):g}")
    return found


def check_device_vector(device: Device, name: str, given: object, n: int) -> DeviceArray:
    """n finite numbers on the device, float32 or float64."""
    found = _floats(device, name, given, 1)
    if len(found) != n:
        raise InputError(f"{name} must have {n} numbers, one per row of X, got {len(found)}")
    return found


def check_device_matrix(device: Device, name: str, given: object) -> DeviceArray:
    """A matrix of finite numbers on the device, float32 or float64."""
    return _floats(device, name, given, 2)


def _floats(device: Device, name: str, given: object, dimensions: int) -> DeviceArray:
    """A finite float32 or float64 array of ``dimensions`` dimensions on the device; not copied if it lies there row by row."""
    shape = getattr(given, "shape", None)
    if shape is None or len(shape) != dimensions or 0 in tuple(shape):
        raise InputError(
            f"{name} must be an array of {dimensions} dimensions on the device, not empty, got {shown(given) if shape is None else tuple(shape)}"
        )
    array = device.put(given, None)
    if array.dtype not in FLOATS:
        raise InputError(f"{name} must be float32 or float64, got {array.dtype}")
    flat: Any = array.reshape(-1)
    for begin in range(0, flat.size, PIECE):
        if not bool(np.isfinite(flat[begin : begin + PIECE]).all()):
            raise InputError(f"{name} must be finite, got NaN or infinity")
    return array


def _unsigned(device: Device, index: object) -> Any:
    """Signed indices viewed as unsigned ones, without a copy."""
    found: Any = device.put(index, None)
    if found.dtype == np.int32:
        return found.view(np.uint32)
    return found.view(np.uint64) if found.dtype == np.int64 else found
