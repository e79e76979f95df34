"""Puts the rows of shards on a device: loaded once if they all fit there, otherwise streamed in every pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.conveyor import Conveyor
from reshuffle.gpu.device import Device
from reshuffle.gpu.inputs import NO_INDEX
from reshuffle.gpu.placing import (
    NOTHING,
    exponents_of_columns,
    kernels_of,
    samples_on_device,
    scales_of,
    type_of_targets,
)
from reshuffle.gpu.row_kind import MANY, RowKind, narrowest_index
from reshuffle.gpu.samples import DeviceSamples, Terms, spread_rows
from reshuffle.gpu.streamed import StreamedSamples, joined, part_of, piece_of
from reshuffle.rows import UNIT, Rows
from reshuffle.shards import Shards

PIECE = 64 << 20
"""The most bytes of a piece: copying it takes some milliseconds, far longer than starting the kernels that work on it."""
PIECES = 32
"""A piece takes at most 1/PIECES of the memory: the ten that are in memory at a time take less than a third."""
TABLES = 5
"""The most tables with eight bytes for each row: targets, the slopes of two points, a balanced dual point, and one that is being made."""
TABLE_SHARE = 2
"""Tables lie on the device if they take at most 1/TABLE_SHARE of its memory: pieces and a sample take less than the rest."""
SAMPLE_SHARE = 8
"""A sample takes at most 1/SAMPLE_SHARE of the memory, and twice as much while its parts are being joined."""
SAMPLED = 16
"""One row in SAMPLED stays on the device: as many as the largest sample of a start has (newton_on_device.py)."""
PER_COLUMN = 400
"""At least this many rows for each column stay on the device, unless that is more than half of the rows: a first Hessian has as many (device_newton.py)."""
KEY = 0
"""The key that chooses the rows that stay on the device. It is the same for every seed; samples of these rows depend on the seed."""


def samples_of_shards(
    device: Device, shards: Shards, terms: Terms
) -> DeviceSamples | StreamedSamples:
    """Samples whose rows are in files, for passes on the device. ``device.memory`` decides whether all rows stay there."""
    n, memory, features = len(terms.targets), device.memory, terms.features
    conveyor = Conveyor(device, shards, max(1, min(PIECE, memory // PIECES)))
    copies = 2 if features > MANY else 1  # many columns: stored row by row and column by column
    needed = _bytes_there(shards, features) * (copies + 2 / SAMPLED) + 8 * TABLES * n
    if needed <= memory:
        return samples_on_device(device, _loaded(conveyor, n, features), terms)
    if features > MANY:
        raise InputError(
            f"rows on disk with more than {MANY} columns must fit into the memory of the device, and these {features} columns "
            f"take {needed:.2g} bytes of {memory:.2g}: leave out device"
        )
    return _streamed(conveyor, terms, memory)


def _bytes_there(shards: Shards, features: int) -> int:
    each = 0 if shards.unit else shards.dtype.itemsize
    if shards.dense:
        return each * shards.stored
    return (each + narrowest_index(features).itemsize) * shards.stored + 8 * shards.shape[0]


def _loaded(conveyor: Conveyor, n: int, features: int) -> Rows:
    """All rows, on the device."""
    device, shards = conveyor.device, conveyor.shards
    if shards.dense:
        table: Any = device.room(n * features, shards.dtype)[: n * features].reshape(n, features)

        def copy(k: int, begin: int, end: int, rows: DeviceRows) -> None:
            table[begin:end] = rows[0]

        conveyor.each(copy)
        return Rows(table, NO_INDEX, NO_INDEX)
    whole = shards.manifest.stored  # of all rows, even if only some are selected
    values: Any = UNIT if shards.unit else device.room(whole, shards.dtype)
    columns: Any = device.room(whole, narrowest_index(features))
    starts: Any = device.room(n + 1, np.uint32 if whole < 2**32 else np.uint64)
    starts[0], stored = 0, 0

    def append(k: int, begin: int, end: int, rows: DeviceRows) -> None:
        nonlocal stored
        after = stored + int(rows[2][-1])
        if rows[0] is not None:
            values[stored:after] = rows[0]
        columns[stored:after] = rows[1]
        starts[begin + 1 : end + 1] = rows[2][1:] + np.uint64(stored)
        stored = after

    conveyor.each(append)
    return Rows(values if shards.unit else values[:stored], columns[:stored], starts)


def _streamed(conveyor: Conveyor, terms: Terms, memory: int) -> StreamedSamples:
    """Samples whose rows are streamed. A first pass finds the sizes of columns and f(0), and draws the rows that stay on the device."""
    device, shards, n = conveyor.device, conveyor.shards, len(terms.targets)
    tables_there = 8 * TABLES * n * TABLE_SHARE <= memory
    read_before, target = shards.reader.bytes_read, type_of_targets(terms.targets)
    value = np.dtype(np.bool_) if shards.unit else shards.dtype
    column = None if shards.dense else np.dtype(np.uint32)
    kind = RowKind(value, column, np.dtype(np.uint64), terms.features)
    # Kernels for rows of any length: only reading the files would show the longest, and copies take longer than kernels.
    longest, mean = max(terms.features, 1), shards.stored / n
    compiled = partial(
        kernels_of, device, kind, target, terms.loss, terms.bias, mean, longest, aligned=True
    )

    def table(given: AnyArray, dtype: DTypeLike) -> DeviceArray:
        there = tables_there and given.size
        return device.put(given, dtype) if there else np.ascontiguousarray(given, dtype=dtype)

    layout, kernels = compiled(scaled=False)
    bare = DeviceSamples(
        device, kernels, layout, (None, None, None), table(terms.targets, target), table(terms.weights, np.float64),
        table(terms.offsets, np.float64), terms.loss, terms.features, terms.bias, None, 1, [1.0],
    )  # fmt: skip
    each = max(_bytes_there(shards, bare.features) // n, 1)
    least = min(n, PER_COLUMN * bare.width)  # fewer rows would say little about the columns
    largest = min(n, max(memory // SAMPLE_SHARE // each, least))
    count = min(largest, max(1, n // SAMPLED, min(n // 2, PER_COLUMN * bare.width)))
    chosen = device.get(spread_rows(device, kernels, n, count, KEY))
    parts: list[DeviceSamples] = []
    exponents, at_zero = np.full(bare.features, NOTHING, dtype=np.int32), 0.0

    def work(k: int, begin: int, end: int, rows: DeviceRows) -> None:
        nonlocal exponents, at_zero
        piece = piece_of(bare, begin, end, rows, [1.0])
        if kind.needs_scales:
            own = exponents_of_columns(device, bare.kernels, rows, piece.n, bare.features)
            exponents = np.maximum(exponents, own)
            piece = replace(piece, exponent=max(0, int(own.max())))
        at_zero += piece.at_zero * piece.n
        parts.extend(part_of(piece, chosen, begin, end))

    conveyor.each(work)
    if kind.needs_scales:
        scales, exponent = scales_of(device, exponents)
        layout, kernels = compiled(scaled=scales is not None)
        bare = replace(bare, scales=scales, exponent=exponent, layout=layout, kernels=kernels)
    bounds = tuple([1.0] for _ in conveyor.groups)
    return StreamedSamples(
        bare, conveyor, at_zero / n, joined(bare, parts), largest, tables_there, read_before, bounds
    )
