"""Small sets: Newton steps from beginning to end in one compiled call.

On a few hundred rows a step takes microseconds in the kernel and a hundred times that in the Python
around it. So the rows are laid out as one dense matrix, its columns less their means where there is an
intercept, and ``kernels/whole.py`` makes all steps by itself. x and what is returned stay in the
units of the problem.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import prod
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.datafit import Datafit
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.penalties import ability
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.compiling import once
from reshuffle.solvers.curves import CONSTANT, Curves, Linear
from reshuffle.solvers.newton import ABILITIES, Ended, Progress, can_finish
from reshuffle.solvers.newton_bounds import Bounds
from reshuffle.solvers.newton_model import loose_rows

PRODUCTS = 4_000_000  # of two entries in one Hessian: a millisecond, with the solution of its model
HESSIANS = 4  # that others need, and a quadratic does not
WIDEST = 150  # unknowns: beyond, a model looks at the features that matter alone
EPS = float(np.finfo(np.float64).eps)
TOGETHER = 4  # rows that the Hessian is made of at a time
STEPS = 100  # of one call at most: it is then heard whether someone wants to stop


def is_small(problem: object) -> bool:
    """Whether all steps are made in one call: by counts."""
    fit: Datafit | None = getattr(problem, "datafit", None)
    if fit is None or not is_small_with(fit, fit.features):
        return False
    if fit.loss.each is not None:
        penalty = cast(Problem, problem).penalty
        return all(ability(penalty, name) is not None for name in ABILITIES)
    return can_finish(problem)


def is_small_with(fit: Datafit, features: int) -> bool:
    """Whether these samples would be a small set with so many features."""
    outputs, width = prod(fit.outputs), features + fit.bias
    pairs = max(outputs * (outputs - 1) // 2, 1) if fit.loss.each is None else outputs**3
    most = PRODUCTS * (HESSIANS if fit.loss.quadratic else 1)
    return width * outputs <= WIDEST and pairs * fit.n * width**2 <= most


def side_by_side(fit: Datafit) -> Datafit:
    """The losses of all outputs as those of one, where they are a sum over the outputs: n·K of them.

    f is a mean over n and the kernel's one over n·K, so that weights are K times as large. The rows are
    left to who uses it.
    """
    each, outputs = cast(type[Loss], fit.loss.each)(), fit.outputs[0]
    weights = np.repeat(fit.weights, outputs) if fit.weights.size else np.ones(fit.n * outputs)
    targets = np.ascontiguousarray(fit.targets).reshape(-1)
    return replace(fit, targets=targets, weights=outputs * weights, loss=each, outputs=())


class Whole:
    """Newton steps on a small problem."""

    at_once: ClassVar[bool] = True

    def __init__(self, problem: Problem) -> None:
        self.problem, self.bias = problem, problem.fit_intercept
        fit = problem.datafit
        self.copies = fit.outputs[0] if fit.loss.each is not None else 1
        self.fit = side_by_side(fit) if fit.loss.each is not None else fit
        self.curves = Curves(self.fit)
        self.bounds = Bounds(self.curves)

    @cached_property
    def rows(self) -> tuple[Array, Array]:
        """The rows less the means of the columns (and 1), with rows of zeros to a multiple of four.

        Where outputs are side by side, every row once for each of them.
        """
        fit, copies = self.problem.datafit, self.copies
        A = np.zeros((fit.n + -fit.n % TOGETHER, fit.features + fit.bias))
        inner, centre = A[: fit.n, : fit.features], np.zeros(fit.features)
        fit.rows.add_to(inner)
        if fit.bias:
            total = fit.weights @ inner if fit.weights.size else np.add.reduce(inner)
            centre = total / fit.n
            inner -= centre
            dust = CONSTANT * np.abs(centre)
            for j in np.flatnonzero(np.abs(inner[0]) <= dust):
                if np.abs(inner[:, j]).max() <= dust[j]:  # a second intercept
                    inner[:, j] = 0.0
            A[: fit.n, -1] = 1.0
        if copies > 1:
            A = np.asarray(np.kron(A, np.eye(copies)), dtype=np.float64)
        return A, centre

    @property
    def form(self) -> Form:
        """ψ and the ridge."""
        return cast(Form, self.problem.form_with_ridge)

    def prepare(self) -> float:
        """Compile, or load, the kernel where this process has not yet; the seconds it took."""
        problem = self.problem
        kind = ("whole", problem.loss.stamp, type(self.form), len(problem.shape))

        def try_one() -> None:
            first = Whole(problem.with_datafit(problem.datafit.first()))
            first.run(np.zeros(problem.shape), Progress(), 1.0, 1.0, 1)

        return once(kind, problem.loss, try_one)

    def inner(self, x: Array) -> Array:
        """x in the coordinates of the kernel: the intercept is that of centred columns."""
        u = np.array(x)
        if self.bias:
            u[-1] += self.rows[1] @ x[:-1]
        return u

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most so many steps from u = inner(x), until P(x) - P* ≤ ``target`` is proved or no step helps.

        ``at_zero`` is f(0).
        """
        from reshuffle.kernels.room import paper_for, room_for
        from reshuffle.kernels.whole import whole_kernel

        fit, (A, centre), most = self.fit, self.rows, min(most, STEPS)
        shape, u = (fit.n, *fit.outputs), np.array(u)
        v = u if fit.outputs else u.reshape(-1)
        margins, slopes, curvatures = np.empty(shape), np.empty(shape), np.empty(shape)
        g, numbers = np.zeros(u.shape), np.zeros(8)
        numbers[:3] = progress.on(fit.loss)[:3]
        value, psi = whole_kernel(self.curves.stamp)(
            A, fit.targets, fit.weights, fit.loss.params, self.form, float(fit.loss.curvature),
            float(fit.loss.self_concordance), v, u.reshape(-1), margins, slopes, curvatures, g.reshape(v.shape), g.reshape(-1),
            self._loose, self.bounds.floor, target, at_zero, most, paper_for(A, shape, v),
            room_for(u.size), numbers,
        )  # fmt: skip
        x = u.copy()
        if self.bias:
            x[-1] -= centre @ u[:-1]
            g[:-1] += np.multiply.outer(centre, g[-1])
        stuck, steps, passes, rounds = (int(number) for number in numbers[4:].tolist())
        progress, value = Progress(*numbers[:4].tolist()), float(value)
        if self.bias:  # what rounding may take on the way back to the columns as they are
            lost = self._lost(x, g[-1:], float(np.max(curvatures)))
            progress = progress._replace(bound=progress.bound + lost)
        given = (self.problem.n, *self.problem.shape[1:])
        at = Linear(
            x, margins.reshape(given), slopes.reshape(given), curvatures.reshape(given), g, value
        )
        return Ended(at, u, value + float(psi), progress, bool(stuck), steps, passes, rounds)

    def _lost(self, x: Array, slope: Array, curvature: float) -> float:
        """How far f(x) may lie above f at the point of centred columns: the intercept b = b' - mᵀx is rounded.

        An intercept that is off by δ shifts all margins, so by at most ⟨slope of b, δ⟩ + (c/2)‖δ‖².
        """
        terms = np.abs(self.rows[1]) @ np.abs(x[:-1]) + np.abs(x[-1])
        shift = (len(x) + 1) * EPS * terms
        bound = self.problem.loss.curvature
        bend = bound if bound < np.inf else curvature
        return float(np.vdot(np.abs(slope), shift) + 0.5 * bend * np.vdot(shift, shift))

    @cached_property
    def _loose(self) -> NDArray[np.bool_]:
        """Rows of x that no penalty holds, where there are several outputs: see ``still``."""
        shape = self.problem.shape
        return loose_rows(self.form, shape) if len(shape) > 1 else np.empty(0, dtype=np.bool_)
