"""Puts samples on a device: checks them, converts them to types that the kernels read, and compiles the kernels."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.checks import check_index, check_sparse
from reshuffle.gpu.clients import NUMBERS, check_loss_on_device
from reshuffle.gpu.device import Device, Kernels, Launch
from reshuffle.gpu.pass_layout import THREADS, PassLayout, pass_layout
from reshuffle.gpu.samples import DeviceSamples
from reshuffle.gpu.wide_samples import MANY, WideSamples, apart_layout
from reshuffle.losses import Loss
from reshuffle.rows import Rows
from reshuffle.smoothness import OVERFLOW

COLUMNS = (np.dtype(np.uint16), np.dtype(np.uint32))
"""Types of column indices that the kernels read."""
ALIKE = 4
"""One scale serves all columns if the exponents of their largest entries differ by at most this."""
NOTHING = -(2**30)
"""Stands for the exponent of a column of zeros."""
LARGEST_EXPONENT = 500
"""The largest exponent of an entry: sums of squares of numbers beyond 2^500 overflow."""


def samples_on_device(
    device: Device,
    rows: Rows,
    targets: DeviceArray,
    weights: DeviceArray,
    offsets: DeviceArray,
    loss: Loss,
    features: int,
    bias: bool,
) -> DeviceSamples:
    """Samples for passes on the device. Arrays that are already there, in a type that the kernels read, are not copied.

    Column indices that come from the processor are stored in 16 bits if they fit, and targets as float32 if that is exact.
    """
    check_loss_on_device(loss)
    n = len(targets)
    value = np.dtype(rows.values.dtype)
    values = None if rows.unit else device.put(rows.values, value)
    columns = starts = None
    if not rows.dense:
        check_index(rows, features)
        wanted = np.dtype(rows.indices.dtype)
        if wanted not in COLUMNS or (features <= 2**16 and _is_here(rows.indices)):
            wanted = np.dtype(np.uint16 if features <= 2**16 else np.uint32)
        columns = device.put(rows.indices, wanted)
        starts = device.put(rows.indptr, np.uint32 if rows.stored < 2**32 else np.uint64)
        check_sparse(columns, starts, n, features)
    target = type_of_targets(targets)
    start = np.dtype(np.uint64) if starts is None else np.dtype(starts.dtype)
    kind = RowKind(value, None if columns is None else np.dtype(columns.dtype), start, features)
    arrays = [a for a in (values, columns) if a is not None]
    aligned = all(_address(a) % 16 == 0 for a in arrays)
    longest = features if starts is None else int((starts[1:] - starts[:-1]).max())
    if kind.wide and n >= 2**32:
        raise InputError(f"rows with more than {MANY} columns: a device takes fewer than 2^32 of them, got {n}")  # fmt: skip
    compiled = partial(
        kernels_of, device, kind, target, loss, bias, rows.stored / n, longest, aligned
    )

    layout, kernels = compiled(scaled=False)
    scales, exponent = None, 1
    if kind.needs_scales(layout):
        exponents = exponents_of_columns(device, kernels, (values, columns, starts), n, features)
        scales, exponent = scales_of(device, exponents)
        if scales is not None:
            layout, kernels = compiled(scaled=True)
    empty = np.empty(0)
    made = WideSamples if kind.wide else DeviceSamples
    return made(
        device, kernels, layout, (values, columns, starts), device.put(targets, target),
        device.put(weights, np.float64) if len(weights) else empty,
        device.put(offsets, np.float64) if len(offsets) else empty,
        loss, features, bias, scales, exponent, [1.0],
    )  # fmt: skip


class RowKind(NamedTuple):
    """The types of rows that kernels are compiled for. Dense rows have no column indices; rows of ones have type bool."""

    value: np.dtype[np.generic]
    column: np.dtype[np.generic] | None
    start: np.dtype[np.generic]
    features: int

    @property
    def unit(self) -> bool:
        return self.value == np.bool_

    @property
    def wide(self) -> bool:
        """Whether the memory of a block is too small for the columns (``WideSamples``)."""
        return self.features > MANY

    def needs_scales(self, layout: PassLayout) -> bool:
        """Whether the sums of a pass are made of integers, so that the size of entries matters."""
        return not self.wide and layout.settings["WIDE"] == "0" and not self.unit


def kernels_of(
    device: Device,
    kind: RowKind,
    target: np.dtype[np.generic],
    loss: Loss,
    bias: bool,
    mean: float,
    longest: int,
    aligned: bool,
    scaled: bool,
) -> tuple[PassLayout, Kernels]:
    """The kernels for rows of this mean and largest length, with or without scales of columns."""
    dense, size = kind.column is None, 0 if kind.column is None else kind.column.itemsize
    layout = apart_layout(device, mean)
    if not kind.wide:
        layout = pass_layout(
            device, kind.value, size, dense, kind.features, mean, longest, aligned, scaled
        )
    settings = {
        "APART": "0",
        "VALUE": "bool" if kind.unit else NUMBERS[kind.value.name],
        "COLUMN": "std::uint32_t" if kind.column is None else f"std::{kind.column.name}_t",
        "START": f"std::{kind.start.name}_t", "DENSE": str(int(dense)), "TARGET": NUMBERS[target.name],
        "LOSS": check_loss_on_device(loss), "BIAS": "true" if bias else "false", "THREADS": str(layout.threads),
        "RESIDENT": str(layout.resident), **layout.settings,
    }  # fmt: skip
    return layout, device.compile(settings, "problem")


def type_of_targets(targets: DeviceArray) -> np.dtype[np.generic]:
    """float32 if the targets have it, or if they come from the processor and float32 represents them exactly; else float64."""
    if np.dtype(targets.dtype) == np.float32:
        return np.dtype(np.float32)
    if _is_here(targets) and np.array_equal(np.asarray(targets, dtype=np.float32), targets):
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def scales_of(device: Device, exponents: NDArray[np.int32]) -> tuple[DeviceArray | None, int]:
    """Powers of two that scale columns of different sizes (None if one is enough), and e with |a_ij·scale_j| < 2^e."""
    seen = exponents[exponents > NOTHING]
    exponent = int(seen.max(initial=0))
    if exponent > LARGEST_EXPONENT:
        raise InputError(OVERFLOW)
    if seen.size and exponent - int(seen.min()) > ALIKE:
        sizes = np.where(exponents > NOTHING, exponents, 0)
        return device.put(np.ldexp(1.0, -sizes), np.float64), 0
    return None, exponent


def exponents_of_columns(
    device: Device, kernels: Kernels, rows: DeviceRows, n: int, features: int
) -> NDArray[np.int32]:
    """The exponent of the largest entry of each column."""
    found = device.put(np.full(features, NOTHING), np.int32)
    threads = THREADS if max(device.lanes) > 1 else 1
    blocks = max(1, min(8 * device.processors, -(-n // threads)))
    launch = Launch(blocks, threads)
    kernels.run("exponents_of_columns", launch, *rows, np.int64(n), np.int32(features), found)
    return device.get(found)


def _is_here(array: object) -> TypeGuard[AnyArray]:
    """Whether an array is in the memory of the processor."""
    return isinstance(array, np.ndarray)


def _address(array: DeviceArray) -> int:
    data = getattr(array, "data", None)
    pointer: int = array.ctypes.data if isinstance(array, np.ndarray) else data.ptr  # type: ignore[union-attr]
    return pointer
