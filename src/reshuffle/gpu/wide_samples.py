"""Samples with very many columns on a device: margins by rows, sums by columns (column_pass.cuh)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.arrays import Array, Visits
from reshuffle.cached import cached_property
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.pass_layout import over
from reshuffle.gpu.row_kind import MANY
from reshuffle.gpu.samples import DeviceSamples, mean_of_squares, unless_empty
from reshuffle.gpu.transposed import PIECE, Transposed, transposed

STRETCHES = 16
"""Dense rows are cut into this many stretches, which are summed at the same time: 20,000 columns then make more blocks than an H200 works on."""


@dataclass(frozen=True, eq=False)
class WideSamples(DeviceSamples):
    """``DeviceSamples`` whose passes keep neither x nor sums of columns in the memory of a block."""

    rounded = False

    @cached_property
    def by_column(self) -> Transposed:
        """The sparse rows by columns, made when they are first needed."""
        return transposed(self.device, self.kernels, self.rows, self.n, self.features)

    # --- passes ----------------------------------------------------------------------------------

    def _pass(
        self,
        x: Array,
        slopes: DeviceArray | None = None,
        margins: DeviceArray | None = None,
        given: DeviceArray | None = None,
    ) -> Array:
        """The sums of the columns, of the intercept and of the losses, and the largest w_i |s_i|; a pass for ``margins`` omits the columns."""
        sums = self._rows_pass(x, slopes=slopes, margins=margins, coefs=given)
        total = np.zeros(self.features + 3)
        total[self.features :] = sums
        if not np.isfinite(sums[-1]):
            total[:-2] = np.nan
        elif margins is None:
            numbers: Any = slopes if given is None else given
            columns = self._by_columns("columns_pass", self.weighted(numbers))
            total[: self.features] = self.device.get(columns)
        return total

    def _rows_pass(
        self,
        x: object,
        *,
        slopes: DeviceArray | None = None,
        margins: DeviceArray | None = None,
        bends: DeviceArray | None = None,
        coefs: DeviceArray | None = None,
    ) -> Array:
        """Σ w_i s_i, Σ w_i l_i and the largest w_i |s_i|; slopes, margins and curvatures are written to the arrays given for them."""
        launch = self.layout.launch(self.device, self.n)
        sums = self.device.room(3 * launch.blocks, np.float64)
        at = self.device.put(x, np.float64)
        self.kernels.run(
            "rows_pass", launch, *self._samples(), at, coefs, slopes, margins, bends, sums
        )
        return self._finished(sums, launch.blocks, 3)

    def linearised(self, x: object) -> tuple[float, DeviceArray, DeviceArray, DeviceArray]:
        """f at x, and on the device its gradient and the slopes and curvatures of the rows. x may lie on the device."""
        slopes, bends = (self.device.room(self.n, np.float64) for _ in range(2))
        sums = self._rows_pass(x, slopes=slopes, bends=bends)
        gradient = self._mean(self.weighted(slopes), float(sums[0]))
        return float(sums[1]) / self.n, gradient, slopes, bends

    def product(self, bends: DeviceArray, v: object) -> DeviceArray:
        """(1/n) Σ w_i bends_i a_i a_iᵀ v, on the device; with an intercept, a_i ends in 1."""
        moved = self.device.room(self.n, np.float64)
        self._rows_pass(v, margins=moved)
        moved *= self.weighted(bends)
        return self._mean(moved, float(moved.sum()))

    def _mean(self, coefs: DeviceArray, total: float) -> DeviceArray:
        """(1/n) Σ coef_i a_i, on the device; ``total`` is Σ coef_i, for the intercept."""
        found = self.device.room(self.width, np.float64)
        found[: self.features] = self._by_columns("columns_pass", coefs)
        found[self.features :] = total
        found /= self.n
        return found

    def weighted(self, numbers: DeviceArray) -> DeviceArray:
        """w_i·numbers_i."""
        return numbers * self.weights if len(self.weights) else numbers

    @cached_property
    def column_squares(self) -> Array:
        """(1/n) Σ w_i a_ij² of each feature."""
        sums = self._by_columns("column_squares_pass", unless_empty(self.weights))
        return np.asarray(self.device.get(sums)) / self.n

    def _by_columns(self, kernel: str, coefs: DeviceArray | None) -> DeviceArray:
        """Σ_i coef_i a_ij, or Σ_i coef_i a_ij², of each column; without ``coefs``, coef_i = 1."""
        device, d = self.device, np.int32(self.features)
        out, begins = device.room(self.features, np.float64), None
        stretches = min(STRETCHES, self.n)
        if self.dense:
            parts = device.room(stretches * self.features, np.float64)
            tiles = over(device, self.features)
            launch = tiles._replace(blocks=-(-self.features // tiles.threads) * stretches)
            self.kernels.run(
                kernel, launch, self.rows[0], np.int64(self.n), d, np.int64(stretches), coefs, parts
            )
        else:
            own = self.by_column
            begins, parts = own.begins, device.room(own.pieces, np.float64)
            self.kernels.run(
                kernel, over(device, own.pieces, warps=True), own.values, own.rows, own.starts, begins, own.owners,
                np.int64(own.pieces), np.int32(PIECE), coefs, parts,
            )  # fmt: skip
        launch = over(device, self.features)
        self.kernels.run("sum_of_columns", launch, parts, begins, np.int64(stretches), d, out)
        return out[: self.features]

    # --- second order ----------------------------------------------------------------------------

    def hessian_of(self, kept: Visits, x: Array, extra: float = 0.0) -> Array:
        """``hessian`` for the ``kept`` features and the intercept: their columns are written into blocks of dense rows."""
        places = np.full(self.features, -1, dtype=np.int32)
        places[kept] = np.arange(kept.size, dtype=np.int32)
        there, count = self.device.put(places, np.int32), np.int32(kept.size)
        total = self._squares_of("parts_of_hessian", kept.size + self.bias, x, extra, there, count)
        return mean_of_squares(self.device, total, self.n)


def wide(samples: object) -> WideSamples:
    """The samples, checked to be ``WideSamples``."""
    if not isinstance(samples, WideSamples):
        raise TypeError(f"these samples have no more than {MANY} columns")
    return samples
