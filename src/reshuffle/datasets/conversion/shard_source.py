"""Reads a folder of shards, to shuffle it or to change the type of its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reshuffle.datasets.conversion.source import Conversion, Place, Placed, Source
from reshuffle.datasets.opening import open_shards
from reshuffle.shards import Block

HELD = 64 << 20
"""Bytes of rows that are held while a folder is read."""


class ShardSource(Source):
    """The rows of a folder, in their order."""

    def __init__(self, folder: Path, how: Conversion) -> None:
        self.X, _ = open_shards(folder, memory=HELD, with_targets=False)
        manifest = self.X.manifest
        self.number, self._at = how.number, 0
        self.dense, self.features, self.names = self.X.dense, self.X.shape[1], manifest.names
        self.about = {
            "name": "shards", "bytes": manifest.bytes, "options": {"number": how.number},
            "check": sum(file.crc32 for shard in manifest.shards for file in shard.files.values()),
        }  # fmt: skip

    @property
    def classes(self) -> tuple[str, ...]:
        return self.X.manifest.classes

    def progress(self) -> tuple[int, int]:
        return self._at, len(self.X)

    def blocks(self, place: Place) -> Iterator[Placed]:
        for k, pieces in enumerate(self.X.shards):
            rows, targets = self.X.window(pieces), self.X.reader.targets(k)
            self._at += targets.size
            if rows.dense:
                yield Placed(Block(rows.values.astype(self.number), None, None, targets), {})
            else:
                ones = np.ones(rows.stored, dtype=self.number)
                values = ones if rows.unit else rows.values.astype(self.number)
                indptr = rows.indptr.astype(np.int64)
                yield Placed(Block(values, rows.indices, indptr, targets), {})
