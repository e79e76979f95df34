"""The exact method by Newton steps alone: on small sets, and for losses without a bound on their curvature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.problem import Problem
from reshuffle.smoothness import OVERFLOW
from reshuffle.solvers.certificate import Gap, Measure, Proof, RelativeMapping, certificate_of
from reshuffle.solvers.exact.decrement import STALLED, stalled_at
from reshuffle.solvers.exact.newton import LOOSEST
from reshuffle.solvers.exact.newton_bound import certified
from reshuffle.solvers.exact.newton_drivers import NewtonDriver
from reshuffle.solvers.exact.newton_on_sample import can_begin_at_sample, minimiser_of_sample
from reshuffle.solvers.exact.newton_steps import Ended, Progress
from reshuffle.solvers.exact.rest import PRECISION
from reshuffle.solvers.method import Check, Epoch, Method, State

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR


@dataclass(frozen=True, eq=False)
class NewtonRun:
    """The state: x, x in the driver's coordinates, and the numbers that one step hands to the next."""

    x: Array
    inner: Array
    made: int = 0
    progress: Progress = field(default_factory=Progress)
    end: Ended | None = None
    """The end point of the last call, which is x; it is not saved."""


class NewtonAlone(Method):
    """``ExactProxRR`` by Newton steps alone."""

    keeps_best = True
    state_type = NewtonRun
    solver: ExactProxRR

    def __init__(self, solver: ExactProxRR, problem: Problem, driver: NewtonDriver) -> None:
        self.problem: Problem = problem
        self.solver, self.driver = solver, driver
        self.schedule = constant
        self.proves = problem.loss.convex
        self.certificate = Gap.name if self.proves else RelativeMapping.name
        meaning = f"{Proof.meaning}, or {Gap.meaning}" if self.proves else RelativeMapping.meaning
        self.header = {"step": "Newton's", "certificate": meaning, "phases": "newton"}

    def start(self, x0: Array) -> NewtonRun:
        if not np.isfinite(self.driver.at_zero):
            raise InputError(
                f"f(0) is {self.driver.at_zero}: the losses overflow; bring y (or the columns of X) nearer "
                "to 1"
            )
        return NewtonRun(x0.copy(), self.driver.inner(x0))

    def advance(self, state: NewtonRun, epoch: int, step: float) -> Epoch:
        """Newton steps until the bound is small enough, or no step lowers P."""
        begin, visited = self._begin(state)
        end = self._steps(state, begin, 1 if self.watched else self.solver.epochs - epoch)
        new = NewtonRun(end.at.x, end.inner, state.made + end.steps, end.progress, end)
        if end.stuck or not (new.made and np.isfinite(end.objective)):
            self._check_columns(end)
        work = end.passes * self.problem.n + visited
        return Epoch(new, work, end.rounds, step, self._stalled(end), epochs=end.steps)

    def _steps(self, state: NewtonRun, begin: Array, most: int) -> Ended:
        """At most so many steps; again from zero where they are lost."""
        target, at_zero = self._target, abs(self._at_zero)
        end = self.driver.run(begin, state.progress, target, at_zero, most)
        if end.progress.bound <= target or not self._is_lost(state, end):
            return end
        zero = self.driver.inner(np.zeros(self.problem.shape))
        return self.driver.run(zero, Progress(), target, at_zero, most)

    @property
    def _target(self) -> float:
        """The bound at which steps end."""
        return max(min(self.solver.tol, LOOSEST), PRECISION) * abs(self._at_zero)

    def _stalled(self, end: Ended) -> str:
        """Why no step leads on, where that is so."""
        bound = end.progress.bound
        if not (end.stuck or bound <= PRECISION * abs(self._at_zero) or not end.steps):
            return ""
        if self.proves and not bound <= self._target:
            return stalled_at(self.problem, end.at, self._at_zero)
        return STALLED

    def _begin(self, state: NewtonRun) -> tuple[Array, int]:
        """The start of the steps, and the rows visited to find it; a run from zero may begin near the minimiser of a sample."""
        if state.made or not self.proves or not can_begin_at_sample(self.problem, state.x):
            return state.inner, 0
        found = minimiser_of_sample(self.problem, self.solver.seed, self.solver.tol)
        visited = found.visits + self.problem.n
        at_zero = self.problem.objective(state.x, self.driver.at_zero)
        lower = self.problem.objective(found.x) < at_zero
        return (self.driver.inner(found.x) if lower else state.inner), visited

    def _is_lost(self, state: NewtonRun, end: Ended) -> bool:
        """Whether no step helps at x although P(x) is above P(0): the start is so far out that f is flat there."""
        if not state.x.any() or not (end.stuck or not np.isfinite(end.objective)):
            return False
        at_zero = self.problem.objective(np.zeros(self.problem.shape), self.driver.at_zero)
        return not end.objective < at_zero

    def _check_columns(self, end: Ended) -> None:
        """Refuse columns whose squares overflow or underflow; called if there was no step, or a bad one."""
        fit = self.problem.datafit
        with np.errstate(over="ignore", under="ignore"):
            squares = fit.column_squares.sum() + self.problem.fit_intercept
        if not (np.isfinite(squares) and np.isfinite(end.objective)):
            raise InputError(OVERFLOW)
        if 0.0 < squares < np.finfo(np.float64).tiny:  # denormal numbers have lost digits
            raise InputError(OVERFLOW)
        if squares == 0.0 and not fit.weights.size and fit.quick.values.any():
            raise InputError(OVERFLOW)  # nothing is left of them at all
        if squares + self.problem.ridge == 0.0:
            raise InputError(
                "all rows of X are zero and there is no intercept: there is nothing to learn"
            )

    def certify(self, state: NewtonRun) -> Check:
        """The bound that the steps proved, or the duality gap. Skipped at x = 0; the first step gives a bound."""
        end = state.end
        if end is None:
            known = state.x.any()
            value = self._measure().at(state.x) if known else np.nan
            return Check(value, self.problem.n if known else 0, 0, state)
        if not self.proves:
            here = end.at
            mapping = RelativeMapping(self.problem)
            value = mapping.from_slopes(here.x, here.slopes, here.gradient)
            return Check(value, 0, 1, state)
        bound, tol = state.progress.bound / abs(self._at_zero), self.solver.tol
        if self.watched and self.driver.at_once and not (end.stuck or bound <= tol):
            return Check(np.nan, 0, 0, state)  # without callbacks it would go on
        value = certified(self.problem, self._measure, end.at, bound, tol)
        return Check(value, 0, 0, state)

    def objective(self, state: NewtonRun) -> float:
        if state.end is not None:
            return state.end.objective
        known = None if state.x.any() else self.driver.at_zero
        return self.problem.objective(state.x, known)

    def columns(self, state: NewtonRun) -> dict[str, float]:
        return {"active": float(self.problem.features), "newton": float(state.made)}

    def x_of(self, state: NewtonRun) -> Array:
        return state.x

    def saved(self, state: NewtonRun) -> State:
        numbers = np.array([state.made, *state.progress])
        return {"x": state.x, "inner": state.inner, "newton": numbers}

    def resumed(self, arrays: State) -> NewtonRun:
        made, *progress = arrays["newton"].tolist()
        return NewtonRun(arrays["x"], arrays["inner"], int(made), Progress(*progress))

    def _measure(self) -> Measure:
        """The duality gap if there is one."""
        measure = certificate_of(self.problem)
        if not self.proves:
            return RelativeMapping(self.problem)
        return measure if measure.name == Gap.name else Proof(self.problem)

    @property
    def _at_zero(self) -> float:
        """f(0), which accuracies are relative to."""
        return self.driver.at_zero or 1.0


def constant(epoch: int) -> float:
    """The step of every epoch: a Newton step has length 1 before any line search."""
    return 1.0
