"""The losses of all samples, with passes over the rows in storage order and in shuffled order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array, Ends, Noise, Visits
from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.digests import digest
from reshuffle.errors import InputError
from reshuffle.interruption import CALL, cuts, listen
from reshuffle.penalties.forms import NO_PENALTY, Form, native_form
from reshuffle.samples import Range, Samples
from reshuffle.validation import read_only

SHORT = 1 << 13
"""With fewer stored values than this, reading values of 1 is faster than removing them."""
LEAST = 1 << 10
"""The least number of visits in one call of the core, unless rows are very long: a call costs microseconds."""
NO_VISITS = read_only(np.empty(0, dtype=np.uint32))
NOTHING = np.empty(0)
"""The ``table`` argument of a call that needs no table."""


class Copies(NamedTuple):
    """Importance copies of samples; empty if every sample has one copy."""

    owner: Visits
    """The sample of each copy."""
    weights: Array
    """The factor of each copy."""


ALONE = Copies(NO_VISITS, read_only(np.empty(0)))


class Steps(NamedTuple):
    """The steps of a sweep, x ← x - step·(average·Σ_{i in batch} g_i + ridge·x), and the prox after each of them."""

    step: float
    ridge: float = 0.0
    average: float = 1.0
    prox_step: float = 0.0
    """The parameter of the prox of ψ; 0 for no prox."""
    form: Form = NO_PENALTY
    """ψ."""


PIECE = 1 << 20
"""Noise is drawn for about this many numbers at a time: eight megabytes."""


@dataclass(frozen=True, eq=False)
class Datafit(Samples):
    """Σ_i w_i·l(a_iᵀx + b, y_i) over the rows a_i of a matrix."""

    on_disk = False
    """Whether the rows lie in files that are read in windows (``DiskDatafit``)."""

    def prepare(self) -> None:
        """Check the data for the core, and compile a user's own loss."""
        _ = self.core

    def identity(self) -> str:
        """A digest of the rows."""
        return digest(*self.rows, self.features, self.bias)

    def known_constants(self) -> tuple[float, float] | None:
        """The largest and the mean smoothness constant of the losses, if they are known without a pass."""
        return None

    def fits_in(self, kept: AnyArray) -> bool:
        """Whether there is memory for a copy of the rows in these features; always true for rows in memory."""
        return True

    @cached_property
    def row_lengths(self) -> tuple[float, float]:
        """The mean of the number of values that a row stores, and of its square; rows on disk count as equally long."""
        mean = self.rows.stored / self.n
        if self.rows.dense or self.on_disk:
            return mean, mean**2
        lengths = np.diff(self.rows.indptr).astype(np.float64)
        return mean, float(np.vdot(lengths, lengths)) / self.n

    def windows(self) -> Iterator[tuple[Range, Datafit]]:
        """The samples in storage order, as many at a time as are in memory; here all of them."""
        yield Range(0, self.n), self

    # --- passes over all rows ------------------------------------------------------------------

    @cached_property
    def multiplies(self) -> bool:
        """Whether passes over all rows are matrix products: rows are dense float64, and there are several outputs."""
        return bool(self.outputs) and self.quick.dense and self.quick.values.dtype == np.float64

    def value(self, x: Array) -> float:
        """Σ_i w_i·l(a_iᵀx + b, y_i)."""
        core, x = self.core, self.checked(x)
        return self._totalled(lambda part, total: native.value(core, x, *part, total))

    def _totalled(self, add: Callable[[Range, float], float]) -> float:
        """A sum over all rows: ``add`` is given the total so far, which is zero at each piece for threads."""
        total = 0.0
        if self.pieces:
            total = sum(self.each(lambda part: add(part, 0.0)))
        else:
            for part in self.in_turn():
                total = add(part, total)
        self.raise_own_errors()
        return float(total)

    @cached_property
    def at_zero(self) -> float:
        """The mean of ``value`` at x = 0, which needs no feature."""
        few = self if self.rows.stored <= SHORT else self.columns(NO_VISITS)
        return few.value(np.zeros(few.shape)) / self.n

    def gradient(self, x: Array, factor: float) -> Array:
        """factor times the gradient of ``value``."""
        out, x, core = np.zeros(self.shape), self.checked(x), self.core
        for part in self.in_turn():
            native.tabulate(core, x, *part, factor, NOTHING, out)
        self.raise_own_errors()
        return out

    def margins(self, x: Array) -> Array:
        """a_iᵀx + b for every row."""
        found, x, core = np.empty((self.n, *self.outputs)), self.checked(x), self.core

        def fill(part: Range) -> None:
            own = part.of(found)
            if not self.multiplies:
                native.margins(core, x, *part, own)
                return
            with np.errstate(all="ignore"):  # as in the core
                np.matmul(part.of(self.quick.values), x[: self.features], out=own)
                if self.bias:
                    own += x[-1]

        self.each(fill)
        return found

    def column_means(self) -> Array:
        """(1/n) Σ w_i a_i, one number per feature."""
        out, core = np.zeros(self.features), self.core
        for part in self.in_turn():
            native.column_sums(core, *part, 1.0 / self.n, out)
        return out

    @cached_property
    def column_squares(self) -> Array:
        """(1/n) Σ w_i a_ij² of each feature: the curvature of f along it, up to that of the loss."""
        values, indices, indptr = self.quick
        out = np.zeros(self.features)
        if self.quick.dense and self.weights.size:
            np.einsum("ij,ij,i->j", values, values, self.weights, out=out)
        elif self.quick.dense:  # without the factors this takes half as long
            np.einsum("ij,ij->j", values, values, out=out, dtype=np.float64)
        elif self.quick.unit and not self.weights.size:
            return self.column_counts / self.n
        else:
            native.add_squares(values, indices, indptr, self.own_weights(), out)
        return out / self.n

    def curvature_product(self, v: Array, factor: float) -> Array:
        """factor·Σ_i w_i a_i a_iᵀ v, for v with one entry per feature (and the intercept)."""
        out, core = np.zeros(self.shape[0]), self.core
        v = np.ascontiguousarray(v, dtype=np.float64).ravel()
        for part in self.in_turn():
            native.bent_product(core, self.weights, *part, v, factor, out)
        return out

    def bent_product(self, curvatures: Array, v: Array) -> Array:
        """(1/n) Σ_i c_i a_i a_iᵀ v, with margins and sum in one pass over the ``quick`` rows."""
        core, v = self.core, self.checked(v)

        def product(part: Range, out: Array) -> Array:
            native.bent_product(core, curvatures, *part, v, 1.0 / self.n, out)
            return out

        return self._summed(product)

    def _summed(self, work: Callable[[Range, Array], Array]) -> Array:
        """An array of x's shape to which ``work`` has added the part of every row, in consecutive stretches or in pieces for threads."""
        if self.pieces:
            parts = self.each(lambda part: work(part, np.zeros(self.shape)))
            whole: Array = np.sum(parts, axis=0)
            return whole
        out = np.zeros(self.shape)
        for part in self.in_turn():
            work(part, out)
        return out

    def squared_norms(self) -> Array:
        """‖a_i‖² of every row."""
        found = np.empty(self.n)
        for part in self.in_turn():
            self.rows.stretch(slice(*part)).squared_norms(part.of(found))
        return found

    def constants(self, curvature: float | None = None) -> Array:
        """w_i·c·(‖a_i‖² + [intercept]): the smoothness constant of each loss in x; c is that of the loss by default."""
        c = self.loss.curvature if curvature is None else curvature
        if not c < np.inf:
            raise InputError(
                f"{self.loss!r} has no bound on its curvature, so no step can be chosen: use "
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
        core = self.core
        if self.multiplies:
            table = self.margins(x)
            for part in self.in_turn():
                native.slopes_at(core, *part, part.of(table))
            return table, self.combined(table)
        table, x = np.empty((self.n, *self.outputs)), self.checked(x)

        def tabulate(part: Range, out: Array) -> Array:
            native.tabulate(core, x, *part, 1.0 / self.n, part.of(table), out)
            return out

        mean = self._summed(tabulate)
        self.raise_own_errors()
        return table, mean

    def combined(self, slopes: Array) -> Array:
        """(1/n) Σ w_i slopes_i a_i."""
        core, multiplies = self.core, self.multiplies

        def combine(part: Range, out: Array) -> Array:
            if not multiplies:
                native.combine(core, part.of(slopes), *part, 1.0 / self.n, out)
                return out
            with np.errstate(all="ignore"):  # as in the core
                own = part.of(slopes)
                own = (part.of(self.weights)[:, None] * own if self.weights.size else own) / self.n
                out[: self.features] += part.of(self.quick.values).T @ own
                if self.bias:
                    out[-1] += np.ones(len(own)) @ own
            return out

        return self._summed(combine)

    def conjugates(self, slopes: Array, scale: float) -> float:
        """Σ_i w_i·l*(scale·slopes_i, y_i), a part of the dual objective."""
        core = self.core
        return self._totalled(
            lambda part, total: native.conjugates(core, part.of(slopes), *part, scale, total)
        )

    # --- shuffled passes -----------------------------------------------------------------------

    def calls(
        self, count: int, samples: Callable[[], Visits], besides: float, batch: int = 1
    ) -> Iterator[tuple[int, int]]:
        """The boundaries of calls of a kernel over this many visits, so that the work of each is bounded.

        ``samples`` are the visited ones, ``besides`` is the cost of a visit apart from the values of its row.
        """
        most = max(int(CALL.work / (self.longest + besides + 1.0)) // batch, 1) * batch
        if most >= min(count, CALL.visits or LEAST) or self.rows.dense:
            yield from ((k, min(k + most, count)) for k in range(0, max(count, 1), most))
            return
        lengths = np.diff(self.rows.indptr)[samples()].astype(np.float64)
        work = np.cumsum(lengths * prod(self.outputs) + (besides + 1.0))
        start = 0
        while start < count:
            done = work[start - 1] if start else 0.0
            stop = int(np.searchsorted(work, done + CALL.work, side="right"))
            stop = min(start + max((stop - start) // batch, 1) * batch, count)
            yield start, stop
            start = stop

    @cached_property
    def longest(self) -> int:
        """The largest number of values in a row, times the number of outputs."""
        values = self.features
        if not self.rows.dense:
            values = int(np.max(np.diff(self.rows.indptr), initial=0))
        return values * prod(self.outputs)

    def sweep(
        self,
        x: Array,
        visits: Visits,
        steps: Steps,
        weights: Array | None = None,
        batch: int = 1,
    ) -> None:
        """Steps over the visits, in place; see ``FiniteSum.sweep``. The visits must be in range."""
        each, scale = self.weights if weights is None else weights, 1.0
        step, ridge, average, prox_step, form = steps
        besides = self.checked(x).size / batch if prox_step > 0.0 else 0.0
        core, psi = self.core, native_form(form)
        for start, stop in self.calls(visits.size, lambda: visits, besides, batch):
            listen()
            own = visits[start:stop]
            scale = native.sweep(
                core, each, own, batch, average, x, step, ridge, prox_step, psi, scale
            )
        if scale != 1.0:
            x[: self.features] *= scale
        self.raise_own_errors()

    def clipped_sweep(
        self, x: Array, visits: Visits, ends: Ends, steps: Steps, clip: float, noise: Noise
    ) -> None:
        """Steps along clipped gradients with noise, in place; see ``FiniteSum.clipped_sweep``."""
        step, ridge, average, prox_step, form = steps
        core, psi = self.core, native_form(form)
        some, begin = max(1, PIECE // self.checked(x).size), 0
        for k in range(0, ends.size, some):
            listen()
            part = ends[k : k + some]
            rows, stop = noise(part.size).reshape(part.size, -1), int(part[-1])
            own = visits[begin : stop if k + some < ends.size else None]
            scale = native.clipped_sweep(
                core, self.weights, own, part - begin, average, x, step, ridge, clip, 1.0, rows,
                prox_step, psi, 1.0,
            )  # fmt: skip
            if scale != 1.0:
                x[: self.features] *= scale
            begin = stop
        self.raise_own_errors()

    def block(
        self, y: Array, visits: Visits, step: float, table: Array, q: Array, copies: Copies = ALONE
    ) -> None:
        """Steps along differences to the slopes of a table; see ``FiniteSum.block``."""
        owner, core = copies.owner, self.core
        weights = copies.weights if owner.size else self.weights
        samples = (lambda: owner[visits]) if owner.size else (lambda: visits)
        for start, stop in self.calls(visits.size, samples, 0.0):
            listen()
            native.block(core, owner, weights, visits, start, stop, table, y, q, step)
        self.raise_own_errors()

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
        models, visits = np.empty((bounds.size - 1, *self.shape)), np.empty(self.n, dtype=np.uint32)
        core, x = self.core, self.checked(x)

        def before(client: int) -> int:
            return self._before(int(bounds[client])) + int(bounds[client]) + client * x.size

        for some in cuts(len(models), before):
            listen()
            native.clients(
                core, bounds[some.start : some.stop + 1], uniforms, visits, batch, averages[some], x,
                models[some], step, ridge,
            )  # fmt: skip
        self.raise_own_errors()
        return models
