"""The yardstick for dense rows: one BLAS dot and one axpy per row, called at the speed of C."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import njit
from numba.extending import get_cython_function_address


def _routine(name: str, result: Any, arguments: int) -> Any:
    """A routine of scipy's BLAS; pointers are given as integers, so that no row needs a view."""
    address = get_cython_function_address("scipy.linalg.cython_blas", name)
    return ctypes.CFUNCTYPE(result, *(ctypes.c_size_t,) * arguments)(address)


_dot = _routine("ddot", ctypes.c_double, 5)
_axpy = _routine("daxpy", None, 6)


def _epoch(X: Any, y: Any, x: Any, step: Any) -> None:
    """x <- x - step (a_i^T x - y_i) a_i, row after row."""
    n, width = X.shape
    size, one = np.full(1, width, dtype=np.int32), np.ones(1, dtype=np.int32)
    factor = np.empty(1)
    for i in range(n):
        row = X.ctypes.data + i * width * X.itemsize
        z = _dot(size.ctypes.data, row, one.ctypes.data, x.ctypes.data, one.ctypes.data)
        factor[0] = -step * (z - y[i])
        _axpy(
            size.ctypes.data, factor.ctypes.data, row, one.ctypes.data, x.ctypes.data,
            one.ctypes.data,
        )  # fmt: skip


blas_epoch = njit(_epoch)
