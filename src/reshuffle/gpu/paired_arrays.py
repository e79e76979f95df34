"""Remembers arrays that are both on the processor and on a device, so that each is copied once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.device import Device


class PairedArrays:
    """Pairs of an array of the processor, with one row, and the same numbers on the device."""

    def __init__(self, device: Device, number: np.dtype[np.generic]) -> None:
        self.device, self.number = device, number
        self._pairs: list[tuple[AnyArray, DeviceArray]] = []

    def there(self, array: AnyArray) -> DeviceArray:
        for here, there in self._pairs:
            if here is array:
                return there
        there = self.device.put(array.reshape(-1), self.number)
        self._pairs.append((array, there))
        return there

    def here(self, array: DeviceArray) -> AnyArray:
        """The array on the processor, as float64 and with one row."""
        for here, there in self._pairs:
            if there is array:
                return here
        here = self.device.get(array).astype(np.float64).reshape(1, -1)
        self._pairs.append((here, array))
        return here

    def only(self, arrays: Iterable[AnyArray]) -> None:
        """Forget all pairs except those of the given arrays of the processor."""
        kept = {id(array) for array in arrays}
        self._pairs = [pair for pair in self._pairs if id(pair[0]) in kept]
