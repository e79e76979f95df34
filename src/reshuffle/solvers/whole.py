"""Small sets: Newton steps from beginning to end in one compiled call.

On a few hundred rows a step takes microseconds in the kernel and a hundred times that in the Python
around it. So the rows are laid out as one dense matrix, its columns less their means where there is an
intercept, and ``kernels/whole.py`` makes all steps by itself. x and what is returned stay in the
units of the problem.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import cast

import numpy as np

from reshuffle.losses import named
from reshuffle.objective import Array
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.compiling import announced
from reshuffle.solvers.curves import CONSTANT, Curves, Linear
from reshuffle.solvers.newton import Ended, Progress, can_finish
from reshuffle.solvers.newton_bounds import Bounds

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
        with named(problem.loss), announced():
            first.run(np.zeros(problem.shape), Progress(), 1.0, 1.0, 1)
        READY.add(kind)
        return time.perf_counter() - clock

    def run(self, x: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most so many steps from x, until P(x) - P* ≤ ``target`` is proved or no step helps.

        ``at_zero`` is f(0).
        """
        from reshuffle.kernels.room import paper_for, room_for
        from reshuffle.kernels.whole import whole_kernel

        fit, (A, centre), most = self.fit, self.rows, min(most, STEPS)
        shape, u = (fit.n, *fit.outputs), np.array(x)
        if fit.bias:
            u[-1] += centre @ x[:-1]
        margins, slopes, curvatures = np.empty(shape), np.empty(shape), np.empty(shape)
        g, numbers = np.zeros(u.shape), np.zeros(8)
        numbers[:3] = progress[:3]
        value, psi = whole_kernel(self.curves.stamp)(
            A, fit.targets, fit.weights, fit.loss.params, self.form, float(fit.loss.curvature), u,
            u.reshape(-1), margins, slopes, curvatures, g, g.reshape(-1), self.bounds.floor, target, at_zero, most, paper_for(A, shape, u), room_for(u.size), numbers,
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
        at = Linear(u, margins, slopes, curvatures, g, value)
        return Ended(at, objective, progress, bool(stuck), steps, passes, rounds)
