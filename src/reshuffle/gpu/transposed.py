"""A copy of sparse rows that lies column by column, made on the device.

Xᵀs sums each column in the order of the rows, so that its bits depend on nothing else. Integers added by atomic operations would have
the same bits too; but frequent columns, as words of a text are, would make threads wait for each other at each entry, and the slopes
would be rounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.device import Device, Kernels
from reshuffle.gpu.pass_layout import over

PIECE = 8192
"""Entries of a column that one warp adds up. With fewer, the thread that adds up the pieces of a column would have more work than the warps."""


class Transposed(NamedTuple):
    """The entries of a matrix by columns, and the pieces that columns are cut into, on the device."""

    values: DeviceArray | None
    """None where all are 1."""
    rows: DeviceArray
    starts: DeviceArray
    begins: DeviceArray
    """The pieces of column j are begins[j] … begins[j + 1]."""
    owners: DeviceArray
    """The column of each piece."""
    pieces: int


def transposed(
    device: Device, kernels: Kernels, rows: DeviceRows, n: int, features: int
) -> Transposed:
    """The transpose of sparse rows: entries are sorted by column, and within a column by row."""
    values, columns, starts = rows
    stored = int(starts[-1])
    own = device.room(stored, np.uint32)
    kernels.run("rows_of_entries", over(device, n, warps=True), *rows, np.int64(n), own)
    order = device.order(columns[:stored])
    by_column = columns[:stored][order]
    first = device.room(features + 1, np.int64)
    launch = over(device, features + 1)
    kernels.run("first_of_columns", launch, by_column, np.int64(stored), np.int32(features), first)
    del by_column
    begins = device.room(features + 1, np.int64)
    begins[0] = 0
    begins[1:] = ((first[1:] - first[:-1] + (PIECE - 1)) // PIECE).cumsum()
    pieces = int(begins[-1])
    owners = device.room(pieces, np.uint32)
    kernels.run("owners_of_pieces", over(device, features), begins, np.int32(features), owners)
    taken = None if values is None else values[:stored][order]
    return Transposed(taken, own[:stored][order], first, begins, owners, pieces)
