"""Small sets: Newton steps from beginning to end in one compiled call.

On a few hundred rows a step takes microseconds in the kernel and a hundred times that in the Python
around it. So the rows are laid out as one dense matrix, its columns less their means where there is an
intercept, and ``kernels/whole.py`` makes all steps by itself. x and what is returned stay in the
units of the problem.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from reshuffle.losses import named
from reshuffle.objective import Array
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.certificate import Certificate, Gap, Proof, certificate_of
from reshuffle.solvers.curves import CONSTANT, Curves, Linear
from reshuffle.solvers.finish import PRECISION, Steps, certified
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.newton import Progress, can_finish
from reshuffle.solvers.newton_bounds import Bounds

if TYPE_CHECKING:
    from reshuffle.solvers.exact import ExactProxRR

PRODUCTS = 4_000_000  # of two entries in one Hessian: a millisecond, with the solution of its model
WIDEST = 150  # unknowns: beyond, a model looks at the features that matter alone
TOGETHER = 4  # rows that the Hessian is made of at a time
STEPS = 100  # of one call at most: it is then heard whether someone wants to stop


READY: set[tuple[object, ...]] = set()
"""What the kernel has been compiled for in this process."""


def is_small(problem: object) -> bool:
    """Whether all steps are made in one call: by counts."""
    if not can_finish(problem):
        return False
    fit = cast(Problem, problem).datafit
    outputs = int(np.prod(fit.outputs))
    width = fit.features + fit.bias
    pairs = max(outputs * (outputs - 1) // 2, 1)
    return width * outputs <= WIDEST and pairs * fit.n * width**2 <= PRODUCTS


@dataclass(frozen=True, eq=False)
class Ended(Linear):
    """Where the steps of a call ended: f there, and how it went."""

    objective: float
    progress: Progress
    stuck: bool
    """Whether no step lowers P."""
    steps: int
    passes: int
    rounds: int


class Whole:
    """Newton steps on a small problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.fit = problem, problem.datafit
        self.curves = Curves(self.fit)
        self.bounds = Bounds(self.curves)

    @cached_property
    def rows(self) -> tuple[Array, Array]:
        """The rows less the means of the columns (and 1), with rows of zeros to a multiple of four."""
        fit = self.fit
        A = np.zeros((fit.n + -fit.n % TOGETHER, fit.features + fit.bias))
        inner = A[: fit.n, : fit.features]
        fit.rows.add_to(inner)
        if not fit.bias:
            return A, np.zeros(fit.features)
        centre = fit.weights @ inner / fit.n if fit.weights.size else inner.mean(axis=0)
        inner -= centre
        inner[:, np.abs(inner).max(axis=0, initial=0.0) <= CONSTANT * np.abs(centre)] = 0.0
        A[: fit.n, -1] = 1.0
        return A, centre

    @property
    def form(self) -> Form:
        """ψ and the ridge."""
        return cast(Form, self.problem.form_with_ridge)

    def prepare(self) -> float:
        """Compile, or load, the kernel where this process has not yet; the seconds it took."""
        problem, clock = self.problem, time.perf_counter()
        kind = (problem.loss.stamp, type(self.form), len(problem.shape))
        if kind in READY:
            return 0.0
        first = Whole(problem.with_datafit(problem.datafit.first()))
        with named(problem.loss):
            first.run(np.zeros(problem.shape), Progress(), 1.0, 1.0, 1)
        READY.add(kind)
        return time.perf_counter() - clock

    def run(
        self, x: Array, progress: Progress, target: float, at_zero: float, most: int = STEPS
    ) -> Ended:
        """At most so many steps from x, until P(x) - P* ≤ ``target`` is proved or no step helps.

        ``at_zero`` is f(0).
        """
        from reshuffle.kernels.whole import whole_kernel

        fit, (A, centre) = self.fit, self.rows
        shape, u = (fit.n, *fit.outputs), np.array(x)
        if fit.bias:
            u[-1] += centre @ x[:-1]
        margins, slopes, curvatures = np.empty(shape), np.empty(shape), np.empty(shape)
        g, numbers = np.zeros(u.shape), np.zeros(8)
        numbers[:3] = progress[:3]
        value, psi = whole_kernel(self.curves.stamp)(
            A, fit.targets, fit.weights, fit.loss.params, self.form, float(fit.loss.curvature), u,
            u.reshape(-1), margins, slopes, curvatures, g, g.reshape(-1), self.bounds.floor, target, at_zero, most, numbers,
        )  # fmt: skip
        if fit.bias:
            u[-1] -= centre @ u[:-1]
            g[:-1] += np.multiply.outer(centre, g[-1])
        stuck, steps, passes, rounds = (int(number) for number in numbers[4:].tolist())
        progress, value, objective = (
            Progress(*numbers[:4].tolist()),
            float(value),
            float(value + psi),
        )
        return Ended(
            u, margins, slopes, curvatures, g, value, objective, progress, bool(stuck), steps,
            passes, rounds,
        )  # fmt: skip


class WholeMethod(Method):
    """The exact method on a small set. The state: x, and what Newton steps hand on."""

    keeps_best = True

    def __init__(self, solver: ExactProxRR, problem: Problem) -> None:
        self.problem: Problem = problem
        self.solver, self.whole = solver, Whole(problem)
        self.schedule = constant
        self.certificate = Gap.name
        self.header = {
            "step": "Newton's, all in one call",
            "certificate": f"{Proof.meaning}, or {Gap.meaning}",
        }
        self._last: Ended | None = None

    def start(self, x0: Array) -> State:
        A = self.whole.rows[0].ravel()
        with np.errstate(over="ignore"):
            squares = A @ A
        if not np.isfinite(squares):
            self.problem.smoothness.require()  # which says so
        return {"x": x0.copy(), "newton": Steps().array()}

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """Newton steps until the bound is small enough, or no step lowers P."""
        steps, compiled = Steps.of(state["newton"]), self.whole.prepare()
        at_zero = abs(self._at_zero)
        least = PRECISION * at_zero
        target = max(self.solver.tol * at_zero, least)
        end = self._last = self.whole.run(state["x"], steps.progress, target, at_zero)
        steps = steps._replace(made=steps.made + end.steps, progress=end.progress)
        done = end.stuck or end.progress.bound <= least
        stalled = "no step lowers P(x) any further" if done else ""
        new = {"x": end.x, "newton": steps.array()}
        return Epoch(new, end.passes * self.problem.n, end.rounds, step, stalled, compiled)

    def certify(self, state: State) -> Check:
        """What the steps proved, or the dual point. At zero no one asks: the steps tell more, for less."""
        at, steps = self._last, Steps.of(state["newton"])
        if at is None or at.x is not state["x"]:
            known = state["x"].any()
            value = self._measure().at(state["x"]) if known else np.nan
            return Check(value, self.problem.n if known else 0, 0, state)
        bound, tol = steps.progress.bound / abs(self._at_zero), self.solver.tol
        value = certified(self.problem, self.whole.form, self._measure, at, bound, tol)
        return Check(value, 0, 0, state)

    def objective(self, state: State) -> float:
        at = self._last
        if at is not None and at.x is state["x"]:
            return at.objective
        return self.problem.objective(state["x"])

    def columns(self, state: State) -> dict[str, float]:
        return {"active": float(self.problem.features), "newton": float(state["newton"][0])}

    def _measure(self) -> Certificate:
        """The duality gap where there is one."""
        measure = certificate_of(self.problem)
        return measure if measure.name == Gap.name else Proof(self.problem)

    @cached_property
    def _at_zero(self) -> float:
        """f(0), which accuracies are relative to."""
        return self.problem.value(np.zeros(self.problem.shape)) or 1.0


def constant(epoch: int) -> float:
    """The length of Newton's steps before any search."""
    return 1.0
