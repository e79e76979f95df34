"""Samples are put on a device: checked, in types that the kernels read, with kernels compiled for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.gpu.checks import check_sparse
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
"""Columns whose largest entries are within this many powers of two share one scale."""
LARGEST_EXPONENT = 500
"""Squares of numbers beyond 2^500 overflow in sums."""


def samples_on_device(
    device: Device,
    rows: Rows,
    targets: Any,
    weights: Any,
    offsets: Any,
    loss: Loss,
    features: int,
    bias: bool,
) -> DeviceSamples:
    """Samples for passes on the device: arrays that lie there, in a type that the kernels read, are not copied.

    Columns of rows that come from the processor take 16 bits where they fit, and targets float32 where that is exact.
    """
    compiled_loss, n = check_loss_on_device(loss), len(targets)
    value = np.dtype(rows.values.dtype)
    values = None if rows.unit else device.put(rows.values, value)
    columns = starts = None
    if not rows.dense:
        wanted = np.dtype(rows.indices.dtype)
        if wanted not in COLUMNS or (features <= 2**16 and _is_here(rows.indices)):
            wanted = np.dtype(np.uint16 if features <= 2**16 else np.uint32)
        columns = device.put(rows.indices, wanted)
        starts = device.put(rows.indptr, np.uint32 if rows.stored < 2**32 else np.uint64)
        check_sparse(columns, starts, n, features)
    target = np.dtype(targets.dtype)
    if target != np.float32:
        target = np.dtype(np.float64)
        if _is_here(targets) and np.array_equal(np.asarray(targets, dtype=np.float32), targets):
            target = np.dtype(np.float32)
    start = np.dtype(np.uint64) if starts is None else np.dtype(starts.dtype)
    arrays = [a for a in (values, columns) if a is not None]
    aligned = all(_address(a) % 16 == 0 for a in arrays)

    longest = features if starts is None else int((starts[1:] - starts[:-1]).max())
    kind = WideSamples if features > MANY else DeviceSamples
    if kind is WideSamples and n >= 2**32:
        raise InputError(f"rows with more than {MANY} columns: a device takes fewer than 2^32 of them, got {n}")  # fmt: skip

    def kernels_of(scaled: bool) -> tuple[PassLayout, Kernels]:
        size = 0 if columns is None else columns.dtype.itemsize
        layout = apart_layout(device, rows.stored / n)
        if kind is DeviceSamples:
            layout = pass_layout(
                device, value, size, rows.dense, features, rows.stored / n, longest, aligned, scaled
            )
        settings = {
            "APART": "0",
            "VALUE": "bool" if rows.unit else NUMBERS[value.name],
            "COLUMN": "std::uint32_t" if columns is None else f"std::{columns.dtype.name}_t",
            "START": f"std::{start.name}_t", "DENSE": str(int(rows.dense)), "TARGET": NUMBERS[target.name],
            "LOSS": compiled_loss, "BIAS": "true" if bias else "false", "THREADS": str(layout.threads),
            "RESIDENT": str(layout.resident), **layout.settings,
        }  # fmt: skip
        return layout, device.compile(settings, "problem")

    layout, kernels = kernels_of(False)
    scales, exponent = None, 1
    if kind is DeviceSamples and layout.settings["WIDE"] == "0" and not rows.unit:
        exponents = _exponents(device, kernels, (values, columns, starts), n, features)
        seen = exponents[exponents > -(2**30)]
        exponent = int(seen.max(initial=0))
        if exponent > LARGEST_EXPONENT:
            raise InputError(OVERFLOW)
        if seen.size and exponent - int(seen.min()) > ALIKE:
            sizes = np.where(exponents > -(2**30), exponents, 0)
            scales, exponent = device.put(np.ldexp(1.0, -sizes), np.float64), 0
            layout, kernels = kernels_of(True)
    empty = np.empty(0)
    return kind(
        device, kernels, layout, (values, columns, starts), device.put(targets, target),
        device.put(weights, np.float64) if len(weights) else empty,
        device.put(offsets, np.float64) if len(offsets) else empty,
        loss, features, bias, scales, exponent, [1.0],
    )  # fmt: skip


def _exponents(
    device: Device, kernels: Kernels, rows: tuple[Any, Any, Any], n: int, features: int
) -> NDArray[np.int32]:
    """The exponent of the largest entry of each column."""
    found = device.put(np.full(features, -(2**30)), np.int32)
    threads = THREADS if max(device.lanes) > 1 else 1
    blocks = max(1, min(8 * device.processors, -(-n // threads)))
    launch = Launch(blocks, threads)
    kernels.run("exponents_of_columns", launch, *rows, np.int64(n), np.int32(features), found)
    return device.get(found)


def _is_here(array: Any) -> bool:
    """Whether an array lies in the memory of the processor."""
    return isinstance(array, np.ndarray)


def _address(array: Any) -> int:
    data = getattr(array, "data", None)
    pointer: int = array.ctypes.data if isinstance(array, np.ndarray) else data.ptr  # type: ignore[union-attr]
    return pointer
