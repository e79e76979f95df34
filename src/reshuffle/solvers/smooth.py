"""Quasi-Newton steps where ψ is smooth and a Hessian would be too large: softmax with a ridge.

scipy's L-BFGS-B does the work; a shuffled epoch goes before it, and the duality gap certifies after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from reshuffle.objective import Array
from reshuffle.penalties.forms import Coordinates
from reshuffle.problem import Problem
from reshuffle.solvers.compiling import once
from reshuffle.solvers.curves import Curves, Linear

ITERATIONS = 50  # of one call: it is then heard whether someone wants to stop


class Descended(NamedTuple):
    """What a call did."""

    at: Linear
    """f where it led."""
    gained: float
    passes: int
    iterations: int


def is_smooth(problem: Problem) -> bool:
    """Whether ψ is (l2/2)‖·‖² in every coordinate, and the loss has several outputs.

    For one output Newton steps, and those on the face, are shorter.
    """
    form = problem.form_with_ridge
    if not problem.datafit.outputs or not isinstance(form, Coordinates):
        return False
    free = np.all(form.l1 == 0.0) and np.all(form.low == -np.inf) and np.all(form.high == np.inf)
    return bool(free)


def prepare(problem: Problem) -> float:
    """Compile, or load, the one kernel where this process has not yet; the seconds it took."""
    curves = Curves(problem.datafit.first())
    kind = ("smooth", *problem.signature)
    return once(kind, problem.loss, lambda: curves.linearise(np.zeros(problem.shape)))


class QuasiNewton:
    """Calls of L-BFGS-B on one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.curves = problem, Curves(problem.datafit)
        form: Any = problem.form_with_ridge
        self.l2 = np.zeros(problem.shape)
        self.l2[: problem.features] = form.l2.reshape(problem.features, -1)
        self.last: Linear | None = None

    def descend(self, x: Array) -> Descended:
        """At most so many iterations from x."""
        before, start = self.curves.passes, self._value_and_slope(x.ravel())[0]
        found = minimize(
            self._value_and_slope, x.ravel(), jac=True, method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        self.last = self.curves.linearise(np.ascontiguousarray(found.x).reshape(x.shape))
        passes = self.curves.passes - before
        return Descended(self.last, start - float(found.fun), passes, int(found.nit))

    def _value_and_slope(self, flat: Array) -> tuple[float, Array]:
        x = np.ascontiguousarray(flat).reshape(self.problem.shape)
        at = self.curves.linearise(x)
        value = at.value + 0.5 * float(np.sum(self.l2 * x * x))
        return value, (at.gradient + self.l2 * x).ravel()
