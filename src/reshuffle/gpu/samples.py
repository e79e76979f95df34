"""The samples of one large problem on a device, and passes over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import frexp, ldexp
from typing import Any, NamedTuple, Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import cached_property, keep
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.device import Device, Kernels, Launch, zeros
from reshuffle.gpu.pass_layout import PassLayout, over
from reshuffle.losses import Loss

BITS = 41
"""Numbers below 2^41 are added up as integers (fixed_point.cuh), and so are their rounding errors, times 2^41."""
ROOM = 4.0
"""Slopes may grow by this factor beyond the largest seen so far before a pass has to be made again."""
COARSE = 2.0**-12
"""If the largest slope is below this share of ``bound``, the sums have lost digits and the pass is made again."""
BLOCK = 1 << 26
"""Numbers in a block of rows, 512 MB; products of matrices are made block by block."""


class Pass(NamedTuple):
    """f at x without the ridge: its value, its gradient, and the slopes on the device."""

    value: float
    gradient: Array
    slopes: Any
    """An array of the device; other certificates have one of the processor here."""
    room: Array = np.empty(0)
    """The room that integer sums had (``DeviceSamples.room``); empty for passes without such sums."""


class Terms(NamedTuple):
    """The terms w_i·l(a_iᵀx + b + o_i, y_i) of a problem, besides its rows; arrays of the processor or of a device."""

    targets: Any
    weights: Any
    """Empty where all are 1."""
    offsets: Any
    """Empty where all are 0."""
    loss: Loss
    features: int
    bias: bool


@dataclass(frozen=True, eq=False)
class DeviceSamples:
    """Σ_i w_i·l(a_iᵀx + b + o_i, y_i) over rows on a device; ``samples_on_device`` makes one.

    It has the methods of ``Datafit`` that a certificate calls; slopes are arrays of the device.
    """

    device: Device
    kernels: Kernels
    layout: PassLayout
    rows: DeviceRows
    """Values, columns and starts on the device (see ``DeviceRows``)."""
    targets: DeviceArray
    weights: DeviceArray
    """On the device; empty where all are 1."""
    offsets: DeviceArray
    loss: Loss
    features: int
    bias: bool
    scales: DeviceArray | None
    """Powers of two that scale columns of different sizes, on the device; None if one is enough."""
    exponent: int
    """|a_ij·scale_j| < 2^exponent."""
    bound: list[float]
    """The largest w_i |s_i| that the integer sums have room for: known after a first pass, shared with all samples of these rows."""
    fine: bool = False
    """Whether a second pass adds up the errors of rounding to integers: sums then have all digits of float64, whatever the entries of a column."""

    outputs = ()
    on_disk = False

    @property
    def n(self) -> int:
        return len(self.targets)

    @property
    def width(self) -> int:
        return self.features + self.bias

    @property
    def shape(self) -> tuple[int]:
        return (self.width,)

    @property
    def dense(self) -> bool:
        return self.rows[1] is None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.rows, self.targets) if array is not None)

    @property
    def room(self) -> Array:
        """The present ``bound``; a pass that starts with the same room gives the same bits."""
        return np.array(self.bound)

    def make_room(self, room: Array) -> None:
        """Restore the ``room`` of an earlier pass."""
        self.bound[:] = room.tolist()

    @property
    def rounded(self) -> bool:
        """Whether a pass sums rounded terms."""
        return self.layout.settings["WIDE"] == "0" and not self.fine

    def finely(self) -> Self:
        """The same samples, with passes that sum all digits."""
        known = {name: vars(self)[name] for name in ("at_zero", "column_squares") if name in vars(self)}  # fmt: skip
        return keep(replace(self, fine=True), **known)

    # --- passes ----------------------------------------------------------------------------------

    def at(self, x: Array) -> Pass:
        """f, ∇f and the slopes at x, by one pass."""
        slopes = self.device.room(self.n, np.float64)
        total = self._pass(x, slopes=slopes)
        return Pass(
            float(total[self.features + 1]) / self.n,
            total[: self.width] / self.n,
            slopes,
            self.room,
        )

    def margins(self, x: Array) -> DeviceArray:
        """a_iᵀx + b, on the device."""
        found = self.device.room(self.n, np.float64)
        self._pass(x, margins=found)
        return found

    def slopes(self, x: Array) -> tuple[DeviceArray, Array]:
        """The slopes at x, on the device, and the mean gradient."""
        found = self.at(x)
        return found.slopes, found.gradient

    def combined(self, slopes: DeviceArray) -> Array:
        """(1/n) Σ w_i slopes_i a_i."""
        return self._pass(np.zeros(self.width), given=slopes)[: self.width] / self.n

    def conjugates(self, slopes: DeviceArray, scale: float) -> float:
        """Σ_i w_i·l*(scale·slopes_i, y_i)."""
        launch = over(self.device, self.n, most=8, memory=8)
        sums = self.device.room(2 * launch.blocks, np.float64)
        self.kernels.run(
            "conjugates_of_slopes", launch, *self._terms(), slopes, np.float64(scale), np.int64(self.n), sums
        )  # fmt: skip
        return float(self._finished(sums, launch.blocks, 2)[0])

    @cached_property
    def at_zero(self) -> float:
        """f(0)."""
        return self.at(np.zeros(self.width)).value

    @cached_property
    def column_squares(self) -> Array:
        """(1/n) Σ w_i a_ij² of each feature."""
        most = float(self.weights.max()) if len(self.weights) else 1.0
        up = ldexp(1.0, BITS - 2 * self.exponent - frexp(most)[1])
        launch, wanted = self.layout.launch(self.device, self.n), self.features + 3
        sums = self.device.room(launch.blocks * wanted, np.float64)
        scales = None
        if self.scales is not None:  # the scales of squares are squared too
            scales = self.scales * self.scales
        self.kernels.run("squares_pass", launch, *self._samples(), scales, np.float64(up), sums)
        return self._finished(sums, launch.blocks, wanted)[: self.features] / self.n

    def _pass(
        self,
        x: Array,
        slopes: DeviceArray | None = None,
        margins: DeviceArray | None = None,
        given: DeviceArray | None = None,
    ) -> Array:
        """The sums of a pass, which is repeated with more or less room if the slopes do not fit the present room."""
        launch, wanted = self.layout.launch(self.device, self.n), self.features + 3
        sums = self.device.room(launch.blocks * wanted, np.float64)
        at = self.device.put(x, np.float64)

        def summed(kernel: str, *tables: Any) -> Array:
            self.kernels.run(
                kernel, launch, *self._samples(), at, self.scales, np.float64(up), given, *tables, sums
            )  # fmt: skip
            return self._finished(sums, launch.blocks, wanted)

        while True:
            up = ldexp(1.0, BITS - self.exponent - frexp(self.bound[0])[1])
            total = summed("whole_pass", slopes, margins)
            most = float(total[-1])
            if not np.isfinite(most):
                total[:-2] = np.nan
                return total
            if self.layout.settings["WIDE"] == "1":
                return total
            if most <= self.bound[0] and (most >= COARSE * self.bound[0] or most == 0.0):
                if self.fine and margins is None:
                    rest = summed("rest_pass", None, None)[: self.features]
                    total[: self.features] += ldexp(1.0, -BITS) * rest
                return total
            self.bound[0] = ROOM * most

    def _finished(self, sums: DeviceArray, blocks: int, count: int) -> Array:
        out = self.device.room(count, np.float64)
        threads = min(32, max(self.device.lanes))
        self.kernels.run(
            "sum_of_blocks", Launch(-(-count // threads), threads), sums, np.int64(blocks), np.int32(count), out
        )  # fmt: skip
        return self.device.get(out)[:count]

    def _terms(self) -> tuple[object, ...]:
        """Targets, weights and offsets, as kernels take them."""
        return self.targets, unless_empty(self.weights), unless_empty(self.offsets)

    def _samples(self) -> tuple[object, ...]:
        return (*self.rows, *self._terms(), np.int64(self.n), np.int32(self.features))

    # --- second order ----------------------------------------------------------------------------

    def hessian(self, x: Array, extra: float = 0.0) -> Array:
        """(1/n) Σ w_i (l''_i + extra) a_i a_iᵀ; with an intercept, a_i ends in 1."""
        return mean_of_squares(self.device, self.bent_squares(x, extra), self.n)

    def bent_squares(self, x: Array, extra: float) -> DeviceArray:
        """n times the Hessian, on the device."""
        return self._squares_of("rows_of_hessian", self.width, x, extra)

    def _squares_of(
        self, kernel: str, width: int, x: Array, extra: float, *others: object
    ) -> DeviceArray:
        """Σ_i b_i b_iᵀ for the rows b_i, of ``width`` numbers, that the kernel writes: by matrix products of blocks of rows."""
        device, most = self.device, max(1, min(self.n, BLOCK // width))
        room, at = device.room(most * width, np.float64), device.put(x, np.float64)
        total = zeros(device, width, width)
        for first in range(0, self.n, most):
            count = min(most, self.n - first)
            part = room[: count * width]
            part.fill(0.0)
            self.kernels.run(
                kernel, over(device, count, warps=True), *self._samples(), at, np.float64(extra), *others,
                np.int64(first), np.int64(count), part,
            )  # fmt: skip
            block = part.reshape(count, width)
            total += block.T @ block
        return total

    # --- other samples ---------------------------------------------------------------------------

    def sample(self, count: int, key: int) -> Self:
        """``count`` rows: one at random from each of ``count`` stretches of rows; the key is the seed."""
        return self.take(spread_rows(self.device, self.kernels, self.n, count, key))

    def take(self, chosen: DeviceArray) -> Self:
        """The samples of the chosen rows, copied on the device; their weights do not change."""
        device, at = self.device, self.device.put(chosen, np.int64)
        weights, offsets = (a[at] if len(a) else a for a in (self.weights, self.offsets))
        rows: DeviceRows
        if self.dense:
            rows = self.rows[0][at], None, None
        else:
            values, columns, starts = self.rows
            lengths = starts[1:][at] - starts[:-1][at]
            begins = device.room(len(chosen) + 1, starts.dtype)
            begins[0] = 0
            begins[1:] = lengths.cumsum()
            stored = int(begins[-1])
            own = None if values is None else device.room(stored, values.dtype)
            indices = device.room(stored, columns.dtype)
            self.kernels.run(
                "choice_of_rows", over(device, len(chosen), warps=True), *self.rows, at, np.int64(len(chosen)), begins, own, indices
            )  # fmt: skip
            rows = own, indices, begins
        return replace(self, rows=rows, targets=self.targets[at], weights=weights, offsets=offsets)


def spread_rows(device: Device, kernels: Kernels, n: int, count: int, key: int) -> DeviceArray:
    """The numbers of ``count`` rows out of n, in rising order: one at random from each of ``count`` stretches."""
    chosen = device.room(count, np.int64)
    kernels.run(
        "spread_rows",
        over(device, count, most=8),
        np.uint64(key),
        np.int64(n),
        np.int64(count),
        chosen,
    )
    return chosen


def unless_empty(array: DeviceArray) -> DeviceArray | None:
    """An array as kernels take it: None where it is empty."""
    return array if len(array) else None


def mean_of_squares(device: Device, total: DeviceArray, n: int) -> Array:
    """The symmetric part of ``total``/n, in the memory of the processor."""
    found: Array = device.get((total + total.T) * (0.5 / n))
    return found


@dataclass(frozen=True, eq=False)
class SamplesAround(ABC):
    """Samples with passes of their own, and with attributes of other samples."""

    base: DeviceSamples

    on_disk = False

    @property
    def device(self) -> Device:
        return self.base.device

    @property
    def weights(self) -> DeviceArray:
        return self.base.weights

    @property
    def features(self) -> int:
        return self.base.features

    @property
    def bias(self) -> bool:
        return self.base.bias

    @property
    def n(self) -> int:
        return self.base.n

    @property
    def width(self) -> int:
        return self.base.width

    @abstractmethod
    def at(self, x: Array) -> Pass:
        """f, ∇f and the slopes at x."""

    def slopes(self, x: Array) -> tuple[DeviceArray, Array]:
        """The slopes at x and the mean gradient."""
        found = self.at(x)
        return found.slopes, found.gradient
