"""The losses of all samples: every call of a kernel on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.errors import InputError
from reshuffle.interruption import WORK, cuts, listen
from reshuffle.losses import named
from reshuffle.penalties.forms import NO_PENALTY, Form
from reshuffle.rows import Rows
from reshuffle.samples import Samples
from reshuffle.validation import read_only

Array = NDArray[np.float64]
Visits = NDArray[np.uint32]
AHEAD = 8  # rows asked of the memory before their turn: see benchmarks/NOTES.md
SHORT = 1 << 13  # stored values, which are read in less time than they are left out
LEAST = (
    1 << 10
)  # visits of one kernel call, where rows are not far too long: calls cost microseconds
NO_VISITS = read_only(np.empty(0, dtype=np.uint32))


class Copies(NamedTuple):
    """Importance copies of samples; empty where every sample is its own only copy."""

    owner: Visits
    """The sample of each copy."""
    weights: Array
    """The factor of each copy."""


ALONE = Copies(NO_VISITS, read_only(np.empty(0)))


@dataclass(frozen=True, eq=False)
class Datafit(Samples):
    """Σ_i w_i·l(a_iᵀx + b, y_i) over the rows a_i of a matrix."""

    # --- passes over all rows ------------------------------------------------------------------

    @cached_property
    def multiplies(self) -> bool:
        """Whether passes over all rows are products of matrices: dense rows of doubles and several outputs."""
        return bool(self.outputs) and self.quick.dense and self.quick.values.dtype == np.float64

    def value(self, x: Array) -> float:
        """Σ_i w_i·l(a_iᵀx + b, y_i)."""
        from reshuffle.kernels.passes import BLOCK, value_kernel

        if self.pieces:
            return sum(self.each(lambda part: part.value(x)))
        total, x, coefs = 0.0, self.checked(x), self.scratch(min(BLOCK, self.n))
        with named(self.loss):
            kernel = value_kernel(self.stamp)
            for rows, targets, weights in self.in_turn(self.rows, self.targets, self.weights):
                total = kernel(
                    *rows, targets, weights, self.loss.params, self.bias, x, coefs, total
                )
        return float(total)

    @cached_property
    def at_zero(self) -> float:
        """The mean of ``value`` at x = 0, for which no feature need be read where there are many."""
        few = self if self.rows.stored <= SHORT else self.columns(NO_VISITS)
        return few.value(np.zeros(few.shape)) / self.n

    def gradient(self, x: Array, factor: float) -> Array:
        """factor times the gradient of ``value``."""
        from reshuffle.kernels.passes import BLOCK, gradient_kernel

        out, x, coefs = np.zeros(self.shape), self.checked(x), self.scratch(min(BLOCK, self.n))
        with named(self.loss):
            kernel = gradient_kernel(self.stamp)
            for rows, targets, weights in self.in_turn(self.rows, self.targets, self.weights):
                kernel(*rows, targets, weights, self.loss.params, self.bias, x, coefs, factor, out)
        return out

    def margins(self, x: Array) -> Array:
        """a_iᵀx + b for every row."""
        return self._margins(self.rows, x)

    def quick_margins(self, x: Array) -> Array:
        """The same, by the quick rows."""
        if self.pieces:
            return np.concatenate(self.each(lambda part: part.quick_margins(x)))
        return self._margins(self.quick, x)

    def _margins(self, of: Rows, x: Array) -> Array:
        from reshuffle.kernels.passes import margins_kernel
        from reshuffle.kernels.stamp import stamp_of

        found, x, coefs = np.empty((self.n, *self.outputs)), self.checked(x), self.scratch()
        if self.multiplies:
            with np.errstate(all="ignore"):  # as the kernels do
                for rows, out in self.in_turn(of, found):
                    np.matmul(rows.values, x[: self.features], out=out)
                    if self.bias:
                        out += x[-1]
            return found
        kernel = margins_kernel(stamp_of())
        for rows, out in self.in_turn(of, found):
            kernel(*rows, self.bias, x, coefs, out)
        return found

    def column_means(self) -> Array:
        """(1/n) Σ w_i a_i, one number per feature."""
        from reshuffle.kernels.exact import combine_kernel
        from reshuffle.kernels.stamp import stamp_of

        out, kernel = np.zeros(self.features + 1), combine_kernel(stamp_of())
        for rows, weights, ones in self.in_turn(self.quick, self.weights, np.ones(self.n)):
            kernel(*rows, weights, True, 1.0 / self.n, ones, out)
        return out[:-1]

    @cached_property
    def column_squares(self) -> Array:
        """(1/n) Σ w_i a_ij² of each feature: how curved f is along it, but for the loss."""
        values, indices, indptr = self.quick
        weights = self.weights if self.weights.size else np.ones(self.n)
        if self.quick.dense:
            squares: Array = np.einsum("ij,ij,i->j", values, values, weights) / self.n
            return squares
        if self.quick.unit and not self.weights.size:
            return self.column_counts / self.n
        out = np.zeros(self.features)
        native.add_squares(values, indices, indptr, weights, out)
        return out / self.n

    def curvature_product(self, v: Array, factor: float) -> Array:
        """factor·Σ_i w_i a_i a_iᵀ v, for v with one entry per feature (and the intercept)."""
        from reshuffle.kernels.passes import curvature_kernel
        from reshuffle.kernels.stamp import stamp_of

        out = np.zeros(self.shape[0])
        v = np.ascontiguousarray(v, dtype=np.float64).ravel()
        kernel = curvature_kernel(stamp_of())
        for rows, targets, weights in self.in_turn(self.rows, self.targets, self.weights):
            kernel(*rows, weights, len(targets), self.bias, v, factor, out)
        return out

    def bent_product(self, curvatures: Array, v: Array) -> Array:
        """(1/n) Σ_i c_i a_i a_iᵀ v: margins and sum in one pass, by the quick rows."""
        from reshuffle.kernels.passes import curvature_kernel
        from reshuffle.kernels.stamp import stamp_of

        if self.pieces:
            share = self.n
            parts = self.each_with(
                curvatures, lambda part, own: part.n / share * part.bent_product(own, v)
            )
            whole: Array = np.sum(parts, axis=0)
            return whole
        out, kernel, v = np.zeros(self.shape), curvature_kernel(stamp_of()), self.checked(v)
        for rows, own in self.in_turn(self.quick, read_only(curvatures)):
            kernel(*rows, own, len(own), self.bias, v, 1.0 / self.n, out)
        return out

    def squared_norms(self) -> Array:
        """‖a_i‖² of every row."""
        found = np.empty(self.n)
        for rows, out in self.in_turn(self.rows, found):
            rows.squared_norms(out)
        return found

    def constants(self, curvature: float | None = None) -> Array:
        """w_i·c·(‖a_i‖² + [intercept]): how smooth each loss is in x, for the c of the loss where none is given."""
        c = self.loss.curvature if curvature is None else curvature
        if not c < np.inf:
            raise InputError(
                f"{self.loss!r} has no bound on its curvature, so that no step can be chosen: use "
                "ExactProxRR (over clients FedNewton), whose Newton steps need none"
            )
        constants = self.squared_norms()
        constants += self.bias
        constants *= c
        if self.weights.size:
            constants *= self.weights
        return constants

    def slopes(self, x: Array) -> tuple[Array, Array]:
        """l'(a_iᵀx + b, y_i) for every row, and the mean gradient (1/n) Σ w_i l'_i a_i."""
        from reshuffle.kernels.exact import slopes_kernel, table_kernel

        if self.pieces:
            found = self.each(lambda part: part.slopes(x))
            shares = [part.n / self.n for part in self.pieces]
            means = [share * mean for share, (_, mean) in zip(shares, found, strict=True)]
            return np.concatenate([table for table, _ in found]), np.sum(means, axis=0)
        if self.multiplies:
            table = self._margins(self.quick, x)
            for _, targets, out in self.in_turn(self.quick, self.targets, table):
                slopes_kernel(self.stamp)(targets, self.loss.params, out)
            return table, self.combined(table)
        table, mean = np.empty((self.n, *self.outputs)), np.zeros(self.shape)
        kernel, x, coefs = table_kernel(self.stamp), self.checked(x), self.scratch()
        for rows, *own, out in self.in_turn(self.quick, self.targets, self.weights, table):
            kernel(*rows, *own, self.loss.params, self.bias, x, coefs, 1.0 / self.n, out, mean)
        return table, mean

    def combined(self, slopes: Array) -> Array:
        """(1/n) Σ w_i slopes_i a_i."""
        from reshuffle.kernels.exact import combine_kernel
        from reshuffle.kernels.stamp import stamp_of

        if self.pieces:
            parts = self.each_with(slopes, lambda part, own: part.n / self.n * part.combined(own))
            whole: Array = np.sum(parts, axis=0)
            return whole
        if self.multiplies:
            return self._multiplied(slopes)
        out, kernel = np.zeros(self.shape), combine_kernel(stamp_of())
        for rows, weights, table in self.in_turn(self.quick, self.weights, slopes):
            kernel(*rows, weights, self.bias, 1.0 / self.n, table, out)
        return out

    def _multiplied(self, slopes: Array) -> Array:
        """``combined`` as a product of matrices."""
        out, features = np.zeros(self.shape), self.features
        with np.errstate(all="ignore"):  # as the kernels do
            for rows, weights, table in self.in_turn(self.quick, self.weights, slopes):
                own = weights[:, None] * table if weights.size else table
                out[:features] += rows.values.T @ own
                if self.bias:
                    out[-1] += np.ones(len(own)) @ own
            out /= self.n
        return out

    def conjugates(self, slopes: Array, scale: float) -> float:
        """Σ_i w_i·l*(scale·slopes_i, y_i): what the dual objective is made of."""
        from reshuffle.kernels.exact import conjugate_kernel

        if self.pieces:
            return sum(self.each_with(slopes, lambda part, own: part.conjugates(own, scale)))
        total, kernel, coefs = 0.0, conjugate_kernel(self.stamp), self.scratch()
        for _, *own, table in self.in_turn(self.rows, self.targets, self.weights, slopes):
            total = kernel(*own, self.loss.params, table, scale, coefs, total)
        return float(total)

    # --- shuffled passes -----------------------------------------------------------------------

    def calls(
        self, count: int, samples: Callable[[], Visits], besides: float, batch: int = 1
    ) -> Iterator[tuple[int, int]]:
        """Where calls of a kernel over so many visits begin and end, so that each does work that is bounded.

        ``samples`` are the visited ones, ``besides`` what a visit costs but for the values of its row.
        """
        most = max(int(WORK / (self.longest + besides + 1.0)) // batch, 1) * batch
        if most >= min(count, LEAST) or self.rows.dense:
            yield from ((k, min(k + most, count)) for k in range(0, max(count, 1), most))
            return
        lengths = np.diff(self.rows.indptr)[samples()].astype(np.float64)
        work = np.cumsum(lengths * prod(self.outputs) + (besides + 1.0))
        start = 0
        while start < count:
            done = work[start - 1] if start else 0.0
            stop = int(np.searchsorted(work, done + WORK, side="right"))
            stop = min(start + max((stop - start) // batch, 1) * batch, count)
            yield start, stop
            start = stop

    @cached_property
    def longest(self) -> int:
        """The most values that a row has, times the outputs."""
        values = self.features
        if not self.rows.dense:
            values = int(np.max(np.diff(self.rows.indptr), initial=0))
        return values * prod(self.outputs)

    def sweep(
        self,
        x: Array,
        visits: Visits,
        step: float,
        *,
        ridge: float = 0.0,
        weights: Array | None = None,
        batch: int = 1,
        average: float = 1.0,
        prox_step: float = 0.0,
        form: Form = NO_PENALTY,
    ) -> None:
        """Steps over the visits, in place; see ``FiniteSum.sweep``. The visits must be in range."""
        from reshuffle.kernels.sweep import sweep_kernel

        each, scale = self.weights if weights is None else weights, 1.0
        flat, penalised = self.checked(x).reshape(-1), self.flat(x)
        besides = x.size / batch if prox_step > 0.0 else 0.0
        for start, stop in self.calls(visits.size, lambda: visits, besides, batch):
            listen()
            scale = sweep_kernel(self.stamp)(
                *self.rows, self.targets, each, self.loss.params, self.bias, visits[start:stop],
                batch, average, x, flat, penalised, step, ridge, prox_step, form,
                self.scratch(batch), AHEAD, scale,
            )  # fmt: skip
        if scale != 1.0:
            flat[:penalised] *= scale

    def block(
        self, y: Array, visits: Visits, step: float, table: Array, q: Array, copies: Copies = ALONE
    ) -> None:
        """Steps along differences to the slopes of a table; see ``FiniteSum.block``."""
        from reshuffle.kernels.exact import block_kernel

        owner = copies.owner
        weights = copies.weights if owner.size else self.weights
        samples = (lambda: owner[visits]) if owner.size else (lambda: visits)
        for start, stop in self.calls(visits.size, samples, 0.0):
            listen()
            block_kernel(self.stamp)(
                *self.quick, self.targets, weights, self.loss.params, self.bias, owner, visits, 0,
                start, stop, table, y, q, step, self.scratch(), AHEAD,
            )  # fmt: skip

    def single_functions(self) -> tuple[Any, Any, tuple[Any, ...]]:
        """The slope and the gradient of one loss, compiled, and the data that they take."""
        from reshuffle.kernels.functions import single_functions

        arrays = (*self.quick, *self.arrays[3:])
        return (*single_functions(self.stamp), (*arrays, self.scratch()))

    def sweep_clients(
        self,
        x: Array,
        bounds: NDArray[np.int64],
        uniforms: Array,
        step: float,
        ridge: float,
        batch: int,
        averages: Array,
    ) -> Array:
        """The models of many clients, whose samples lie one after the other here, from the same x.

        Client c has the samples bounds[c] … bounds[c+1]-1, visits them as ``orders.Reshuffle`` does with
        the same random numbers, and sweeps them as ``sweep`` does.
        """
        from reshuffle.kernels.clients import clients_kernel

        models, visits = np.empty((bounds.size - 1, *self.shape)), np.empty(self.n, dtype=np.uint32)

        def before(client: int) -> int:
            return self._before(int(bounds[client])) + int(bounds[client]) + client * x.size

        for some in cuts(len(models), before):
            listen()
            clients_kernel(self.stamp)(
                *self.arrays, bounds[some.start : some.stop + 1], uniforms, visits, batch,
                averages[some], self.checked(x), models[some], self.flat(x), step, ridge,
                NO_PENALTY, self.scratch(batch), AHEAD,
            )  # fmt: skip
        return models
