"""What the exact method remembers of a problem: the last slope of every function, and their mean.

The functions are N copies F_c = w_c f_{owner(c)} with f = (1/N) Σ F_c (the samples themselves, or
importance copies of them). For a linear model the gradient of F_c is a number times a row, so one
number (or K) a copy is all there is to remember.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle.finite_sum import Array, FiniteSum, Visits
from reshuffle.oracle import OracleProblem
from reshuffle.penalties import Conjugate, GroupLasso, L1Ball, Separable
from reshuffle.problem import AHEAD, Problem
from reshuffle.validation import read_only

State = dict[str, Array]


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

    @abstractmethod
    def block(
        self, state: State, y: Array, visits: Visits, first: int, last: int, step: float
    ) -> None:
        """Steps along the differences of the slopes; ``y`` is x without the drift along q."""

    @property
    def has_dual(self) -> bool:
        """Whether ``gap`` can bound P(x) - P*."""
        return False

    def gap(self, fresh: State) -> float:
        """P(x) - D(α·slopes at x), an upper bound on P(x) - P*; ``fresh`` is a start at x."""
        raise TypeError("this problem has no dual to bound the gap with")

    def epoch(self, state: State, visits: Visits, blocks: int, step: float) -> State:
        """The blocks of an epoch, a prox after each; see ``kernels/exact.py`` for the formulas."""
        new = {name: value.copy() for name, value in state.items()}
        count = len(new["table"])
        for b in range(blocks):
            first, last = b * visits.size // blocks, (b + 1) * visits.size // blocks
            y = new["x"].copy()
            self.block(new, y, visits, first, last, step)
            tau = step * (last - first)
            x = self.problem.prox_with_ridge(y - tau * new["g"], tau)
            change = (new["x"] - y) / (step * count)
            new["q"] = change + (y - x) / tau
            new["g"] = new["g"] + change
            new["x"] = x
        return new


class SlopeMemory(Memory):
    """For a linear model: a slope (or K of them) a copy."""

    problem: Problem

    def start(self, x: Array) -> State:
        from reshuffle.kernels.exact import table_kernel

        problem = self.problem
        table, g = np.empty((problem.n, *problem.shape[1:])), np.zeros(problem.shape)
        table_kernel(problem._stamp)(
            *problem._data, x, problem._scratch(1), 1.0 / problem.n, table, g
        )
        if self.owner.size:
            table = table[self.owner]
        return {"x": x.copy(), "table": table, "g": g, "q": np.zeros(problem.shape)}

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

    def epoch(self, state: State, visits: Visits, blocks: int, step: float) -> State:
        if not isinstance(self.problem.penalty, Separable):
            return super().epoch(state, visits, blocks, step)
        from reshuffle.kernels.exact import epoch_kernel

        new = {name: value.copy() for name, value in state.items()}
        x, q, penalised = new["x"], new["q"], self.problem.penalised
        held = self.problem.penalty.with_ridge(self.problem.ridge)
        separable = held.coefficients((penalised, *x.shape[1:]))
        epoch_kernel(self.problem._stamp)(
            *self._data,
            visits,
            blocks,
            new["table"],
            x,
            x.reshape(-1),
            q,
            q.reshape(-1),
            x.ravel().copy(),
            new["g"].reshape(-1),
            penalised * (x.size // len(x)),
            step,
            separable,
            self.problem._scratch(1),
            AHEAD,
        )
        return new

    @property
    def _data(self) -> tuple[object, ...]:
        p = self.problem
        return (*p.rows, p.targets, self.weights, p.loss.params, p.fit_intercept, self.owner)

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
        from reshuffle.kernels.exact import conjugate_kernel

        problem, x, g = self.problem, fresh["x"], -fresh["g"]
        penalty = self._dual_penalty
        assert penalty is not None
        scale = penalty.dual_scale(g)
        ours, theirs = penalty.value(x), penalty.conjugate(scale * g)
        if scale == 1.0:  # l(z) + l*(l'(z)) = z·l'(z): the losses add up to <x, ∇f(x)>
            return float(ours + theirs - np.vdot(x, g))
        conjugates = conjugate_kernel(problem._stamp)(
            problem.targets,
            self.weights,
            problem.loss.params,
            self.owner,
            fresh["table"],
            scale,
            problem._scratch(1),
        )
        losses = problem.value(x) - 0.5 * problem.ridge * float(np.vdot(x, x))
        return float(losses + ours + conjugates / len(fresh["table"]) + theirs)


class GradientMemory(Memory):
    """For an oracle: a whole gradient a copy."""

    problem: OracleProblem

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
