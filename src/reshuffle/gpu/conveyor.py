"""Copies the rows of shards from files to a device, piece after piece.

While kernels work on one piece, threads read the next ones into pinned memory and copy them to the device. Pieces are worked on
in the order of the files, so that no result depends on which thread was first.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.checks import check_sparse
from reshuffle.gpu.device import Device
from reshuffle.interruption import listen
from reshuffle.shards import Buffers, Shards

READERS = 8
"""The most threads that read files: one thread copies a few GB/s out of the page cache, and a card takes tens of GB/s."""
SLOTS = READERS + 2
"""The most pieces in memory at a time: one for each reading thread, one that waits, and one that kernels work on."""
SPARE = 8
"""Buffers are 1/SPARE larger than the piece they were made for, because pieces of sparse rows differ in size."""

Work = Callable[[int, int, int, DeviceRows], None]
"""A function of a piece: its number, its first row, the row after its last, and its rows on the device."""


class Slot:
    """Memory for one piece: pinned memory of the processor, memory of the device, and a channel between them."""

    def __init__(self, device: Device) -> None:
        self.device, self.channel = device, device.channel()
        self.here = Buffers(lambda size, dtype: device.pinned(size + size // SPARE, dtype))
        self.there = Buffers(self._room)

    def _room(self, size: int, dtype: object) -> DeviceArray:
        """New memory, after all started kernels have ended: they may still use it for something else."""
        made = self.device.room(size + size // SPARE, dtype)
        self.device.finish()
        return made

    def load(self, shards: Shards, group: list[int]) -> DeviceRows:
        """Read a group of pieces; returns their rows when they are on the device."""
        rows = shards.window(group, self.here)
        values = None if rows.unit else self._copied("values", rows.values)
        columns = starts = None
        if not rows.dense:
            columns = self._copied("columns", rows.indices)
            starts = self._copied("starts", rows.indptr.astype(np.uint64, copy=False))
        self.channel.wait()
        return values, columns, starts

    def _copied(self, name: str, array: AnyArray) -> DeviceArray:
        into: DeviceArray = self.there.room(name, array.shape, array.dtype)
        self.channel.copy(array, into)
        return into


class Conveyor:
    """The rows of shards in pieces of about ``piece`` bytes."""

    def __init__(self, device: Device, shards: Shards, piece: int) -> None:
        self.device, self.shards = device, shards
        self.groups = groups_of(shards, piece)

    @cached_property
    def slots(self) -> list[Slot]:
        count = min(SLOTS, (os.cpu_count() or 1) + 2, len(self.groups))
        return [Slot(self.device) for _ in range(count)]

    def each(self, work: Work) -> None:
        """Call ``work`` on every piece, in the order of the rows; the rows of a piece must not be used after its call."""
        slots, groups, starts = self.slots, self.groups, self.shards.starts
        waiting: deque[Future[DeviceRows]] = deque()
        with ThreadPoolExecutor(max(1, len(slots) - 2), thread_name_prefix="shards") as pool:

            def send(k: int) -> None:
                if k < len(groups):
                    slot = slots[k % len(slots)]
                    waiting.append(pool.submit(slot.load, self.shards, groups[k]))

            try:
                for k in range(len(slots)):
                    send(k)
                for k, group in enumerate(groups):
                    rows = waiting.popleft().result()
                    listen()
                    begin, end = int(starts[group[0]]), int(starts[group[-1] + 1])
                    if rows[1] is not None:  # the files may have changed since they were checked
                        check_sparse(rows[1], rows[2], end - begin, self.shards.shape[1])
                    work(k, begin, end, rows)
                    self.device.finish()
                    send(k + len(slots))
            finally:
                for rest in waiting:
                    rest.cancel()


def groups_of(shards: Shards, piece: int) -> list[list[int]]:
    """Groups of consecutive pieces of shards; each group takes about ``piece`` bytes.

    Small shards are joined; a larger one is divided if possible.
    """
    each = shards.bytes / max(shards.shape[0], 1)
    found: list[list[int]] = []
    room = 0.0
    for shard in shards.shards:
        size = each * float(shards.counts[shard].sum())
        if size > piece:
            parts = np.array_split(shard, min(len(shard), int(-(-size // piece))))
            found += [part.tolist() for part in parts]
            room = 0.0
        elif size <= room:
            found[-1] += shard
            room -= size
        else:
            found.append(list(shard))
            room = piece - size
    return found
