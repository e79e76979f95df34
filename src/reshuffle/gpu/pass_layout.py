"""How a pass over all rows of one problem is laid out on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.gpu.device import RESERVED, Device

THREADS = 128
"""Threads of a block that takes tiles of rows."""
RESIDENT = 5
"""Blocks of a processor at most: of five, tiles of 20 values in each row and 1,000 columns fit into its memory on an H200."""
LONG = 48
"""Mean entries of a row from which on all threads of a warp share it."""
KEPT = 24
"""Entries of a sparse row that one thread keeps, at most."""
NARROW = 64
"""Dense rows of at most so many columns are taken as rows of equal length, one thread each."""
HELD = 8
"""Columns of a long dense row that a thread keeps."""
WIDE_THREADS = 384
"""Threads of a processor whose registers fit where rows are kept in them: 65,536 registers over 170 of each thread."""
HEIGHT = {4: 8, 8: 4}
"""Dense rows that are kept at a time, by the bytes of a value: 64 registers of each thread."""
PACKED = 16
"""Bytes that a thread copies or reads at a time."""
ROOMY = 1.25
"""Memory for the entries of a tile, over those of a tile of rows of mean length."""


class PassLayout(NamedTuple):
    """Threads and blocks of a pass, and the settings of its kernels."""

    threads: int
    resident: int
    """Blocks that a processor works on at a time."""
    memory: int
    settings: dict[str, str]

    def blocks(self, device: Device, n: int) -> int:
        """Blocks for n rows."""
        rows = int(self.settings.get("HEIGHT", self.threads))
        return max(1, min(device.processors * self.resident, -(-n // rows)))


def pass_layout(
    device: Device, value: np.dtype[np.generic], column: int, dense: bool, features: int, mean: float, longest: int, aligned: bool,
    scaled: bool,
) -> PassLayout:  # fmt: skip
    """The layout for rows of this mean and largest length; ``column`` are the bytes of an index, 0 where there are none."""
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
