"""How to convert, and the interface of a source of rows: blocks, one after the other, with the place where each begins."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reshuffle.errors import InputError
from reshuffle.files import Location
from reshuffle.shards import Block
from reshuffle.shards.layout import NUMBERS
from reshuffle.validation import check_positive

Place = dict[str, int]
"""The beginning of a block, for a reader that can jump there; empty if rows must be read from the beginning."""


class Placed(NamedTuple):
    """Some rows, and where they begin."""

    block: Block
    place: Place


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How to convert.

    Parameters
    ----------
    format : "libsvm", "csv", "parquet" or "npz"; by default the name of the file decides.
    target : the column of a table, or the array of an .npz file, to learn.
    drop : columns of a table to leave out.
    separator : of a CSV file.
    number : "float64" or "float32", of the values.
    first_index : 0 or 1, of a LIBSVM file; by default 1 unless the first lines have an index 0.
    shard_rows : rows of a shard; by default as many as take about 32 MB.
    shuffle : put the rows in random order on the way, by a second pass over them.
    seed : of that order.
    """

    format: str | None = None
    target: str | None = None
    drop: tuple[str, ...] = ()
    separator: str | None = None
    number: str = "float64"
    first_index: int | None = None
    shard_rows: int | None = None
    shuffle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.number not in NUMBERS:
            raise InputError(f"number must be one of {', '.join(NUMBERS)}, got {self.number!r}")
        if self.first_index not in (None, 0, 1):
            raise InputError(f"first_index must be 0 or 1, got {self.first_index!r}")
        if self.shard_rows is not None:
            check_positive("shard_rows", self.shard_rows, integer=True)


class Source(ABC):
    """Rows that are read once, in order."""

    dense: bool
    features: int
    """The number of features of the rows read so far."""
    names: tuple[str, ...] = ()
    about: dict[str, object]
    """The identity of the file, which must be the same when an interrupted conversion is continued."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, if they are texts, in the order in which they first occurred."""
        return ()

    def progress(self) -> tuple[int, int]:
        """How much of the file has been read, and how much there is."""
        return 0, 0

    @abstractmethod
    def blocks(self, place: Place) -> Iterator[Placed]:
        """The blocks from a place on; for an empty place, from the beginning."""


def identity_of(path: Location, **options: object) -> dict[str, object]:
    """The file by name, size and time, with the options that it is read with."""
    about = os.stat(path)
    shown = {name: value for name, value in options.items() if value not in (None, (), False)}
    name = os.path.basename(os.path.abspath(os.fspath(path)))
    return {"name": name, "bytes": about.st_size, "changed": about.st_mtime_ns, "options": shown}
