"""Writes shards from blocks of rows; each shard reaches the disk before the manifest names it."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import FileError
from reshuffle.files import replacing
from reshuffle.shards.layout import Manifest, Shard, StoredFile, npy_header, write_manifest

T = TypeVar("T")
SHARD_BYTES = 32 << 20
"""The approximate bytes of a shard: two windows of several shards fit into a small memory, and reads of this size are sequential."""
FEWEST, MOST = 256, 1 << 22
"""The least and the largest number of rows of a shard, whatever the size of a row."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The error numbers of the system for a disk without free space."""


class Block(NamedTuple):
    """Some rows. If they are dense, ``values`` is a matrix, and there are no indices; if they are sparse, ``indptr`` begins with 0."""

    values: AnyArray
    indices: Any
    indptr: Any
    targets: AnyArray

    @property
    def rows(self) -> int:
        return len(self.targets)

    @property
    def bytes(self) -> int:
        indices = 0 if self.indices is None else self.indices.nbytes
        return int(self.values.nbytes + indices + 16 * self.rows)

    def part(self, start: int, stop: int) -> Block:
        """The rows from ``start`` up to ``stop``, as views."""
        if self.indptr is None:
            return Block(self.values[start:stop], None, None, self.targets[start:stop])
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        pointers = self.indptr[start : stop + 1] - first
        return Block(
            self.values[first:last], self.indices[first:last], pointers, self.targets[start:stop]
        )

    def take(self, order: AnyArray) -> Block:
        """These rows, in this order (a copy)."""
        if self.indptr is None:
            return Block(self.values[order], None, None, self.targets[order])
        lengths = np.diff(self.indptr)[order]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.indptr[:-1][order] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Block(self.values[places], self.indices[places], indptr, self.targets[order])

    @staticmethod
    def join(blocks: list[Block]) -> Block:
        """The rows of all blocks, one after the other."""
        if len(blocks) == 1:
            return blocks[0]
        values = np.concatenate([block.values for block in blocks])
        targets = np.concatenate([block.targets for block in blocks])
        if blocks[0].indptr is None:
            return Block(values, None, None, targets)
        indices = np.concatenate([block.indices for block in blocks])
        lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
        return Block(values, indices, np.concatenate([[0], np.cumsum(lengths)]), targets)


def rows_of_a_shard(block: Block) -> int:
    """The number of rows, a power of two, with which a shard of rows like these takes about ``SHARD_BYTES``."""
    wanted = SHARD_BYTES * block.rows / max(block.bytes, 1)
    return int(min(max(2 ** round(np.log2(max(wanted, 1.0))), FEWEST), MOST))


class ShardWriter:
    """Appends rows to a folder. It holds less than a shard and a block in memory."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._held: list[Block] = []

    @property
    def held(self) -> int:
        return sum(block.rows for block in self._held)

    def append(self, block: Block) -> int:
        """Take rows; returns the number of shards that they completed."""
        written = 0
        while block.rows:
            room = self.manifest.shard_rows - self.held
            self._held.append(block.part(0, min(room, block.rows)))
            block = block.part(min(room, block.rows), block.rows)
            if self.held == self.manifest.shard_rows:
                self._flush()
                written += 1
        return written

    def note(self, **source: object) -> None:
        """Record in the manifest where a conversion that is interrupted now would resume."""
        self.manifest = replace(self.manifest, source=self.manifest.source | source)
        self._guarded(lambda: write_manifest(self.folder, self.manifest))

    def finish(self, **changes: Any) -> Manifest:
        """Write the last shard, and the manifest that declares the folder complete."""
        if self.held:
            self._flush()
        self.manifest = replace(self.manifest, complete=True, **changes)
        self._guarded(lambda: write_manifest(self.folder, self.manifest))
        return self.manifest

    def _flush(self) -> None:
        block, number = Block.join(self._held), len(self.manifest.shards)
        self._held = []
        files = self._guarded(lambda: self._arrays(block, number))
        squares = _squares(block)
        shard = Shard(block.rows, int(block.values.size), files)
        old = self.manifest
        self.manifest = replace(
            old, shards=(*old.shards, shard), largest_square=max(old.largest_square, float(squares.max(initial=0.0))),
            sum_of_squares=old.sum_of_squares + float(squares.sum()),
        )  # fmt: skip

    def _arrays(self, block: Block, number: int) -> dict[str, StoredFile]:
        found: dict[str, AnyArray] = {"targets": block.targets.astype(np.float64, copy=False)}
        if block.indptr is None:
            found["values"] = np.ascontiguousarray(block.values, dtype=self.manifest.number)
        else:
            found["indptr"] = block.indptr.astype(np.uint64, copy=False)
            found["indices"] = block.indices.astype(np.uint32, copy=False)
            if not np.all(block.values == 1):
                found["values"] = block.values.astype(self.manifest.number, copy=False)
        return {
            name: self._write(f"{number:05d}.{name}.npy", array) for name, array in found.items()
        }

    def _write(self, name: str, array: AnyArray) -> StoredFile:
        start = npy_header(array.dtype.str, array.shape)
        body = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        with replacing(self.folder / name) as file:
            file.write(start)
            file.write(body.data)
        check = zlib.crc32(body.data, zlib.crc32(start))
        return StoredFile(name, len(start) + body.size, check)

    def _guarded(self, work: Callable[[], T]) -> T:
        """Do the work; the error for a full disk says how many rows are finished and how to continue."""
        try:
            return work()
        except OSError as error:
            if error.errno not in FULL:
                raise
            done = sum(shard.rows for shard in self.manifest.shards)
            raise FileError(
                f"the disk of {self.folder} is full. {done:,} rows in {len(self.manifest.shards)} shards are finished and "
                "stay there: make room, and run the same command again to continue",
                error.errno,
            ) from None


def _squares(block: Block) -> NDArray[np.float64]:
    """‖a_i‖² of every row."""
    if block.indptr is None:
        return np.asarray(np.einsum("ij,ij->i", block.values, block.values, dtype=np.float64))
    total = np.concatenate([[0.0], np.cumsum(block.values.astype(np.float64) ** 2)])
    return np.diff(total[block.indptr.astype(np.int64)])
