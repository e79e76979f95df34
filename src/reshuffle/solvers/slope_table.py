"""The table of slopes of the exact method: the last slope of every function, and their mean gradient.

The functions are N copies F_c = w_c f_{owner(c)} with f = (1/N) Σ F_c (the samples themselves, or
importance copies of them). For a linear model the gradient of F_c is a number times a row, so one
number (or K) per copy is enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

import numpy as np

from reshuffle.arrays import Array, Visits
from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.datafit import NO_VISITS, Copies, Datafit
from reshuffle.disk_datafit import DiskDatafit, on_disk
from reshuffle.interruption import listen
from reshuffle.objective import FiniteSum
from reshuffle.penalties.forms import Form, native_form
from reshuffle.problem import Problem
from reshuffle.solvers.prox_call import WarmStart, taken_from
from reshuffle.validation import read_only


class SlopeState(NamedTuple):
    """The state of the table before and after an epoch."""

    x: Array
    table: Array
    """The slope of every copy at its last visit."""
    g: Array
    """The mean gradient that belongs to the table."""
    q: Array
    """g - h."""
    warm: WarmStart | None = None
    """The start of the next prox, if it is found by iterations."""


@dataclass(frozen=True, eq=False)
class SlopeTable(ABC):
    """The functions of a finite sum, and epochs that remember a slope of each function.

    The ridge inside f counts as part of ψ here; the minimiser is the same.
    """

    problem: FiniteSum
    owner: Visits
    """The sample of each copy; empty if every sample is its own only copy."""
    weights: Array
    """The factor of each copy besides that of its sample; empty if there are no copies."""

    @property
    def count(self) -> int:
        """N, the number of copies."""
        return int(self.owner.size or self.problem.n)

    @property
    @abstractmethod
    def slope_shape(self) -> tuple[int, ...]:
        """The shape of one entry of the table."""

    @abstractmethod
    def slopes(self, x: Array) -> tuple[Array, Array]:
        """The slope of every sample at x, and the mean gradient there: a pass over the data."""

    @abstractmethod
    def block(
        self, state: SlopeState, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        """Steps along the differences of the slopes; ``y`` is x without the drift along q."""

    def start(self, x: Array) -> SlopeState:
        """The state with all slopes taken at x, q = 0."""
        return self.state(x, *self.slopes(x))

    def blank(self, x: Array, warm: WarmStart | None = None) -> SlopeState:
        """The state before any slope is remembered."""
        table, zero = np.zeros((self.count, *self.slope_shape)), np.zeros(self.problem.shape)
        return SlopeState(x.copy(), table, zero, zero, warm)

    def state(self, x: Array, slopes: Array, g: Array) -> SlopeState:
        """The state with these slopes, one per sample; all copies of a sample begin with the same slope."""
        return SlopeState(x.copy(), self.table(slopes), g, np.zeros(self.problem.shape))

    def table(self, slopes: Array) -> Array:
        """One slope per copy, from one per sample."""
        return slopes[self.owner] if self.owner.size else slopes

    @property
    def compiled(self) -> bool:
        """Whether whole epochs run in the kernel, proxes included."""
        return False

    @property
    def smoothness(self) -> float:
        """The largest L of the copies, without the ridge."""
        constants = self.problem.smoothness.individual - self.problem.ridge
        return float(np.max(constants[self.owner] * self.weights if self.owner.size else constants))

    @property
    def sparsity(self) -> float:
        """The dimension over the stored values of a mean row: how many gradients cost as much as a prox."""
        return 1.0

    def epoch(
        self, state: SlopeState, visits: Visits, steps: Array, corrected: bool = True
    ) -> SlopeState:
        """An epoch in ``len(steps)`` blocks, each followed by a prox.

        See ``core/exact_epoch.hpp`` for the formulas. An epoch that is not ``corrected`` must begin with an
        empty table (table, g and q are zero): it is an epoch of ProxRR that fills the table.
        """
        x, table, g, q, warm = state.x, state.table.copy(), state.g, state.q, state.warm
        blocks = steps.size
        for b, step in enumerate(steps):
            listen()
            first, last = b * visits.size // blocks, (b + 1) * visits.size // blocks
            y = x.copy()
            self.block(SlopeState(x, table, g, q), y, visits, first, last, step)
            tau = step * (last - first)
            point = y - corrected * tau * g
            after, warm = taken_from(self.problem, warm, x, point, tau, with_ridge=True)
            change = (x - y) / (step * self.count)
            q = corrected * (change + (y - after) / tau)
            x, g = after, g + change
        return SlopeState(x, table, g, q, warm)


class EpochPart(NamedTuple):
    """Visits of an epoch whose rows are in memory, the steps of their blocks, and their entries of the table."""

    fit: Datafit
    copies: Copies
    visits: Visits
    steps: Array
    table: Array

    def samples(self) -> Visits:
        """The owners of the visited copies."""
        owner = self.copies.owner
        return owner[self.visits] if owner.size else self.visits


@dataclass(frozen=True, eq=False)
class LinearModelTable(SlopeTable):
    """The table of a linear model: a slope (or K of them) per copy."""

    problem: Problem

    @property
    def fit(self) -> Datafit:
        return self.problem.datafit

    @property
    def slope_shape(self) -> tuple[int, ...]:
        return self.fit.outputs

    def slopes(self, x: Array) -> tuple[Array, Array]:
        return self.fit.slopes(x)

    def on(self, kept: Visits) -> LinearModelTable:
        """The table of the functions in these features alone."""
        return LinearModelTable(self.problem.columns(kept), self.owner, self.weights)

    @property
    def sparsity(self) -> float:
        return self.fit.features * self.fit.n / max(self.fit.rows.stored, 1)

    @cached_property
    def smoothness(self) -> float:
        """The largest L of the copies, without the ridge."""
        constants = self.fit.constants()
        return float(np.max(constants[self.owner] * self.weights if self.owner.size else constants))

    def block(
        self, state: SlopeState, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        copies = Copies(self.owner, self._weights)
        self.fit.block(y, visits[first:last], step, state.table, state.q, copies)

    @property
    def compiled(self) -> bool:
        return self._form is not None

    def epoch(
        self, state: SlopeState, visits: Visits, steps: Array, corrected: bool = True
    ) -> SlopeState:
        if self._form is None:
            return super().epoch(state, visits, steps, corrected)
        x, table, g, q = (array.copy() for array in state[:4])
        start, form = x.ravel().copy(), native_form(self._form)
        for part in self._parts(visits, steps, table):
            fit, copies, own, lengths, local = part
            besides = x.size * lengths.size / max(own.size, 1)
            for begin, end in fit.calls(own.size, part.samples, besides):
                listen()
                native.epoch(
                    fit.core, copies.owner, copies.weights, own, begin, end, lengths, float(corrected), local, x, q, start,
                    g, form, self.count,
                )  # fmt: skip
        self.fit.raise_own_errors()
        return SlopeState(x, table, g, q, state.warm)

    def _parts(self, visits: Visits, steps: Array, table: Array) -> Iterator[EpochPart]:
        """The epoch in parts whose rows are in memory: one."""
        yield EpochPart(self.fit, Copies(self.owner, self._weights), visits, steps, table)

    @property
    def _form(self) -> Form | None:
        """The penalty and the ridge together, as the kernels read them."""
        return self.problem.form_with_ridge

    @cached_property
    def _weights(self) -> Array:
        """The factor of each copy, that of its sample included."""
        if not (self.owner.size and self.fit.weights.size):
            return self.weights if self.owner.size else self.fit.weights
        return read_only(self.weights * self.fit.weights[self.owner])


@dataclass(frozen=True, eq=False)
class DiskTable(LinearModelTable):
    """``LinearModelTable`` for rows on disk: an epoch goes from window to window. The table itself is in memory."""

    @property
    def disk(self) -> DiskDatafit:
        return on_disk(self.fit)

    @cached_property
    def smoothness(self) -> float:
        known = self.fit.known_constants()
        return super().smoothness if known is None else known[0]

    def _parts(self, visits: Visits, steps: Array, table: Array) -> Iterator[EpochPart]:
        """A part for each window; its entries of the table are put back after its visits."""
        for part in self.disk.parts(visits):
            segment = part.segment.visits
            ends = np.array([segment.start, segment.stop]) * steps.size / visits.size
            first, last = (int(k) for k in np.rint(ends))
            own = steps[first:last] if last > first else steps[min(first, steps.size - 1)][None]
            local, copies = part.gather(table), Copies(NO_VISITS, part.fit.weights)
            yield EpochPart(part.fit, copies, part.visits, own, local)
            part.scatter(local, table)
            part.fit.raise_own_errors()


class GradientTable(SlopeTable):
    """The table of functions known by their gradients: a whole gradient per copy."""

    @property
    def slope_shape(self) -> tuple[int, ...]:
        return self.problem.shape

    def slopes(self, x: Array) -> tuple[Array, Array]:
        return self.problem.slopes(x)

    def block(
        self, state: SlopeState, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        copies = Copies(self.owner, self.weights)
        self.problem.block(y, visits[first:last], step, state.table, state.q, copies)


def slope_table_of(problem: FiniteSum, owner: Visits, weights: Array) -> SlopeTable:
    """The table of a problem: a slope per copy for a linear model, a whole gradient per copy for other functions."""
    owner, weights = read_only(owner), read_only(weights)
    if is_linear_model(problem):
        if problem.datafit.on_disk:
            return DiskTable(problem, owner, weights)
        return LinearModelTable(problem, owner, weights)
    return GradientTable(problem, owner, weights)


def is_linear_model(problem: FiniteSum) -> TypeGuard[Problem]:
    """Whether the functions are losses of the margins of rows, which the core knows."""
    return problem.datafit is not None
