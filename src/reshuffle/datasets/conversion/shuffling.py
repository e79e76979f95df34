"""Shuffles rows on disk in two passes: rows are dealt into buckets at random, and each bucket is shuffled in memory.

Every row goes to one of K buckets, independently and with equal probabilities. If each bucket is put in uniformly random order,
the buckets one after the other are all rows in uniformly random order. K is chosen so that a bucket fits into memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import numpy as np

from reshuffle.datasets.conversion.source import Placed
from reshuffle.datasets.source import damage
from reshuffle.shards import Block

FOLDER = "buckets"
BUCKET = 64 << 20
"""The approximate bytes of a bucket; shuffling it takes a few times as much memory."""
DEALT = 32 << 20
"""Bytes of rows that are dealt at a time: enough that buckets are not written in tiny pieces."""
LARGER, PACKED = 3.0, 15.0
"""The most bytes that rows take in buckets, as multiples of the bytes of their file: for a plain file, and for a packed one."""


class Buckets:
    """The buckets of a conversion, in a folder of their own, which is removed once they have been read."""

    def __init__(self, folder: Path, count: int, dense: bool, number: str, seed: int) -> None:
        self.folder, self.count, self.dense = folder / FOLDER, count, dense
        self.number, self.seed = np.dtype(number), seed

    @staticmethod
    def needed(size: int, packed: bool) -> int:
        """K for a file of ``size`` bytes."""
        return max(round(size * (PACKED if packed else LARGER) / BUCKET), 1)

    def begin(self) -> None:
        """Remove the buckets of an earlier attempt."""
        self.remove()
        self.folder.mkdir()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def deal(self, blocks: Iterator[Placed]) -> Iterator[int]:
        """Deal all rows; from time to time this yields the number of rows dealt so far."""
        rng, done = np.random.default_rng([self.seed, 0]), 0
        held: list[Block] = []
        for placed in blocks:
            held.append(placed.block)
            if sum(block.bytes for block in held) >= DEALT:
                done += self._deal(Block.join(held), rng)
                held = []
                yield done
        if held:
            done += self._deal(Block.join(held), rng)
        yield done

    def _deal(self, block: Block, rng: np.random.Generator) -> int:
        chosen = rng.integers(0, self.count, size=block.rows, dtype=np.uint32)
        order = np.argsort(chosen, kind="stable")
        dealt, ends = block.take(order), np.searchsorted(chosen[order], np.arange(self.count + 1))
        for k in range(self.count):
            if ends[k] < ends[k + 1]:
                with open(self.folder / f"{k:05d}", "ab") as file:
                    self._write(file, dealt.part(int(ends[k]), int(ends[k + 1])))
        return block.rows

    def blocks(self) -> Iterator[Placed]:
        """The rows of all buckets in their new order."""
        for k in range(self.count):
            path = self.folder / f"{k:05d}"
            if not path.exists():
                continue
            wrong = f"{path} is damaged: delete the folder, and convert again"
            with damage(wrong, OSError, ValueError, EOFError), open(path, "rb") as file:
                block = Block.join(list(self._read(file)))
            order = np.random.default_rng([self.seed, 1 + k]).permutation(block.rows)
            yield Placed(block.take(order), {})

    # --- a piece of a bucket: two arrays of dense rows, four of sparse ones -------------------------

    def _write(self, file: BinaryIO, block: Block) -> None:
        np.save(file, block.targets.astype(np.float64))
        np.save(file, block.values.astype(self.number, copy=False))
        if block.indptr is not None and block.indices is not None:
            np.save(file, np.diff(block.indptr).astype(np.uint32))
            np.save(file, block.indices.astype(np.uint32))

    def _read(self, file: BufferedReader) -> Iterator[Block]:
        while file.peek(1):
            targets, values = np.load(file), np.load(file)
            if self.dense:
                yield Block(values, None, None, targets)
            else:
                lengths, indices = np.load(file), np.load(file)
                indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
                yield Block(values, indices, indptr, targets)
