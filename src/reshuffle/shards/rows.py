"""The rows of a folder of shards, which a ``Problem`` takes in place of a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, shown
from reshuffle.rows import Rows
from reshuffle.shards.layout import Manifest
from reshuffle.shards.reader import Buffers, Piece, ShardReader

AnyRows = TypeVar("AnyRows", Rows, NDArray[np.float64])
MEMORY = 1 << 30
"""The bytes of rows that are held in memory by default."""
PIECES = 16
"""Pieces of a shard: at 2 MB each they are read nearly as fast as whole shards, and a window has many of them."""
WINDOWS = 4
"""A window takes 1/WINDOWS of the memory: one window is used, one is read, and working sets have the rest."""


@dataclass(frozen=True, eq=False)
class Shards:
    """Rows in files; only a window of them is in memory at a time.

    It has ``shape`` and ``dtype`` and supports ``X @ A`` and, for rising row numbers, ``X[rows]``.
    """

    reader: ShardReader
    memory: int = MEMORY
    """The bytes of rows that may be held in memory; rows that all fit are read once and stay there."""
    kept: tuple[NDArray[np.uint32], ...] | None = None
    """The selected rows of each piece, if not all rows are selected."""

    ndim = 2
    __iter__ = None
    """Refuse a loop over single rows, because rows are on disk."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What identifies these rows: the checksums of the files, and the selection of rows."""
        crcs = [file.crc32 for shard in self.manifest.shards for file in shard.files.values()]
        return "shards", crcs, [] if self.kept is None else list(self.kept)

    def widened(self, features: int) -> Shards:
        """These rows with further columns of zeros at the end."""
        if features == self.shape[1]:
            return self
        wider = replace(self.manifest, features=features)
        return replace(self, reader=ShardReader(self.reader.folder, wider))

    def read_only(self) -> Shards:
        """These rows; they are never written to."""
        return self

    # --- what a matrix tells of itself -------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        return self.reader.manifest

    @cached_property
    def pieces(self) -> list[Piece]:
        """Pieces of consecutive rows that are read together, several in a shard; an order shuffles the pieces."""
        each = max(-(-self.manifest.shard_rows // PIECES), 1)
        return [
            Piece(k, begin, min(begin + each, shard.rows))
            for k, shard in enumerate(self.manifest.shards)
            for begin in range(0, shard.rows, each)
        ]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        if self.kept is not None:
            return np.array([rows.size for rows in self.kept], dtype=np.int64)
        return np.array([piece.rows for piece in self.pieces], dtype=np.int64)

    @cached_property
    def shards(self) -> list[list[int]]:
        """The pieces of each shard that has rows."""
        found: dict[int, list[int]] = {}
        for k in np.flatnonzero(self.counts).tolist():
            found.setdefault(self.pieces[k].shard, []).append(k)
        return list(found.values())

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The number of the first row of each piece, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.starts[-1]), int(self.manifest.features)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.manifest.number)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dense(self) -> bool:
        return bool(self.manifest.layout == "dense")

    @property
    def unit(self) -> bool:
        return bool(self.manifest.unit)

    @cached_property
    def stored(self) -> int:
        """The number of values of the rows; if only some rows are selected, an estimate in proportion."""
        share = self.shape[0] / max(self.manifest.rows, 1)
        return round(self.manifest.stored * share)

    @property
    def number(self) -> str:
        return str(self.manifest.number)

    @property
    def layout(self) -> str:
        return ("dense" if self.dense else "CSR") + " on disk"

    @property
    def bytes(self) -> int:
        return self.manifest.memory_of(self.stored, self.shape[0])

    @property
    def fits(self) -> bool:
        """Whether all rows may be in memory at once."""
        return self.bytes <= self.memory

    @cached_property
    def window_rows(self) -> int:
        """The number of rows of a window that takes its share of the memory."""
        each = max(self.bytes // max(self.shape[0], 1), 1)
        return max(self.memory // WINDOWS // each, 1)

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<Shards: {n} x {d} {self.layout}, {self.number}, {len(self.manifest.shards)} shards in {self.reader.folder}>"

    # --- rows --------------------------------------------------------------------------------------

    def load(self) -> Rows:
        """All rows, in memory."""
        return self.window(range(len(self.counts)))

    def window(
        self, pieces: Sequence[int], buffers: Buffers | None = None, verify: bool = True
    ) -> Rows:
        """The rows of these pieces; they lie in the buffers, if these are given and all rows are selected.

        Without ``verify`` they are not compared with checksums: for a guess that later passes correct.
        """
        rows = self.reader.window([self.pieces[k] for k in pieces], buffers, verify)
        return self._selected(rows, pieces)

    def windows(self, groups: Sequence[Sequence[int]]) -> Iterator[Rows]:
        """The rows of each group of pieces, valid until the next group is asked for; a thread reads one group ahead."""
        wanted = [[self.pieces[k] for k in group] for group in groups]
        for group, rows in zip(groups, self.reader.windows(wanted), strict=True):
            yield self._selected(rows, group)

    def in_turn(self) -> Iterator[tuple[int, int, Rows]]:
        """The rows in storage order, a shard at a time, with the number of the first row and the number after the last."""
        for group, rows in zip(self.shards, self.windows(self.shards), strict=True):
            yield int(self.starts[group[0]]), int(self.starts[group[-1] + 1]), rows

    def _selected(self, rows: AnyRows, pieces: Sequence[int]) -> AnyRows:
        """Of all rows of these pieces those that are selected."""
        if self.kept is None:
            return rows
        before = np.concatenate([[0], np.cumsum([self.pieces[k].rows for k in pieces])])
        places = [self.kept[k] + np.uint32(at) for k, at in zip(pieces, before[:-1], strict=True)]
        return rows.take(np.concatenate(places).astype(np.uint32))

    def take(self, order: AnyArray) -> Shards:
        """The rows with these rising numbers, which stay on disk."""
        return self[order]

    def piece(self, start: int, stop: int) -> Shards:
        """The rows from ``start`` up to ``stop``, which stay on disk."""
        return self[start:stop]

    def owners(self, rows: AnyArray) -> NDArray[np.int64]:
        """The piece of each of these rows."""
        each = self.pieces[0].rows
        # If all pieces have the same length, a division is enough.
        if self.kept is None and self.manifest.shard_rows % each == 0:
            found: NDArray[np.int64] = (rows // rows.dtype.type(each)).astype(np.int64)
            return found
        return np.searchsorted(self.starts, rows, side="right") - 1

    def targets(self) -> NDArray[np.float64]:
        return self._selected(self.reader.targets(), range(len(self.counts)))

    def __matmul__(self, other: object) -> NDArray[np.float64]:
        """The product with a vector or a matrix, by one pass over the files."""
        whole = other.toarray() if hasattr(other, "toarray") else other
        right = np.asarray(whole, dtype=np.float64)
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[1]:
            raise InputError(
                f"X @ A: A must have {self.shape[1]} rows, one per feature, got shape {right.shape}"
            )
        out = np.empty((self.shape[0], *right.shape[1:]))
        for start, part in self.matrices():
            out[start : start + part.shape[0]] = part @ right
        return out

    def matrices(self) -> Iterator[tuple[int, Any]]:
        """The rows in storage order, a shard at a time, as an array or a sparse matrix, with the number of the first row."""
        for begin, end, rows in self.in_turn():
            yield begin, _matrix(rows, end - begin, self.shape[1])

    def __getitem__(self, rows: object) -> Shards:
        """Some of the rows, which stay on disk; ``rows`` is a mask or rising numbers."""
        chosen = np.arange(self.shape[0])[rows] if isinstance(rows, slice) else np.asarray(rows)
        if chosen.dtype == bool:
            if chosen.shape != (self.shape[0],):
                raise InputError(
                    f"X[rows]: a mask must have {self.shape[0]} entries, got {chosen.shape}"
                )
            chosen = np.flatnonzero(chosen)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not chosen.size:
            raise InputError(
                f"X[rows]: rows of shards must be numbers or a mask, got {shown(rows)}"
            )
        chosen = chosen.astype(np.int64)
        if chosen[0] < 0 or chosen[-1] >= self.shape[0] or np.any(np.diff(chosen) <= 0):
            raise InputError(
                "X[rows]: rows on disk are taken in rising order, each once and none negative; "
                "`reshuffle convert --shuffle` shuffles them"
            )
        cut = np.searchsorted(chosen, self.starts)
        kept = tuple(
            (chosen[cut[k] : cut[k + 1]] - self.starts[k]).astype(np.uint32)
            for k in range(len(self.counts))
        )
        if self.kept is not None:
            kept = tuple(old[new] for old, new in zip(self.kept, kept, strict=True))
        return replace(self, kept=kept)


def _matrix(rows: Rows, n: int, features: int) -> object:
    if rows.dense:
        return rows.values
    values = np.ones(rows.indices.size) if rows.unit else rows.values
    parts = (values, rows.indices.astype(np.int32), rows.indptr.astype(np.int64))
    return sp.csr_matrix(parts, shape=(n, features))
