"""The samples of a problem whose rows come from shards to a device in every pass, because they do not all fit there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.cached import cached_property, keep
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.conveyor import Conveyor
from reshuffle.gpu.device import zeros
from reshuffle.gpu.samples import (
    DeviceSamples,
    Pass,
    SamplesAround,
    mean_of_squares,
    spread_rows,
)
from reshuffle.losses import Loss

CHUNK = 1 << 24
"""Rows whose conjugates are summed at a time, 400 MB of tables. It is fixed so that results do not depend on the memory of the device."""


@dataclass(frozen=True, eq=False)
class StreamedSamples(SamplesAround):
    """Σ_i w_i·l(a_iᵀx + b + o_i, y_i) over rows of shards. Each piece is a ``DeviceSamples``; their sums are added in the order of the rows.

    ``samples_of_shards`` makes one. Tables with a number for each row lie on the device, or on the processor if they do not fit.
    ``base`` has the samples without their rows: kernels, tables of targets, weights and offsets, and scales of columns.
    """

    conveyor: Conveyor
    at_zero: float
    """f(0)."""
    kept: DeviceSamples
    """Rows that stay on the device, from all parts of the files: smaller samples are drawn from them."""
    largest: int
    """The most rows of a sample."""
    tables_there: bool
    """Whether tables with a number for each row lie on the device."""
    read_before: int
    """Bytes of the folder that had been read before this problem was made."""
    bounds: tuple[list[float], ...]
    """``DeviceSamples.bound`` of each piece."""

    outputs = ()

    @property
    def loss(self) -> Loss:
        return self.base.loss

    @property
    def shape(self) -> tuple[int]:
        return self.base.shape

    @property
    def targets(self) -> DeviceArray:
        return self.base.targets

    @property
    def offsets(self) -> DeviceArray:
        return self.base.offsets

    @property
    def rows(self) -> NoReturn:
        """Raises: the rows come to the device in pieces."""
        raise AttributeError("rows of shards come to the device in pieces")

    @property
    def dense(self) -> bool:
        return self.conveyor.shards.dense

    @property
    def nbytes(self) -> int:
        return int(self.conveyor.shards.bytes) + int(self.targets.nbytes)

    @property
    def disk_passes(self) -> float:
        """The bytes read from the folder for this problem, over the bytes of its rows."""
        about = self.conveyor.shards.manifest
        targets = sum(shard.files["targets"].bytes for shard in about.shards)
        read = self.conveyor.shards.reader.bytes_read - self.read_before
        return read / (about.bytes - targets)

    @property
    def room(self) -> Array:
        """``DeviceSamples.room`` of all pieces."""
        return np.concatenate(self.bounds)

    def make_room(self, room: Array) -> None:
        """Restore the ``room`` of an earlier pass."""
        for bound, own in zip(self.bounds, room.tolist(), strict=True):
            bound[0] = own

    @property
    def rounded(self) -> bool:
        """Whether a pass sums rounded terms."""
        return self.base.rounded

    def finely(self) -> StreamedSamples:
        """The same samples, with passes that sum all digits."""
        known = {name: vars(self)[name] for name in ("column_squares",) if name in vars(self)}
        return keep(replace(self, base=replace(self.base, fine=True)), **known)

    # --- passes ----------------------------------------------------------------------------------

    def at(self, x: Array) -> Pass:
        """f, ∇f and the slopes at x, by one pass; the first one also finds the squares of columns."""
        slopes, total = self._table(), np.zeros(self.width + 1)
        squares = None if "column_squares" in vars(self) else np.zeros(self.features)

        def work(begin: int, end: int, piece: DeviceSamples) -> None:
            nonlocal squares
            found = piece.at(x)
            self._store(slopes, begin, end, found.slopes)
            total[:-1] += found.gradient * piece.n
            total[-1] += found.value * piece.n
            if squares is not None:
                squares += piece.column_squares * piece.n

        self._over_pieces(work)
        if squares is not None:
            vars(self)["column_squares"] = squares / self.n
        return Pass(float(total[-1]) / self.n, total[:-1] / self.n, slopes, self.room)

    def margins(self, x: Array) -> DeviceArray:
        """a_iᵀx + b, on the device or the processor like the other tables."""
        found = self._table()
        self._over_pieces(
            lambda begin, end, piece: self._store(found, begin, end, piece.margins(x))
        )
        return found

    def combined(self, slopes: DeviceArray) -> Array:
        """(1/n) Σ w_i slopes_i a_i."""
        total = np.zeros(self.width)

        def work(begin: int, end: int, piece: DeviceSamples) -> None:
            nonlocal total
            total += piece.combined(self._part(slopes, begin, end)) * piece.n

        self._over_pieces(work)
        return total / self.n

    def conjugates(self, slopes: DeviceArray, scale: float) -> float:
        """Σ_i w_i·l*(scale·slopes_i, y_i), without a pass over rows."""
        total = 0.0
        for begin in range(0, self.n, CHUNK):
            end = min(begin + CHUNK, self.n)
            piece = piece_of(self.base, begin, end, self.base.rows, [1.0])
            total += piece.conjugates(self._part(slopes, begin, end), scale)
        return total

    @cached_property
    def column_squares(self) -> Array:
        """(1/n) Σ w_i a_ij² of each feature."""
        self.at(np.zeros(self.width))  # any pass computes them too
        found: Array = vars(self)["column_squares"]
        return found

    def hessian(self, x: Array, extra: float = 0.0) -> Array:
        """(1/n) Σ w_i (l''_i + extra) a_i a_iᵀ, by one pass."""
        total = zeros(self.device, self.width, self.width)

        def work(begin: int, end: int, piece: DeviceSamples) -> None:
            nonlocal total
            total += piece.bent_squares(x, extra)

        self._over_pieces(work)
        return mean_of_squares(self.device, total, self.n)

    # --- other samples ---------------------------------------------------------------------------

    def sample(self, count: int, key: int) -> DeviceSamples:
        """``count`` rows from all parts of the files, or ``largest`` if that is fewer; the key is the seed."""
        if count <= self.kept.n or self.largest <= self.kept.n:
            return self.kept.sample(min(count, self.kept.n), key)
        count = min(count, self.largest)
        return self.take(spread_rows(self.device, self.base.kernels, self.n, count, key))

    def take(self, chosen: DeviceArray) -> DeviceSamples:
        """The samples of the chosen rows, on the device, by one pass; ``chosen`` must be sorted."""
        at = np.asarray(self.device.get(chosen))
        if at.ndim != 1 or not at.size or at[0] < 0 or at[-1] >= self.n or np.any(np.diff(at) < 0):
            raise InputError(
                f"chosen: rows must be numbers from 0 to {self.n - 1} that do not fall"
            )
        parts: list[DeviceSamples] = []
        self._over_pieces(lambda begin, end, piece: parts.extend(part_of(piece, at, begin, end)))
        return joined(self.base, parts)

    # --- pieces ----------------------------------------------------------------------------------

    def _over_pieces(self, work: Callable[[int, int, DeviceSamples], None]) -> None:
        def on_rows(k: int, begin: int, end: int, rows: DeviceRows) -> None:
            work(begin, end, piece_of(self.base, begin, end, rows, self.bounds[k]))

        self.conveyor.each(on_rows)

    def _table(self) -> DeviceArray:
        return self.device.room(self.n, np.float64) if self.tables_there else np.empty(self.n)

    def _store(self, table: DeviceArray, begin: int, end: int, found: DeviceArray) -> None:
        table[begin:end] = found if self.tables_there else self.device.get(found)

    def _part(self, table: DeviceArray, begin: int, end: int) -> DeviceArray:
        return self.device.put(table[begin:end], np.float64)


def piece_of(
    base: DeviceSamples, begin: int, end: int, rows: DeviceRows, bound: list[float]
) -> DeviceSamples:
    """The samples of rows ``begin`` up to ``end``; ``rows`` holds these rows on the device."""
    targets, weights, offsets = (
        base.device.put(table[begin:end], table.dtype) if len(table) else table
        for table in (base.targets, base.weights, base.offsets)
    )
    return replace(base, rows=rows, targets=targets, weights=weights, offsets=offsets, bound=bound)


def part_of(piece: DeviceSamples, chosen: AnyArray, begin: int, end: int) -> list[DeviceSamples]:
    """The samples of the chosen rows that lie in this piece: a list of one, or an empty one."""
    first, last = np.searchsorted(chosen, [begin, end])
    return [piece.take(chosen[first:last] - begin)] if last > first else []


def joined(base: DeviceSamples, parts: list[DeviceSamples]) -> DeviceSamples:
    """The samples of all parts, one after the other, with the kernels and scales of ``base``."""
    device, n = base.device, sum(part.n for part in parts)

    def together(arrays: list[Any]) -> Any:
        empty = arrays[0] is None or not any(map(len, arrays))
        return arrays[0] if empty else np.concatenate(arrays)  # CuPy's, for its arrays

    values = [part.rows[0] for part in parts]
    columns = [part.rows[1] for part in parts]
    begins = None
    if columns[0] is not None:
        starts = [part.rows[2] for part in parts]
        begins, row, stored = device.room(n + 1, starts[0].dtype), 0, [0]
        begins[0] = 0
        for own in starts:
            begins[row + 1 : row + len(own)] = own[1:] + own.dtype.type(stored[-1])
            row += len(own) - 1
            stored.append(stored[-1] + int(own[-1]))
        # If no row of a part has an entry, its arrays hold one unused number.
        lengths = np.diff(stored).tolist()
        columns = [a[:m] for a, m in zip(columns, lengths, strict=True)]
        values = [None if a is None else a[:m] for a, m in zip(values, lengths, strict=True)]
    return replace(
        base,
        rows=(together(values), together(columns), begins),
        targets=together([part.targets for part in parts]),
        weights=together([part.weights for part in parts]),
        offsets=together([part.offsets for part in parts]),
        bound=[1.0],
    )
