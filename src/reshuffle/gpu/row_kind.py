"""Puts rows on a device: the types of their arrays, and the settings of kernels for these types."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.checks import check_index, check_sparse
from reshuffle.gpu.device import Device
from reshuffle.rows import Rows

NUMBERS = {"float64": "double", "float32": "float"}
"""The numbers that models and rows can be made of, and their names in C++."""
MANY = 4000
"""Passes are those of ``WideSamples`` beyond this many features. Up to it, x and the sums fit into the memory of a block, for two blocks on a
processor of an H200, and a Hessian of all features fits into memory."""
NARROW = 64
"""Dense rows of at most this many columns are worked on like sparse rows of equal length, by one thread each."""


class RowKind(NamedTuple):
    """The types of rows that kernels are compiled for. Dense rows have neither column indices nor starts; rows of ones have type bool."""

    value: np.dtype[np.generic]
    column: np.dtype[np.generic] | None
    start: np.dtype[np.generic] | None
    features: int

    @classmethod
    def of(cls, rows: DeviceRows, features: int) -> RowKind:
        values, columns, starts = (None if a is None else np.dtype(a.dtype) for a in rows)
        return cls(np.dtype(np.bool_) if values is None else values, columns, starts, features)

    @property
    def unit(self) -> bool:
        return self.value == np.bool_

    @property
    def dense(self) -> bool:
        return self.column is None

    @property
    def wide(self) -> bool:
        """Whether the memory of a block is too small for the columns (``WideSamples``)."""
        return self.features > MANY

    @property
    def whole(self) -> bool:
        """Whether a block takes whole rows, whose entries its threads share: a pass then adds up no integers."""
        return self.dense and NARROW < self.features <= MANY

    @property
    def needs_scales(self) -> bool:
        """Whether the sums of a pass are made of integers, so that the size of entries matters."""
        return not (self.wide or self.whole or self.unit)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of kernels that read the rows."""
        return {
            "VALUE": "bool" if self.unit else NUMBERS[self.value.name],
            "COLUMN": "std::uint32_t" if self.column is None else f"std::{self.column.name}_t",
            "START": "std::uint64_t" if self.start is None else f"std::{self.start.name}_t",
            "DENSE": str(int(self.dense)),
        }


def rows_on_device(
    device: Device, rows: Rows, n: int, features: int, value: np.dtype[np.generic], column: np.dtype[np.generic]
) -> DeviceRows:  # fmt: skip
    """The checked rows on the device, with values and columns of these types."""
    values = None if rows.unit else device.put(rows.values, value)
    if rows.dense:
        return values, None, None
    check_index(rows, features)
    columns, starts = device.put(rows.indices, column), device.put(rows.indptr, start_of(rows))
    check_sparse(columns, starts, n, features)
    return values, columns, starts


def start_of(rows: Rows) -> np.dtype[np.generic]:
    """The smallest type of the number of an entry."""
    return np.dtype(np.uint32 if rows.stored < 2**32 else np.uint64)


def narrowest_index(features: int) -> np.dtype[np.generic]:
    """The smallest type of column indices."""
    return np.dtype(np.uint16 if features <= 2**16 else np.uint32)


def longest_of(starts: DeviceArray) -> int:
    """The most entries of a sparse row."""
    return int((starts[1:] - starts[:-1]).max())
