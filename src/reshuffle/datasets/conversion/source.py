"""The interface of a source of rows: blocks, one after the other, with the place where each begins."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from reshuffle.shards import Block

Place = dict[str, int]
"""The beginning of a block, for a reader that can jump there; empty if rows must be read from the beginning."""


class Placed(NamedTuple):
    """Some rows, and where they begin."""

    block: Block
    place: Place


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


def identity_of(path: str | os.PathLike[str], **options: object) -> dict[str, object]:
    """The file by name, size and time, with the options that it is read with."""
    about = os.stat(path)
    shown = {name: value for name, value in options.items() if value not in (None, (), False)}
    name = os.path.basename(os.path.abspath(os.fspath(path)))
    return {"name": name, "bytes": about.st_size, "changed": about.st_mtime_ns, "options": shown}
