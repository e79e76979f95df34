"""Sparse rows column by column on a device, for sums over rows in a fixed order."""

from __future__ import annotations

import numpy as np

from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.device import Device, Kernels
from reshuffle.gpu.pass_layout import over

SHORTEST = 256
"""The fewest entries in a stretch of a column, which a thread adds up one after the other: writing their sum costs as much as a few entries."""
MOST = 1 << 18
"""The most stretches beyond one for each column: more than the threads that a card runs at a time."""


class DeviceColumns:
    """Σ_i a_ij s_ik for every column j and output k: first the sum of each stretch of a column, then the sum over its stretches.

    The entries are sorted once, by column and row; this is a second copy of the matrix.
    """

    def __init__(
        self, device: Device, kernels: Kernels, rows: DeviceRows, n: int, features: int
    ) -> None:
        if n >= 2**32:
            raise InputError(f"a device takes fewer than 2^32 sparse rows at a time, got {n}")
        self.device, self.kernels, self.features = device, kernels, features
        values, _, starts = rows
        stored = int(starts[-1])
        keys = device.room(stored, np.int64)
        self.kernels.run("keys_of_entries", over(device, n), *rows, np.int64(n), keys)
        keys = keys[:stored]
        order = device.order(keys)  # no two keys are equal: every sort gives the same order
        self.values = None if values is None else values[:stored][order]
        keys = keys[order]
        del order
        found = device.room(features + 1, np.int64)
        self.kernels.run(
            "column_starts", over(device, stored + 1), keys, np.int64(stored), np.int64(n), np.int32(features), found
        )  # fmt: skip
        self.rows = (keys % n).astype(np.uint32)
        begins = device.get(found)
        longest = max(SHORTEST, -(-stored // MOST))
        counts = -(-np.diff(begins) // longest)
        first = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(first[-1]) - np.repeat(first[:-1], counts)
        bounds = np.append(np.repeat(begins[:-1], counts) + longest * within, stored)
        self.stretches = int(first[-1])
        self.first, self.bounds = device.put(first, np.int64), device.put(bounds, np.int64)

    def combined(self, slopes: DeviceArray) -> DeviceArray:
        """Σ_i a_i s_iᵀ, a matrix of the device with a row for each column and a column for each output."""
        outputs = int(slopes.shape[1])
        parts = self.device.room(self.stretches * outputs, np.float64)
        found = self.device.room(self.features * outputs, np.float64)
        self.kernels.run(
            "stretch_sums", over(self.device, self.stretches * outputs), self.values, self.rows, self.bounds,
            np.int64(self.stretches), np.int32(outputs), slopes, parts,
        )  # fmt: skip
        self.kernels.run(
            "column_sums", over(self.device, self.features * outputs), parts, self.first, np.int32(self.features),
            np.int32(outputs), found,
        )  # fmt: skip
        return found.reshape(self.features, outputs)
