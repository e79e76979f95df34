"""What the exact method remembers of a problem: the last slope of every function, and their mean.

The functions are N copies F_c = w_c f_{owner(c)} with f = (1/N) Σ F_c (the samples themselves, or
importance copies of them). For a linear model the gradient of F_c is a number times a row, so one
number (or K) per copy is all there is to remember.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.datafit import Copies, Datafit
from reshuffle.interruption import listen
from reshuffle.objective import Array, FiniteSum, Visits
from reshuffle.penalties.forms import Form, native_form
from reshuffle.problem import Problem
from reshuffle.solvers.prox_call import taken
from reshuffle.validation import read_only

State = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SlopeTable(ABC):
    """The state is ``x``, ``table`` (slopes), ``g`` (their mean gradient) and ``q`` = g - h.

    The ridge inside f counts as part of ψ here; the minimiser is the same.
    """

    problem: FiniteSum
    owner: Visits
    """The sample of each copy; empty where every sample is its own only copy."""
    weights: Array
    """The factor of each copy besides that of its sample; empty where there are no copies."""

    @property
    def count(self) -> int:
        """N, the number of copies."""
        return int(self.owner.size or self.problem.n)

    @property
    @abstractmethod
    def slope_shape(self) -> tuple[int, ...]:
        """Of what is remembered of a function."""

    @abstractmethod
    def slopes(self, x: Array) -> tuple[Array, Array]:
        """The slope of every sample at x, and the mean gradient there: a pass over the data."""

    @abstractmethod
    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        """Steps along the differences of the slopes; ``y`` is x without the drift along q."""

    def start(self, x: Array) -> State:
        """The state with all slopes taken at x, q = 0."""
        return self.state(x, *self.slopes(x))

    def blank(self, x: Array) -> State:
        """The state with nothing remembered."""
        table, zero = np.zeros((self.count, *self.slope_shape)), np.zeros(self.problem.shape)
        return {"x": x.copy(), "table": table, "g": zero, "q": zero}

    def state(self, x: Array, slopes: Array, g: Array) -> State:
        """The state with these slopes, one per sample: the copies of a sample begin with the same."""
        zero = np.zeros(self.problem.shape)
        return {"x": x.copy(), "table": self.table(slopes), "g": g, "q": zero}

    def table(self, slopes: Array) -> Array:
        """A slope per copy, from one per sample."""
        return slopes[self.owner] if self.owner.size else slopes

    @property
    def compiled(self) -> bool:
        """Whether whole epochs run in the kernel, proxes included."""
        return False

    @property
    def sparsity(self) -> float:
        """The dimension over the stored values of a mean row: gradients that cost as much as a prox."""
        return 1.0

    def epoch(self, state: State, visits: Visits, steps: Array, corrected: bool = True) -> State:
        """An epoch in as many blocks as there are steps, a prox after each.

        See ``core/exact_epoch.hpp`` for the formulas. An epoch that is not ``corrected`` must have nothing
        to remember (table, g and q zero): it is one of ProxRR, and remembers what it sees. A state that has a
        warm start of the prox (``solvers.inexact``) keeps one.
        """
        new = {name: value.copy() for name, value in state.items()}
        blocks = steps.size
        for b, step in enumerate(steps):
            listen()
            first, last = b * visits.size // blocks, (b + 1) * visits.size // blocks
            y = new["x"].copy()
            self.block(new, y, visits, first, last, step)
            tau = step * (last - first)
            point = y - corrected * tau * new["g"]
            x, warm = taken(self.problem, new, new["x"], point, tau, with_ridge=True)
            change = (new["x"] - y) / (step * self.count)
            new["q"] = corrected * (change + (y - x) / tau)
            new["g"] = new["g"] + change
            new |= warm | {"x": x}
        return new


@dataclass(frozen=True, eq=False)
class LinearModelTable(SlopeTable):
    """For a linear model: a slope (or K of them) per copy."""

    problem: Problem

    @property
    def fit(self) -> Datafit:
        return self.problem.datafit

    @property
    def slope_shape(self) -> tuple[int, ...]:
        return self.fit.outputs

    def slopes(self, x: Array) -> tuple[Array, Array]:
        return self.fit.slopes(x)

    def slopes_from(self, part: LinearModelTable, x_part: Array) -> tuple[Array, Array]:
        """The same, where x is zero outside the features of ``part``: its rows give the slopes."""
        slopes, _ = part.slopes(x_part)
        return slopes, self.fit.combined(slopes)

    def on(self, kept: Visits) -> LinearModelTable:
        """The same functions, in these features alone."""
        return LinearModelTable(self.problem.columns(kept), self.owner, self.weights)

    @property
    def sparsity(self) -> float:
        return self.fit.features * self.fit.n / max(self.fit.rows.stored, 1)

    @cached_property
    def smoothness(self) -> float:
        """The largest L of the copies, the ridge left out."""
        constants = self.fit.constants()
        return float(np.max(constants[self.owner] * self.weights if self.owner.size else constants))

    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        copies = Copies(self.owner, self._weights)
        self.fit.block(y, visits[first:last], step, state["table"], state["q"], copies)

    @property
    def compiled(self) -> bool:
        return self._form is not None

    def epoch(self, state: State, visits: Visits, steps: Array, corrected: bool = True) -> State:
        if self._form is None:
            return super().epoch(state, visits, steps, corrected)
        new = {name: value.copy() for name, value in state.items()}
        start, core, form = new["x"].ravel().copy(), self.fit.core, native_form(self._form)
        for begin, end in self._calls(visits, start.size * steps.size / max(visits.size, 1)):
            listen()
            native.epoch(
                core, self.owner, self._weights, visits, begin, end, steps, float(corrected), new["table"], new["x"],
                new["q"], start, new["g"], form,
            )  # fmt: skip
        self.fit.raise_own_errors()
        return new

    def _calls(self, visits: Visits, besides: float) -> Iterator[tuple[int, int]]:
        """See ``Datafit.calls``; the samples are the owners of the visited copies."""
        owner = self.owner
        return self.fit.calls(visits.size, lambda: owner[visits] if owner.size else visits, besides)

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


class GradientTable(SlopeTable):
    """For functions known by their gradients: a whole gradient per copy."""

    @property
    def slope_shape(self) -> tuple[int, ...]:
        return self.problem.shape

    def slopes(self, x: Array) -> tuple[Array, Array]:
        return self.problem.slopes(x)

    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        copies = Copies(self.owner, self.weights)
        self.problem.block(y, visits[first:last], step, state["table"], state["q"], copies)


def slope_table_of(problem: FiniteSum, owner: Visits, weights: Array) -> SlopeTable:
    """Slopes where the kernels know the functions, gradients elsewhere."""
    kind: type[Any] = GradientTable if problem.datafit is None else LinearModelTable
    memory: SlopeTable = kind(problem, read_only(owner), read_only(weights))
    return memory
