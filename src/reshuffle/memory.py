"""What the exact method remembers of a problem: the last slope of every function, and their mean.

The functions are N copies F_c = w_c f_{owner(c)} with f = (1/N) Σ F_c (the samples themselves, or
importance copies of them). For a linear model the gradient of F_c is a number times a row, so one
number (or K) a copy is all there is to remember.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.finite_sum import Array, FiniteSum, Visits
from reshuffle.oracle import OracleProblem
from reshuffle.penalties import Conjugate, GroupLasso, L1Ball, Separable
from reshuffle.problem import AHEAD, Problem
from reshuffle.validation import read_only

State = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Memory(ABC):
    """The state is ``x``, ``table`` (slopes), ``g`` (their mean gradient) and ``q`` = g - h.

    The ridge inside f counts as part of ψ here; the minimiser is the same.
    """

    problem: FiniteSum
    owner: Visits
    """The sample of each copy; empty where every sample is its own only copy."""
    weights: Array
    """The factor of each copy's loss; empty where all are 1."""

    @abstractmethod
    def start(self, x: Array) -> State:
        """The state with all slopes taken at x, q = 0: a pass over the data."""

    def blank(self, x: Array) -> State:
        """The state with nothing remembered."""
        count = self.owner.size or self.problem.n
        table = np.zeros((count, *self._slope_shape))
        zero = np.zeros(self.problem.shape)
        return {"x": x.copy(), "table": table, "g": zero, "q": zero}

    @property
    @abstractmethod
    def _slope_shape(self) -> tuple[int, ...]:
        """Of what is remembered of a function."""

    @abstractmethod
    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        """Steps along the differences of the slopes; ``y`` is x without the drift along q."""

    @property
    def sparsity(self) -> float:
        """The dimension over the stored values of a mean row: gradients that cost as much as a prox."""
        return 1.0

    @property
    def has_dual(self) -> bool:
        """Whether ``gap`` can bound P(x) - P*."""
        return False

    def gap(self, fresh: State) -> float:
        """P(x) - D(α·slopes at x), an upper bound on P(x) - P*; ``fresh`` is a start at x."""
        raise TypeError("this problem has no dual to bound the gap with")

    def epoch(self, state: State, visits: Visits, steps: Array, corrected: bool = True) -> State:
        """An epoch in as many blocks as there are steps, a prox after each.

        See ``kernels/exact.py`` for the formulas. An epoch that is not ``corrected`` must have nothing
        to remember (table, g and q zero): it is one of ProxRR, and remembers what it sees.
        """
        new = {name: value.copy() for name, value in state.items()}
        count, blocks = len(new["table"]), steps.size
        for b, step in enumerate(steps):
            first, last = b * visits.size // blocks, (b + 1) * visits.size // blocks
            y = new["x"].copy()
            self.block(new, y, visits, first, last, step)
            tau = step * (last - first)
            x = self.problem.prox_with_ridge(y - corrected * tau * new["g"], tau)
            change = (new["x"] - y) / (step * count)
            new["q"] = corrected * (change + (y - x) / tau)
            new["g"] = new["g"] + change
            new["x"] = x
        return new


class SlopeMemory(Memory):
    """For a linear model: a slope (or K of them) a copy."""

    problem: Problem

    @property
    def _slope_shape(self) -> tuple[int, ...]:
        return self.problem.shape[1:]

    def start(self, x: Array) -> State:
        table, g = self._tabulate(x)
        return self._state(x, table, g)

    def start_from(self, x: Array, part: SlopeMemory, x_part: Array) -> State:
        """The same, where x is zero outside the features of ``part``: its rows give the slopes."""
        from reshuffle.kernels.exact import combine_kernel
        from reshuffle.kernels.stamp import stamp_of

        problem, g = self.problem, np.zeros(self.problem.shape)
        table, _ = part._tabulate(x_part)
        combine_kernel(stamp_of())(
            *problem.quick_rows, problem.weights, problem.fit_intercept, problem._scratch(1),
            1.0 / problem.n, table, g,
        )  # fmt: skip
        return self._state(x, table, g)

    def _tabulate(self, x: Array) -> tuple[Array, Array]:
        from reshuffle.kernels.exact import table_kernel

        problem = self.problem
        table, g = np.empty((problem.n, *problem.shape[1:])), np.zeros(problem.shape)
        table_kernel(problem._stamp)(
            *problem.quick_rows, problem.targets, problem.weights, problem.loss.params,
            problem.fit_intercept, x, problem._scratch(1), 1.0 / problem.n, table, g,
        )  # fmt: skip
        return table, g

    def _state(self, x: Array, table: Array, g: Array) -> State:
        """``table`` has a slope a sample; the copies of a sample begin with the same."""
        if self.owner.size:
            table = table[self.owner]
        return {"x": x.copy(), "table": table, "g": g, "q": np.zeros(self.problem.shape)}

    def on(self, kept: Visits) -> SlopeMemory:
        """The same functions, in these features alone."""
        return SlopeMemory(self.problem.columns(kept), self.owner, self.weights)

    @property
    def sparsity(self) -> float:
        return self.problem.features * self.problem.n / max(self.problem.rows.stored, 1)

    @cached_property
    def smoothness(self) -> float:
        """The largest L of the copies, the ridge left out."""
        problem = self.problem
        constants = problem.smoothness.individual - problem.ridge
        if problem.weights.size:  # the weights of the copies have them already
            constants = np.divide(
                constants, problem.weights, out=constants, where=problem.weights > 0
            )
        if self.owner.size:
            constants = constants[self.owner]
        return float(np.max(constants * self.weights if self.weights.size else constants))

    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        from reshuffle.kernels.exact import block_kernel

        block_kernel(self.problem._stamp)(
            *self._data,
            visits,
            first,
            last,
            state["table"],
            y,
            state["q"],
            step,
            self.problem._scratch(1),
            AHEAD,
        )

    def epoch(self, state: State, visits: Visits, steps: Array, corrected: bool = True) -> State:
        if not isinstance(self.problem.penalty, Separable):
            return super().epoch(state, visits, steps, corrected)
        from reshuffle.kernels.exact import epoch_kernel

        new = {name: value.copy() for name, value in state.items()}
        x, q, penalised = new["x"], new["q"], self.problem.penalised
        epoch_kernel(self.problem._stamp)(
            *self._data,
            visits,
            steps,
            float(corrected),
            new["table"],
            x,
            x.reshape(-1),
            q,
            q.reshape(-1),
            x.ravel().copy(),
            new["g"].reshape(-1),
            penalised * int(np.prod(x.shape[1:])),
            self._separable,
            self.problem._scratch(1),
            AHEAD,
        )
        return new

    @cached_property
    def _separable(self) -> tuple[Array, Array, Array, Array]:
        """The penalty and the ridge together."""
        assert isinstance(self.problem.penalty, Separable)
        held = self.problem.penalty.with_ridge(self.problem.ridge)
        return held.coefficients((self.problem.penalised, *self.problem.shape[1:]))

    @cached_property
    def _data(self) -> tuple[object, ...]:
        p = self.problem
        return (*p.quick_rows, p.targets, self.weights, p.loss.params, p.fit_intercept, self.owner)

    @property
    def has_dual(self) -> bool:
        return self._dual_penalty is not None

    @cached_property
    def _dual_penalty(self) -> Conjugate | None:
        """ψ + (ridge/2)‖·‖² where its conjugate is known and every coordinate is held by it."""
        problem, penalty = self.problem, self.problem.penalty
        if problem.loss.conjugate is None or problem.fit_intercept:
            return None
        if isinstance(penalty, Separable):
            held = penalty.with_ridge(problem.ridge)
            l1, l2, low, high = held.coefficients((problem.penalised, *problem.shape[1:]))
            return held if np.all((l1 > 0) | (l2 > 0) | np.isfinite(high - low)) else None
        known = isinstance(penalty, (L1Ball, GroupLasso)) and problem.ridge == 0
        return penalty if known else None  # type: ignore[return-value]

    def gap(self, fresh: State) -> float:
        problem, x, g = self.problem, fresh["x"], -fresh["g"]
        penalty = self._dual_penalty
        assert penalty is not None
        scale = penalty.dual_scale(g)
        ours, theirs = penalty.value(x), penalty.conjugate(scale * g)
        if scale == 1.0:  # l(z) + l*(l'(z)) = z·l'(z): the losses add up to <x, ∇f(x)>
            return float(ours + theirs - np.vdot(x, g))
        losses = problem.value(x) - 0.5 * problem.ridge * float(np.vdot(x, x))
        return float(losses + ours + self.conjugates(fresh["table"], scale) + theirs)

    def conjugates(self, table: Array, scale: float) -> float:
        """(1/N) Σ_c w_c l*(scale·table_c)."""
        from reshuffle.kernels.exact import conjugate_kernel

        p = self.problem
        total = conjugate_kernel(p._stamp)(
            p.targets, self.weights, p.loss.params, self.owner, table, scale, p._scratch(1)
        )
        return float(total / len(table))


class GradientMemory(Memory):
    """For an oracle: a whole gradient a copy."""

    problem: OracleProblem

    @property
    def _slope_shape(self) -> tuple[int, ...]:
        return self.problem.shape

    def start(self, x: Array) -> State:
        table = np.array([self.problem.component(i, x) for i in range(self.problem.n)])
        g = table.mean(axis=0)
        if self.owner.size:
            table = table[self.owner]
        return {"x": x.copy(), "table": table, "g": g, "q": np.zeros(self.problem.shape)}

    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        table, q = state["table"], state["q"]
        for k in range(first, last):
            c = visits[k]
            i = int(self.owner[c]) if self.owner.size else int(c)
            new = self.problem.component(i, y - step * (k - first) * q)
            weight = self.weights[c] if self.weights.size else 1.0
            y -= step * weight * (new - table[c])
            table[c] = new


def memory_of(problem: FiniteSum, owner: Visits, weights: Array) -> Memory:
    """The memory that fits the problem."""
    kind = SlopeMemory if isinstance(problem, Problem) else GradientMemory
    return kind(problem, owner, read_only(weights))
