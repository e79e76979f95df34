"""Puts samples on a device: checks them, converts them to types that the kernels read, and compiles the kernels."""

from __future__ import annotations

from functools import partial
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.clients import check_loss_on_device
from reshuffle.gpu.device import Device, Kernels
from reshuffle.gpu.pass_layout import PassLayout, over, pass_layout
from reshuffle.gpu.row_kind import (
    MANY,
    NUMBERS,
    RowKind,
    longest_of,
    narrowest_index,
    rows_on_device,
)
from reshuffle.gpu.samples import DeviceSamples, Terms
from reshuffle.gpu.wide_samples import WideSamples
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


def samples_on_device(device: Device, rows: Rows, terms: Terms) -> DeviceSamples:
    """Samples for passes on the device. Arrays that are already there, in a type that the kernels read, are not copied.

    Column indices that come from the processor are stored in 16 bits if they fit, and targets as float32 if that is exact.
    """
    check_loss_on_device(terms.loss)
    n, features = len(terms.targets), terms.features
    column, narrowest = np.dtype(rows.indices.dtype), narrowest_index(features)
    if column not in COLUMNS or (narrowest == np.uint16 and _is_here(rows.indices)):
        column = narrowest
    there = rows_on_device(device, rows, n, features, np.dtype(rows.values.dtype), column)
    target, kind = type_of_targets(terms.targets), RowKind.of(there, features)
    aligned = all(_address(a) % 16 == 0 for a in there[:2] if a is not None)
    longest = features if kind.dense else longest_of(there[2])
    if kind.wide and n >= 2**32:
        raise InputError(f"rows with more than {MANY} columns: a device takes fewer than 2^32 of them, got {n}")  # fmt: skip
    compiled = partial(
        kernels_of, device, kind, target, terms.loss, terms.bias, rows.stored / n, longest, aligned
    )

    layout, kernels = compiled(scaled=False)
    scales, exponent = None, 1
    if kind.needs_scales:
        exponents = exponents_of_columns(device, kernels, there, n, features)
        scales, exponent = scales_of(device, exponents)
        if scales is not None:
            layout, kernels = compiled(scaled=True)
    weights, offsets = (
        device.put(given, np.float64) if len(given) else np.empty(0)
        for given in (terms.weights, terms.offsets)
    )
    made = WideSamples if kind.wide else DeviceSamples
    return made(
        device, kernels, layout, there, device.put(terms.targets, target), weights, offsets,
        terms.loss, features, terms.bias, scales, exponent, [1.0],
    )  # fmt: skip


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
    layout = pass_layout(device, kind, mean, longest, aligned, scaled)
    settings = {
        "APART": "0", **kind.settings, "TARGET": NUMBERS[target.name], "LOSS": check_loss_on_device(loss),
        "BIAS": "true" if bias else "false", "THREADS": str(layout.threads), "RESIDENT": str(layout.resident), **layout.settings,
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
    launch = over(device, n, most=8)
    kernels.run("exponents_of_columns", launch, *rows, np.int64(n), np.int32(features), found)
    return device.get(found)


def _is_here(array: object) -> TypeGuard[AnyArray]:
    """Whether an array is in the memory of the processor."""
    return isinstance(array, np.ndarray)


def _address(array: DeviceArray) -> int:
    data = getattr(array, "data", None)
    pointer: int = array.ctypes.data if isinstance(array, np.ndarray) else data.ptr  # type: ignore[union-attr]
    return pointer
