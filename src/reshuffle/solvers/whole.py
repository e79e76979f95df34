"""Small sets: Newton steps from beginning to end in one compiled call.

On a few hundred rows a step takes microseconds in the kernel and a hundred times that in the Python
around it. So the rows are laid out as one dense matrix, its columns less their means where there is an
intercept, and ``kernels/whole.py`` makes all steps by itself. x and what is returned stay in the
units of the problem.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.datafit import Datafit
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.penalties import ability
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.compiling import once
from reshuffle.solvers.curves import Curves, Linear
from reshuffle.solvers.newton import ABILITIES, Ended, Progress, can_finish
from reshuffle.solvers.newton_model import loose_rows

PRODUCTS = 40_000_000  # of two entries in one Hessian: three milliseconds. See benchmarks/NOTES.md
ENTRIES = 1 << 21  # of the rows laid out: 16 MB
PART = 10  # times fewer products, in a working set, whose features may still change, and of sparse rows
HESSIANS = 4  # that others need, and a quadratic does not
WIDEST = 150  # unknowns: beyond, a model looks at the features that matter alone
STEPS = 100  # of one call at most: it is then heard whether someone wants to stop


def is_small(problem: object, part: int = 1) -> bool:
    """Whether all steps are made in one call: by counts, of so many times fewer products."""
    fit: Datafit | None = getattr(problem, "datafit", None)
    if fit is None or not is_small_with(fit, fit.features, part):
        return False
    if fit.loss.each is not None:
        penalty = cast(Problem, problem).penalty
        return all(ability(penalty, name) is not None for name in ABILITIES)
    return can_finish(problem)


def is_small_with(fit: Datafit, features: int, part: int = PART) -> bool:
    """Whether these samples would be a small set with so many features."""
    outputs, width = prod(fit.outputs), features + fit.bias
    apart = fit.loss.each is None
    pairs = max(outputs * (outputs - 1) // 2, 1) if apart else outputs**3
    most = PRODUCTS // (part if fit.rows.dense else PART)
    most *= HESSIANS if fit.loss.quadratic and apart else 1
    entries = fit.n * width * (1 if apart else outputs**2)
    few = width * outputs <= WIDEST and entries <= ENTRIES
    return few and pairs * fit.n * width**2 <= most


def side_by_side(fit: Datafit) -> Datafit:
    """The losses of all outputs as those of one, where they are a sum over the outputs: n·K of them.

    f is a mean over n and the kernel's one over n·K, so that weights are K times as large. The rows are
    left to who uses it.
    """
    each, outputs = cast(type[Loss], fit.loss.each)(), fit.outputs[0]
    weights = np.repeat(fit.weights, outputs) if fit.weights.size else np.ones(fit.n * outputs)
    targets = np.ascontiguousarray(fit.targets).reshape(-1)
    return replace(fit, targets=targets, weights=outputs * weights, loss=each, outputs=())


class Laid(NamedTuple):
    """A small set, laid out."""

    T: Array
    """A column of the set in each row: less its mean, and with ones in the last, where there is an intercept."""
    centre: Array
    """These means, none without an intercept."""
    at_zero: float
    """f(0)."""
    floor: float
    """A bound from below on all losses, so on P; -inf where there is none."""


class Whole:
    """Newton steps on a small problem."""

    at_once: ClassVar[bool] = True

    def __init__(self, problem: Problem) -> None:
        self.problem, self.bias = problem, problem.fit_intercept
        fit = problem.datafit
        self.copies = fit.outputs[0] if fit.loss.each is not None else 1
        self.fit = side_by_side(fit) if fit.loss.each is not None else fit
        self.curves = Curves(self.fit)

    @cached_property
    def laid(self) -> Laid:
        """The rows as the kernel reads them; where outputs are side by side, every row once for each of them."""
        from reshuffle.kernels.laid import lay_kernel

        fit, losses = self.problem.datafit, self.fit
        T = np.zeros((fit.features + fit.bias, fit.n))
        # The column of an intercept, also where no feature is left whose mean it takes up.
        T[fit.features :] = 1.0
        centre, outputs = np.empty(fit.features if fit.bias else 0), losses.outputs
        fit.rows.add_to(T[: fit.features].T)
        value, least = lay_kernel(losses.stamp, losses.loss.conjugate is not None)(
            T, fit.weights, centre, losses.targets, losses.weights, losses.loss.params,
            np.zeros((losses.n, *outputs)), np.empty((1, *outputs)),
        )  # fmt: skip
        if self.copies > 1:
            T = np.asarray(np.kron(T, np.eye(self.copies)), dtype=np.float64)
        return Laid(T, centre, value / losses.n, least / losses.n)

    @property
    def at_zero(self) -> float:
        return self.laid.at_zero

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
            u[-1] += self.laid.centre @ x[:-1]
        return u

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most so many steps from u = inner(x), until P(x) - P* ≤ ``target`` is proved or no step helps.

        ``at_zero`` is f(0).
        """
        from reshuffle.kernels.room import pad_for, rented
        from reshuffle.kernels.whole import whole_kernel

        fit, loss, (T, centre, _, floor) = self.fit, self.fit.loss, self.laid
        u, shape = np.array(u), (fit.n, *fit.outputs)
        x, g, v = np.empty(u.shape), np.empty(u.shape), u if fit.outputs else u.reshape(-1)
        at, numbers = np.empty((3, *shape)), np.zeros(8)
        numbers[:3] = progress.on(loss)[:3]
        value, psi = whole_kernel(self.curves.stamp)(
            T, centre, fit.targets, fit.weights, loss.params, self.form, float(loss.curvature),
            float(loss.self_concordance), v, x.reshape(v.shape), g.reshape(v.shape), np.empty(v.shape),
            np.empty((1, *shape[1:])), at, self._loose, floor, target, at_zero, min(most, STEPS),
            pad_for(len(T), shape, u.size), rented(u.size), numbers,
        )  # fmt: skip
        damping, expected, seen, bound, *counts = numbers.tolist()
        stuck, steps, passes, rounds = map(int, counts)
        margins, slopes, curvatures = at.reshape(3, self.problem.n, *self.problem.shape[1:])
        return Ended(
            Linear(x, margins, slopes, curvatures, g, value), u, value + psi,
            Progress(damping, expected, seen, bound), bool(stuck), steps, passes, rounds,
        )  # fmt: skip

    @cached_property
    def _loose(self) -> NDArray[np.bool_]:
        """Rows of x that no penalty holds, where there are several outputs: see ``still``."""
        shape = self.problem.shape
        return loose_rows(self.form, shape) if len(shape) > 1 else np.empty(0, dtype=np.bool_)
