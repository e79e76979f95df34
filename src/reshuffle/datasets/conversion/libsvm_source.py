"""Reads LIBSVM text, some MB of whole lines at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.datasets.conversion.source import Conversion, Place, Placed, Source, identity_of
from reshuffle.datasets.libsvm_blocks import libsvm_blocks
from reshuffle.datasets.source import DAMAGE, damage, unpacked
from reshuffle.errors import InputError
from reshuffle.shards import Block


class LibsvmSource(Source):
    """A file in LIBSVM format, packed or not. The first block decides whether indices begin with 0 or with 1."""

    dense = False

    def __init__(self, path: str, how: Conversion) -> None:
        self.path, self.number, self.first = path, how.number, how.first_index
        self.about = identity_of(path, number=how.number, first_index=how.first_index)
        self.given = how.first_index is not None
        self.features = 0
        self.size, self._at = os.stat(path).st_size, 0

    def progress(self) -> tuple[int, int]:
        return self._at, self.size

    def blocks(self, place: Place) -> Iterator[Placed]:
        """The blocks from a place on; a packed file has no places and is read from its beginning."""
        offset, lines = (place["offset"], place["lines"]) if place else (0, 0)
        if place:
            self.first = place["first"]
        damaged = damage(f"cannot read {self.path}", *DAMAGE)
        with open(self.path, "rb") as raw, damaged, unpacked(raw) as file:
            if offset:
                file.seek(offset)
            for rows, at, before in libsvm_blocks(file, self.path, offset=offset, lines=lines):
                self._at = raw.tell()
                if rows.rows:
                    block, first = self._from_zero(rows, before)
                    here = {"offset": at, "lines": before, "first": first}
                    yield Placed(block, here if file is raw else {})

    def _from_zero(self, rows: Block, lines: int) -> tuple[Block, int]:
        """The rows with columns that are numbered from 0 on, and the index that the file has for the first of them."""
        indices: AnyArray = np.asarray(rows.indices)
        if self.first is None:
            self.first = 0 if indices.size and indices.min() == 0 else 1
        if indices.size and indices.min() < self.first:
            hint = "should begin with index 1" if self.given else "has no index 0"
            raise InputError(
                f"{self.path} has a feature with the index 0 after line {lines}, and its beginning {hint}: give "
                "--first-index 0 and convert it into an empty folder"
            )
        indices = indices - self.first if self.first else indices
        self.features = max(self.features, int(indices.max(initial=-1)) + 1)
        values = rows.values.astype(self.number, copy=False)
        return Block(values, indices, rows.indptr, rows.targets), self.first
