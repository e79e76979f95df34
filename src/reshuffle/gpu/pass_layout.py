"""Chooses the threads and blocks of a pass over all rows of one problem on a device."""

from __future__ import annotations

from typing import NamedTuple

from reshuffle.gpu.device import RESERVED, Device, Launch
from reshuffle.gpu.row_kind import RowKind

THREADS = 128
"""Threads of a block that takes tiles of rows."""
RESIDENT = 5
"""The most blocks on a processor: on an H200 its memory holds the tiles of five blocks, with 20 values in each row and 1,000 columns."""
LONG = 48
"""If rows have at least this many entries in the mean, all threads of a warp share a row."""
KEPT = 24
"""The most entries of a sparse row that one thread keeps."""
HELD = 8
"""Columns of a long dense row that a thread keeps."""
WIDE_THREADS = 384
"""The most threads of a processor that keep rows in registers: 65,536 registers, about 170 for each thread."""
HEIGHT = {4: 8, 8: 4}
"""Dense rows that a thread keeps at a time, by the bytes of a value; they take 64 of its registers."""
PACKED = 16
"""Bytes that a thread copies or reads at a time."""
ROOMY = 1.25
"""A tile has memory for this many times the entries of a tile with rows of mean length."""
RESIDENT_APART = 8
"""Blocks of 128 threads that a processor works on at a time in those passes: each thread then has 64 of its 65,536 registers."""


class PassLayout(NamedTuple):
    """Threads and blocks of a pass, and the settings of its kernels."""

    threads: int
    resident: int
    """Blocks that a processor works on at a time."""
    memory: int
    settings: dict[str, str]

    def launch(self, device: Device, n: int) -> Launch:
        """A pass over n rows."""
        rows = int(self.settings.get("HEIGHT", self.threads))
        blocks = max(1, min(device.processors * self.resident, -(-n // rows)))
        return Launch(blocks, self.threads, self.memory)


def over(
    device: Device, count: int, *, warps: bool = False, most: int = 64, memory: int = 0
) -> Launch:
    """A launch with one thread, or one warp, for each of ``count`` pieces of work.

    There are at most ``most`` blocks for each processor, with ``memory`` bytes for each of their threads.
    """
    threads = threads_of(device)
    needed = -(-count * (max(device.lanes) if warps else 1) // threads)
    return Launch(max(1, min(most * device.processors, needed)), threads, memory * threads)


def threads_of(device: Device) -> int:
    """Threads of a block; one where kernels run on the processor."""
    return THREADS if max(device.lanes) > 1 else 1


def pass_layout(
    device: Device, kind: RowKind, mean: float, longest: int, aligned: bool, scaled: bool
) -> PassLayout:
    """The layout for rows of this mean and largest length; ``aligned`` rows begin at multiples of 16 bytes."""
    features, item = kind.features, kind.value.itemsize
    if kind.wide:
        return _apart(device, mean)
    if kind.whole:
        return _whole(device, item, features, aligned)
    threads, column = threads_of(device), 0 if kind.column is None else kind.column.itemsize
    lanes = max(device.lanes) if mean >= LONG else 1
    even = -(-features // 2) * 2
    memory = 8 * even * (3 + scaled) + 8 * (-(-threads // 2) * 2)
    each = (0 if kind.unit else item) + column
    most = device.processor_memory // RESIDENT - RESERVED
    fitting = (min(most, device.block_memory) - memory) // max(each, 1) - 2 * PACKED
    short = not kind.dense and longest <= KEPT
    wanted = (
        threads * longest if short else int(ROOMY * threads * mean)
    ) // PACKED * PACKED + PACKED
    capacity = wanted if lanes == 1 and aligned and 0 < wanted <= fitting else 0
    memory += (capacity + PACKED) * each if capacity else 0
    resident = max(1, min(RESIDENT, device.processor_memory // (memory + RESERVED)))
    kept = longest if capacity and short else 0
    return PassLayout(threads, resident, memory, _tiles(lanes, capacity, kept))


def _tiles(lanes: int, capacity: int = 0, kept: int = 0) -> dict[str, str]:
    return {"WIDE": "0", "LANES": str(lanes), "CAPACITY": str(capacity), "HELD": str(kept)}


def _apart(device: Device, mean: float) -> PassLayout:
    """Passes with sums of columns made apart: a block needs memory for its own sums alone."""
    threads, lanes = threads_of(device), device.lanes[-1 if mean >= LONG else 0]
    return PassLayout(threads, RESIDENT_APART, 8 * threads, {"APART": "1", **_tiles(lanes)})


def _whole(device: Device, item: int, features: int, aligned: bool) -> PassLayout:
    """Dense rows, each kept by a whole block."""
    warp = max(device.lanes)
    threads = warp
    while threads * HELD < features and warp > 1:
        threads *= 2
    pack = PACKED // item if aligned and features * item % PACKED == 0 and warp > 1 else 1
    held = -(-features // threads)
    held = -(-held // pack) * pack
    height = HEIGHT[item]
    memory = 8 * (threads + height + height * -(-threads // warp))
    resident = max(1, WIDE_THREADS // threads) if warp > 1 else 1
    settings = {"WIDE": "1", "HELD": str(held), "PACK": str(pack), "HEIGHT": str(height)}
    return PassLayout(threads, resident, memory, settings)
