"""Cuts visits to rows on disk into segments whose rows fit into a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reshuffle.arrays import AnyArray, Visits
from reshuffle.datafit import Datafit
from reshuffle.errors import InputError
from reshuffle.samples import Range
from reshuffle.shards import Shards

FEWEST = 1 << 12
"""The fewest visits that are examined together, so that short windows do not need a call of numpy for each visit."""
WASTE = 2.0
"""An order that reads the files more often than this in an epoch is refused; windows that begin and end inside shards read some pieces twice."""


class Segment(NamedTuple):
    """Consecutive visits, and the pieces of shards that they go to."""

    visits: slice
    pieces: tuple[int, ...]


Stretches = list[tuple[Range, Range]]
"""For each piece in memory its rows among all, and its rows in memory."""


def gathered(array: AnyArray, stretches: Stretches) -> AnyArray:
    """The entries of these rows, of an array with one for each row; of an empty array none."""
    if not array.size:
        return array
    found = np.empty((stretches[-1][1].end, *array.shape[1:]), dtype=array.dtype)
    for whole, local in stretches:
        local.of(found)[...] = whole.of(array)
    return found


class WindowPart(NamedTuple):
    """A segment with its rows in memory."""

    visits: Visits
    """Numbers of rows of ``fit``."""
    fit: Datafit
    stretches: Stretches
    segment: Segment

    def gather(self, table: AnyArray) -> AnyArray:
        return gathered(table, self.stretches)

    def scatter(self, part: AnyArray, table: AnyArray) -> None:
        for whole, local in self.stretches:
            whole.of(table)[...] = local.of(part)


def segments_of(rows: Shards, visits: Visits) -> list[Segment]:
    """The visits in turn, cut so that the pieces of each segment fit into a window."""
    counts, most = rows.counts, rows.window_rows
    found: list[Segment] = []
    begin, held, taken = 0, dict[int, None](), 0
    position = 0
    while position < visits.size:
        piece = visits[position : position + max(most, FEWEST)]
        owners = rows.owners(piece)
        shards, first = np.unique(owners, return_index=True)
        order, cut = np.argsort(first), -1
        for j in order.tolist():
            k = int(shards[j])
            if k in held:
                continue
            if held and taken + int(counts[k]) > most:
                cut = int(first[j])
                break
            held[k], taken = None, taken + int(counts[k])
        position += piece.size if cut < 0 else cut
        if cut >= 0 or position >= visits.size:
            found.append(Segment(slice(begin, position), tuple(held)))
            begin, held, taken = position, {}, 0
    _check_waste(rows, found, visits.size)
    return found


def _check_waste(rows: Shards, segments: Sequence[Segment], visits: int) -> None:
    read = sum(int(rows.counts[list(segment.pieces)].sum()) for segment in segments)
    if read > WASTE * max(visits, len(rows)):
        raise InputError(
            f"order: these visits jump between shards so that an epoch would read the files {read / len(rows):.0f} times; "
            f"order=Windows(window={rows.window_rows}) or a smaller window reads them once"
        )
