"""The exact method by Newton steps alone: on small sets, and for losses without a bound on their curvature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.problem import Problem
from reshuffle.smoothness import OVERFLOW
from reshuffle.solvers.certificate import Certificate, Gap, Proof, certificate_of
from reshuffle.solvers.exact.costs import LOOSEST, PRECISION, Steps, certified
from reshuffle.solvers.exact.decrement import STALLED, stalled_at
from reshuffle.solvers.exact.newton_drivers import Descent
from reshuffle.solvers.exact.newton_steps import Ended, Progress
from reshuffle.solvers.method import Check, Epoch, Method, State

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR


class NewtonMethod(Method):
    """Newton steps to the end. The state: x, and what one step hands on to the next."""

    keeps_best = True

    def __init__(self, solver: ExactProxRR, problem: Problem, descent: Descent) -> None:
        self.problem: Problem = problem
        self.solver, self.descent = solver, descent
        self.schedule = constant
        self.certificate = Gap.name
        self.header = {
            "step": "Newton's",
            "certificate": f"{Proof.meaning}, or {Gap.meaning}",
        }
        self._last: Ended | None = None

    def start(self, x0: Array) -> State:
        if not np.isfinite(self._value_at_zero):
            raise InputError(
                f"f(0) is {self._value_at_zero}: the losses overflow; bring y (or the columns of X) nearer "
                "to 1"
            )
        return {"x": x0.copy(), "inner": self.descent.inner(x0), "newton": Steps().array()}

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """Newton steps until the bound is small enough, or no step lowers P."""
        steps, at_zero = Steps.of(state["newton"]), abs(self._at_zero)
        least = PRECISION * at_zero
        target = max(min(self.solver.tol, LOOSEST) * at_zero, least)
        most = 1 if self.watched else self.solver.epochs - epoch
        end = self.descent.run(state["inner"], steps.progress, target, at_zero, most)
        if not end.progress.bound <= target and self._is_lost(state, end):
            zero = self.descent.inner(np.zeros(self.problem.shape))
            end = self.descent.run(zero, Progress(), target, at_zero, most)
        self._last = end
        steps = steps._replace(made=steps.made + end.steps, progress=end.progress)
        if end.stuck or not (steps.made and np.isfinite(end.objective)):
            self._check_columns(end)
        done = end.stuck or end.progress.bound <= least or not end.steps
        stalled = ""
        if done and not end.progress.bound <= target:
            stalled = stalled_at(self.problem, end.at, self._at_zero)
        elif done:
            stalled = STALLED
        new = {"x": end.at.x, "inner": end.inner, "newton": steps.array()}
        work = end.passes * self.problem.n
        return Epoch(new, work, end.rounds, step, stalled, epochs=end.steps)

    def _is_lost(self, state: State, end: Ended) -> bool:
        """Whether x, from where no step leads on, is worse than zero: a start so far out that f has no slope."""
        if not state["x"].any() or not (end.stuck or not np.isfinite(end.objective)):
            return False
        at_zero = self.problem.objective(np.zeros(self.problem.shape), self._value_at_zero)
        return not end.objective < at_zero

    def _check_columns(self, end: Ended) -> None:
        """Where no step was made, or a bad one: refuse columns whose squares overflow, or are lost."""
        with np.errstate(over="ignore", under="ignore"):
            squares = self.problem.datafit.column_squares.sum() + self.problem.fit_intercept
        if not (np.isfinite(squares) and np.isfinite(end.objective)):
            raise InputError(OVERFLOW)
        if 0.0 < squares < np.finfo(np.float64).tiny:  # what is left of them has no digits
            raise InputError(OVERFLOW)
        if squares + self.problem.ridge == 0.0:
            self.problem.smoothness.require()

    def certify(self, state: State) -> Check:
        """What the steps proved, or the dual point. At zero no one asks: the steps tell more, for less."""
        at, steps = self._last, Steps.of(state["newton"])
        if at is None or at.at.x is not state["x"]:
            known = state["x"].any()
            value = self._measure().at(state["x"]) if known else np.nan
            return Check(value, self.problem.n if known else 0, 0, state)
        bound, tol = steps.progress.bound / abs(self._at_zero), self.solver.tol
        if self.watched and self.descent.at_once and not (at.stuck or bound <= tol):
            return Check(
                np.nan, 0, 0, state
            )  # as in a run that no one looks at, which is still going
        value = certified(self.problem, self.descent.form, self._measure, at.at, bound, tol)
        return Check(value, 0, 0, state)

    def objective(self, state: State) -> float:
        at = self._last
        if at is not None and at.at.x is state["x"]:
            return at.objective
        known = None if state["x"].any() else self._value_at_zero
        return self.problem.objective(state["x"], known)

    def columns(self, state: State) -> dict[str, float]:
        return {"active": float(self.problem.features), "newton": float(state["newton"][0])}

    def _measure(self) -> Certificate:
        """The duality gap where there is one."""
        measure = certificate_of(self.problem)
        return measure if measure.name == Gap.name else Proof(self.problem)

    @property
    def _value_at_zero(self) -> float:
        return self.descent.at_zero

    @property
    def _at_zero(self) -> float:
        """f(0), which accuracies are relative to."""
        return self._value_at_zero or 1.0


def constant(epoch: int) -> float:
    """The length of Newton's steps before any search."""
    return 1.0
