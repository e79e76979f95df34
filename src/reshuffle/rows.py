"""The data matrix: dense rows, CSR rows, or CSR rows whose values are all 1.

Only this module and the kernels distinguish the layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Visits
from reshuffle.core import native
from reshuffle.validation import read_only

PIECE = 1 << 14
"""Values are compared this many at a time, so that they stay in the first-level cache."""
UNIT = read_only(np.empty(0, dtype=np.bool_))
"""The empty array that stands for values that are all 1."""
NO_INDEX = read_only(np.empty(0, dtype=np.uint32))
"""The index arrays of dense rows."""
ABSENT = np.uint32(2**32 - 1)
"""The new index of a column that is not kept: the largest 32-bit number, which no column has."""


class Rows(NamedTuple):
    """The matrix in the form that the kernels read; ``indices`` and ``indptr`` are empty if it is dense."""

    values: AnyArray
    indices: AnyArray
    indptr: AnyArray

    @classmethod
    def of_dense(cls, values: AnyArray) -> Rows:
        """The rows of a matrix in C order."""
        return cls(read_only(values), NO_INDEX, NO_INDEX)

    @property
    def dense(self) -> bool:
        return self.values.ndim == 2

    @property
    def unit(self) -> bool:
        """Whether all values are 1 and therefore not stored."""
        return self.values.dtype == np.bool_

    @property
    def stored(self) -> int:
        return int(self.values.size if self.dense else self.indices.size)

    @property
    def number(self) -> str:
        """The name of the values' type, which numpy itself takes microseconds to find."""
        return f"float{8 * self.values.itemsize}"

    @property
    def layout(self) -> str:
        return "dense" if self.dense else "CSR"

    def without_ones(self) -> Rows:
        """These rows without their values, if they are sparse and all values are 1."""
        if self.dense or not all(
            np.all(self.values[k : k + PIECE] == 1) for k in range(0, self.values.size, PIECE)
        ):
            return self
        return self._replace(values=UNIT)

    def take(self, order: Visits) -> Rows:
        """The rows in the given order, stored in that order (a copy)."""
        if self.dense:
            return self._replace(values=read_only(self.values[order]))
        lengths = self.indptr[1:][order] - self.indptr[order]
        stored = int(lengths.sum(dtype=np.int64))
        indptr = np.zeros(order.size + 1, dtype=np.uint32 if stored < 2**32 else np.uint64)
        np.cumsum(lengths, out=indptr[1:])
        del lengths  # Freed before the large arrays are allocated.
        indices = np.empty(stored, dtype=self.indices.dtype)
        native.gather(self.indices, self.indptr, order, indices)
        values = self.values
        if not self.unit:
            values = np.empty(stored, dtype=self.values.dtype)
            native.gather(self.values, self.indptr, order, values)
        return Rows(read_only(values), read_only(indices), read_only(indptr))

    def piece(self, start: int, stop: int) -> Rows:
        """The rows from ``start`` up to ``stop``, without a copy."""
        if self.dense:
            return self._replace(values=self.values[start:stop])
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        pointers = read_only(self.indptr[start : stop + 1] - self.indptr[start])
        values = self.values if self.unit else self.values[first:last]
        return Rows(values, self.indices[first:last], pointers)

    def stretch(self, part: slice) -> Rows:
        """Some of the rows for a kernel, which reads through ``indptr``: nothing is copied."""
        if self.dense:
            return self._replace(values=self.values[part])
        return self._replace(indptr=self.indptr[part.start : part.stop + 1])

    @staticmethod
    def join(parts: Sequence[Rows]) -> Rows:
        """The rows of these matrices, one after the other (a copy)."""
        first, values = parts[0], np.concatenate([part.values for part in parts])
        if first.dense:
            return first._replace(values=read_only(values))
        indices = np.concatenate([part.indices for part in parts])
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(first.indptr.dtype)
        return Rows(read_only(values), read_only(indices), read_only(indptr))

    def column_counts(self, features: int) -> NDArray[np.int64]:
        if self.dense:
            return np.full(features, len(self.values))
        counts = np.zeros(features, dtype=np.int64)
        native.count_columns(self.indices, counts)
        return counts

    def columns(self, kept: Visits, features: int) -> Rows:
        """Only these columns, out of this many (a copy)."""
        if self.dense:
            return self._replace(values=read_only(np.take(self.values, kept, axis=1)))
        place = np.full(features, ABSENT, dtype=np.uint32)
        place[kept] = np.arange(kept.size, dtype=np.uint32)
        indptr = np.zeros_like(self.indptr)
        stored = 0
        if kept.size:
            native.count_kept(self.indices, self.indptr, place, indptr)
            np.cumsum(indptr, out=indptr)
            stored = int(indptr[-1])
        indices = np.empty(stored + 1, dtype=self.indices.dtype)
        values = self.values if self.unit else np.empty(stored + 1, dtype=self.values.dtype)
        if stored and self.unit:
            native.keep_indices(self.indices, self.indptr, place, indices, indptr)
        elif stored:
            native.keep_columns(
                self.values, self.indices, self.indptr, place, values, indices, indptr
            )
        kept_values = values if self.unit else read_only(values[:stored])
        return Rows(kept_values, read_only(indices[:stored]), read_only(indptr))

    def add_to(self, out: NDArray[np.float64]) -> None:
        """Add the matrix to a dense one, which lies column by column."""
        if self.dense:
            out += self.values
        else:
            native.add_entries(self.values, self.indices, self.indptr, out.T)

    def squared_norms(self, out: NDArray[np.float64]) -> None:
        """out_i = ‖a_i‖² of every row."""
        if self.dense:
            native.dense_squared_norms(self.values, out)
        elif self.unit:
            out[:] = np.diff(self.indptr)
        else:
            native.csr_squared_norms(self.values, self.indptr, out)

    def read_only(self) -> Rows:
        """These rows with read-only arrays; needed for copies from another process."""
        return Rows(*map(read_only, self))
