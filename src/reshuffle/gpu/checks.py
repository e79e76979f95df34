"""Checks of the arrays that kernels read, because nothing on a device notices an index out of range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.rows import Rows

PIECE = 1 << 26
"""Columns are compared this many at a time, so that the comparison takes 64 MB and not as much as the matrix."""
ORDERS = ("shuffle", "draw", "cyclic")
NUMBERS_DRAWN = 1 << 48
"""The most random numbers in a round: positions have 48 bits (``bytes`` in orders.cuh)."""


def check_first(first: NDArray[np.int64], n: int) -> None:
    """Check that ``first`` divides n rows among clients with at least one row each."""
    good = first.ndim == 1 and first.size > 1 and first[0] == 0 and first[-1] == n
    if not good or np.any(first[1:] <= first[:-1]):
        raise InputError(
            f"first must rise from 0 to the {n} targets, with at least one row for each client"
        )
    if n >= 2**32:
        raise InputError(f"a device takes fewer than 2^32 samples at a time, got {n}")


def check_index(rows: Rows, features: int) -> None:
    """Check CSR arrays before they become numbers of fewer bits, in which a wrong index may look like a right one."""
    for name, index in (("indices", rows.indices), ("indptr", rows.indptr)):
        if np.dtype(index.dtype).kind not in "iu":
            raise InputError(f"rows: {name} must be integers, got {index.dtype}")
    if not rows.unit and len(rows.values) != len(rows.indices):
        raise InputError(
            f"rows: there must be as many values as indices, got {len(rows.values)} and {len(rows.indices)}"
        )
    if len(rows.indices) and not 0 <= int(rows.indices.min()) <= int(rows.indices.max()) < features:
        raise InputError(f"rows: column indices must lie in 0 … {features - 1}")
    if len(rows.indptr) and not 0 <= int(rows.indptr.min()) <= int(rows.indptr.max()) <= len(rows.indices):  # fmt: skip
        raise InputError(f"rows: indptr must lie in 0 … {len(rows.indices)}, the number of indices")


def check_sparse(columns: DeviceArray, starts: DeviceArray, n: int, features: int) -> None:
    """Check CSR arrays on any device: starts rise up to the number of stored entries, and columns rise within each row."""
    if len(starts) != n + 1 or int(starts[0]) != 0 or bool((starts[1:] < starts[:-1]).any()):
        raise InputError(f"rows: indptr must rise from 0 in {n + 1} entries, got {len(starts)}")
    stored = int(starts[-1])
    if stored > len(columns):
        raise InputError(f"rows: indptr ends at {stored}, but there are {len(columns)} indices")
    if stored and not int(columns[:stored].max()) < features:
        raise InputError(f"rows: column indices must lie in 0 … {features - 1}")
    falls = 0
    for begin in range(0, stored - 1, PIECE):
        part = columns[begin : min(begin + PIECE + 1, stored)]
        falls += int((part[1:] <= part[:-1]).sum())
    inner = starts[1:-1]
    # Only rows that are not empty have a first entry.
    inner = inner[(inner > 0) & (inner < stored) & (starts[1:-1] < starts[2:])]
    allowed = int((columns[inner] <= columns[inner - 1]).sum()) if len(inner) else 0
    if falls != allowed:
        raise InputError(
            "rows: column indices must rise within each row, and each may occur at most once"
        )


def check_passes(
    order: str,
    batch: int,
    visits: AnyArray,
    averages: AnyArray,
    sizes: AnyArray,
) -> None:
    """Check that the local passes fit the clients."""
    if order not in ORDERS:
        raise InputError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    if len(visits) != len(sizes) or len(averages) != len(sizes):
        raise InputError(
            f"visits and averages must have one entry for each of {len(sizes)} clients"
        )
    if batch < 1 or np.any(visits < 1):
        raise InputError("batch and visits must be at least 1")
    if order != "draw" and np.any(visits != sizes):
        raise InputError(
            f'order "{order}" visits each sample once: visits must be the clients\' sizes'
        )


def check_positions(positions: NDArray[np.int64], visits: NDArray[np.int64]) -> None:
    """Check that the kernels can find the random numbers at these positions."""
    wrong = positions.shape != visits.shape or np.any(positions < 0)
    if wrong or np.any(positions + visits > NUMBERS_DRAWN):
        raise InputError("positions must be one number for each client, from 0 up to 2^48")
