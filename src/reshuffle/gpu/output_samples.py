"""The samples of a problem with several outputs on a device: matrix products for dense rows, kernels for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.gpu.arrays import DeviceArray, DeviceRows
from reshuffle.gpu.device import Kernels, zeros
from reshuffle.gpu.device_columns import DeviceColumns
from reshuffle.gpu.pass_layout import over
from reshuffle.gpu.samples import BLOCK, Pass, SamplesAround, spread_rows, unless_empty
from reshuffle.losses import Loss

PIECES = 2
"""Pieces of a block of rows for each processor of a card: enough to keep all processors busy, few enough that their sums are small beside the block."""


@dataclass(frozen=True, eq=False)
class DeviceOutputs(SamplesAround):
    """Σ_i w_i·l(xᵀa_i + b, y_i) with K margins in each row, and x of shape (features + bias, K); ``outputs_on_device`` makes one.

    It has the methods of ``DeviceSamples``; slopes are n × K matrices of the device. All arithmetic is float64.
    ``base`` has the rows and weights; its targets are not read.
    """

    kernels: Kernels
    targets: DeviceArray
    """Classes (int32), or a row of K numbers for each sample."""
    loss: Loss
    outputs: tuple[int]

    rounded = False
    offsets = np.empty(0)

    @property
    def rows(self) -> DeviceRows:
        return self.base.rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.width, self.outputs[0]

    @property
    def dense(self) -> bool:
        return self.base.dense

    @property
    def nbytes(self) -> int:
        return self.base.nbytes + int(self.targets.nbytes)

    def make_room(self, room: Array) -> None:
        """Does nothing, because these passes need no room."""

    # --- passes ----------------------------------------------------------------------------------

    def at(self, x: Array) -> Pass:
        """f, ∇f and the slopes at x."""
        slopes, to = self._table(), self.device.put(x, np.float64)
        if not self.dense:
            self._sparse_margins(to, slopes)
            value = self._slopes(slopes, 0, self.n)
            return Pass(value / self.n, self.combined(slopes), slopes)
        total, value = zeros(self.device, *self.shape), 0.0
        with np.errstate(all="ignore"):  # as in the core
            for first, block in self._blocks(self.width):
                part = slopes[first : first + len(block)]
                part[...] = block @ to
                value += self._slopes(part, first, len(part))
                total += self._across(block, self._weighted(part, first))
        return Pass(value / self.n, self.device.get(total) / self.n, slopes)

    def margins(self, x: Array) -> DeviceArray:
        """xᵀa_i + b, on the device."""
        found, to = self._table(), self.device.put(x, np.float64)
        if self.dense:
            with np.errstate(all="ignore"):
                for first, block in self._blocks(self.width):
                    found[first : first + len(block)] = block @ to
        else:
            self._sparse_margins(to, found)
        return found

    def combined(self, slopes: DeviceArray) -> Array:
        """(1/n) Σ w_i a_i s_iᵀ; with an intercept, the last row is (1/n) Σ w_i s_iᵀ."""
        slopes, total = self.device.put(slopes, np.float64), zeros(self.device, *self.shape)
        if self.dense:
            with np.errstate(all="ignore"):
                for first, block in self._blocks(self.width):
                    part = slopes[first : first + len(block)]
                    total += self._across(block, self._weighted(part, first))
        else:
            weighted = self._weighted(slopes, 0)
            total[: self.features] = self._columns.combined(weighted)
            if self.bias:
                total[self.features] = weighted.sum(axis=0)
        found: Array = self.device.get(total) / self.n
        return found

    def conjugates(self, slopes: DeviceArray, scale: float) -> float:
        """Σ_i w_i·l*(scale·s_i, y_i)."""
        scaled = slopes if scale == 1.0 else slopes * scale
        return self._summed("conjugates_of_outputs", scaled, np.int64(self.n))

    @cached_property
    def at_zero(self) -> float:
        """f(0)."""
        margins = self._table()
        margins.fill(0.0)
        return self._slopes(margins, 0, self.n) / self.n

    @property
    def column_squares(self) -> Array:
        """(1/n) Σ w_i a_ij² of each feature."""
        return self.base.column_squares

    def _slopes(self, table: DeviceArray, first: int, count: int) -> float:
        """Σ w_i l_i over ``count`` rows; ``table`` holds their margins and is overwritten with their slopes."""
        return self._summed("slopes_of_outputs", table, np.int64(first), np.int64(count))

    def _summed(self, kernel: str, table: DeviceArray, *rows: np.int64) -> float:
        """The sum of the losses, or of their conjugates, over ``rows`` of a table; their number is the last of ``rows``."""
        launch = over(self.device, int(rows[-1]), memory=8)
        sums = self.device.room(launch.blocks, np.float64)
        self.kernels.run(
            kernel, launch, self.targets, unless_empty(self.weights), *rows, np.int32(self.outputs[0]), table, sums
        )  # fmt: skip
        return float(self.device.get(sums)[: launch.blocks].sum())

    def _across(self, block: DeviceArray, table: DeviceArray) -> DeviceArray:
        """blockᵀ·table, as a sum over equal pieces of rows that are multiplied at the same time.

        One product with so few rows and columns would occupy few of a card's processors. The table is transposed, because it is
        the smaller of the two.
        """
        pieces = PIECES * self.device.processors
        each = len(block) // pieces
        most = each * pieces
        if not each:
            return block.T @ table
        tables, blocks = (a[:most].reshape(pieces, each, -1) for a in (table, block))
        total = (tables.transpose(0, 2, 1) @ blocks).sum(axis=0).T
        return total if most == len(block) else total + block[most:].T @ table[most:]

    def _sparse_margins(self, x: DeviceArray, out: DeviceArray) -> None:
        self.kernels.run(
            "margins_of_outputs", over(self.device, self.n * self.outputs[0]), *self.rows, np.int64(self.n),
            np.int32(self.features), x, np.int32(self.outputs[0]), out,
        )  # fmt: skip

    def _table(self) -> DeviceArray:
        shape = self.n, self.outputs[0]
        return self.device.room(shape[0] * shape[1], np.float64).reshape(*shape)

    def _weighted(self, part: DeviceArray, first: int) -> DeviceArray:
        """Rows of a table from ``first`` on, times their weights."""
        return part * self.weights[first : first + len(part), None] if len(self.weights) else part

    @cached_property
    def _columns(self) -> DeviceColumns:
        return DeviceColumns(self.device, self.kernels, self.rows, self.n, self.features)

    def _blocks(self, numbers: int) -> Iterator[tuple[int, DeviceArray]]:
        """Blocks of dense float64 rows (a_i, 1), each with the number of its first row; at ``numbers`` per row a block takes about ``BLOCK`` numbers."""
        most, room = max(1, min(self.n, BLOCK // numbers)), None
        for first in range(0, self.n, most):
            count = min(most, self.n - first)
            if self.dense and not self.bias:
                yield first, self.rows[0][first : first + count].astype(np.float64, copy=False)
                continue
            room = self.device.room(most * self.width, np.float64) if room is None else room
            if not self.dense:
                room.fill(0.0)
            self.kernels.run(
                "rows_as_doubles", over(self.device, count, warps=True), *self.rows, np.int32(self.features), np.int64(first), np.int64(count), room
            )  # fmt: skip
            yield first, room[: count * self.width].reshape(count, self.width)

    # --- second order ----------------------------------------------------------------------------

    def hessian(self, x: Array, extra: float = 0.0) -> Array:
        """(1/n) Σ w_i a_i a_iᵀ ⊗ (diag(p_i) - p_i p_iᵀ + extra·(I - 11ᵀ/K)), in the order in which x is stored; for a sum of squares the second factor is I.

        Softmax does not change if one number is added to all intercepts, so the Hessian is singular. The square of their
        sum is added in this direction; it keeps the sum constant and moves no minimiser.
        """
        width, K = self.shape
        if self.loss.quadratic:
            return np.kron(self._grams(None)[0], np.eye(K))
        p = self._probabilities(x)
        total = zeros(self.device, width * K, width * K)
        for first, block in self._blocks(width * K):
            own = p[first : first + len(block)]
            roots = self._weighted(own, first) * own  # w p²
            spread = (block[:, :, None] * (roots**0.5)[:, None, :]).reshape(len(block), width * K)
            total -= spread.T @ spread
        H: Array = self.device.get(total) / self.n
        for k, gram in enumerate(self._grams(p)):
            H[k::K, k::K] += gram
        if extra:
            H += extra * np.kron(self._grams(None)[0], np.eye(K) - 1.0 / K)
        if self.bias:
            H[-K:, -K:] += np.trace(H[-K:, -K:]) / K**2
        return 0.5 * (H + H.T)

    def blocks(self, x: Array) -> Array:
        """(1/n) Σ w_i p_ik (1 - p_ik) a_i a_iᵀ for each output k; a sum of squares has one block for all outputs."""
        if self.loss.quadratic:
            return self._grams(None)
        p = self._probabilities(x)
        return self._grams(p * (1.0 - p))

    def _probabilities(self, x: Array) -> DeviceArray:
        found = self.margins(x)
        self.kernels.run(
            "bends_of_outputs", over(self.device, self.n), np.int64(self.n), np.int32(self.outputs[0]), found
        )  # fmt: skip
        return found

    def _grams(self, factors: DeviceArray | None) -> Array:
        """(1/n) Σ w_i c_ik a_i a_iᵀ for the factors in each column k of a table; without a table, c = 1."""
        count, width = 1 if factors is None else int(factors.shape[1]), self.width
        total = zeros(self.device, count, width, width)
        for first, block in self._blocks(width):
            for k in range(count):
                other = block
                if factors is not None:
                    other = block * factors[first : first + len(block), k : k + 1]
                total[k] += block.T @ self._weighted(other, first)
        found: Array = self.device.get(total) / self.n
        return 0.5 * (found + found.transpose(0, 2, 1))

    # --- other samples ---------------------------------------------------------------------------

    def sample(self, count: int, key: int) -> Self:
        """``count`` rows: one at random from each of ``count`` stretches of rows; the key is the seed."""
        return self.take(spread_rows(self.device, self.base.kernels, self.n, count, key))

    def take(self, chosen: DeviceArray) -> Self:
        """The samples of the chosen rows, copied on the device; their weights do not change."""
        at = self.device.put(chosen, np.int64)
        return replace(self, base=self.base.take(at), targets=self.targets[at])
