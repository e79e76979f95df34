"""Chooses the threads and blocks of a pass over all rows of one problem on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.gpu.device import RESERVED, Device

THREADS = 128
"""Threads of a block that takes tiles of rows."""
RESIDENT = 5
"""The most blocks on a processor: on an H200 its memory holds the tiles of five blocks, with 20 values in each row and 1,000 columns."""
LONG = 48
"""If rows have at least this many entries in the mean, all threads of a warp share a row."""
KEPT = 24
"""The most entries of a sparse row that one thread keeps."""
NARROW = 64
"""Dense rows of at most this many columns are worked on like sparse rows of equal length, by one thread each."""
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


class PassLayout(NamedTuple):
    """Threads and blocks of a pass, and the settings of its kernels."""

    threads: int
    resident: int
    """Blocks that a processor works on at a time."""
    memory: int
    settings: dict[str, str]

    def blocks(self, device: Device, n: int) -> int:
        rows = int(self.settings.get("HEIGHT", self.threads))
        return max(1, min(device.processors * self.resident, -(-n // rows)))


def pass_layout(
    device: Device, value: np.dtype[np.generic], column: int, dense: bool, features: int, mean: float, longest: int, aligned: bool,
    scaled: bool,
) -> PassLayout:  # fmt: skip
    """The layout for rows of this mean and largest length; ``column`` is the number of bytes of a column index, 0 for dense rows."""
    if dense and features > NARROW:
        return _wide(device, value.itemsize, features, aligned)
    warp = max(device.lanes)
    threads = THREADS if warp > 1 else 1
    lanes = warp if mean >= LONG else 1
    even = -(-features // 2) * 2
    memory = 8 * even * (3 + scaled) + 8 * (-(-threads // 2) * 2)
    each = (0 if value == np.bool_ else value.itemsize) + column
    most = device.processor_memory // RESIDENT - RESERVED
    fitting = (min(most, device.block_memory) - memory) // max(each, 1) - 2 * PACKED
    short = bool(column) and longest <= KEPT
    wanted = (
        threads * longest if short else int(ROOMY * threads * mean)
    ) // PACKED * PACKED + PACKED
    capacity = wanted if lanes == 1 and aligned and 0 < wanted <= fitting else 0
    memory += (capacity + PACKED) * each if capacity else 0
    resident = max(1, min(RESIDENT, device.processor_memory // (memory + RESERVED)))
    kept = longest if capacity and short else 0
    settings = {"WIDE": "0", "LANES": str(lanes), "CAPACITY": str(capacity), "HELD": str(kept)}
    return PassLayout(threads, resident, memory, settings)


def _wide(device: Device, item: int, features: int, aligned: bool) -> PassLayout:
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
