"""Newton steps on small sets, all in one call of the core.

On a few hundred rows a step takes microseconds. The rows are laid out as one dense matrix, with centred columns if
there is an intercept (``core/column_major.hpp``), and every model has all features. Arguments and results are
in the units of the problem.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar, TypeGuard

import numpy as np

from reshuffle.core import native
from reshuffle.datafit import Datafit
from reshuffle.losses.native import native_loss
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties import ability
from reshuffle.penalties.forms import native_form
from reshuffle.problem import Problem
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_steps import (
    ABILITIES,
    Ended,
    Progress,
    can_finish,
    form_of,
    run_on,
)

PRODUCTS = 40_000_000
"""The most products of two entries in the Hessian of a small set: three milliseconds. See benchmarks/NOTES.md."""
ENTRIES = 1 << 21
"""The most entries of a small set, laid out as a dense matrix: 16 MB."""
PART = 10
"""For working sets, whose features may still change, and for sparse rows, ``PRODUCTS`` is divided by this."""
HESSIANS = 4
"""Other losses need about four Hessians, a quadratic only one: it may have four times as many products."""
WIDEST = 150
"""The most unknowns of a small set: beyond this, a model of only the features that matter costs less."""
STRONG = 25.0, 100.0
"""ψ counts as strong if the gradient at zero is at most this many times its strength; the second number is for squares with more features than
rows, whose first model is f itself. See benchmarks/NOTES.md."""
TALL = 2
"""With more rows than this for each feature, an epoch over sparse rows, or with several outputs, costs less than a model."""
LIGHT = 6e5
"""The most nanoseconds of a light Newton step: the few steps needed take as long as twenty epochs on such a set and their certificates."""
UNITS = 1000
"""The most rows times outputs of a strongly held set with several outputs: its models may get about as many coordinates."""
SHORT = 1 << 15
"""The most stored values of strongly held sparse rows: with more, epochs find the features that matter sooner."""
STEPS = 100
"""The most steps of one call; between two calls a run can be interrupted."""


def is_small(problem: FiniteSum, part: int = 1) -> TypeGuard[Problem]:
    """Whether all steps are made in one call: decided by counts, with ``PRODUCTS`` divided by ``part``."""
    fit = problem.datafit
    if fit is None or not is_small_with(fit, fit.features, part):
        return False
    if fit.loss.each is not None:
        return all(ability(problem.penalty, name) is not None for name in ABILITIES)
    return can_finish(problem)


def is_small_with(fit: Datafit, features: int, part: int = PART) -> bool:
    """Whether these samples would be a small set with this many features."""
    outputs, width = prod(fit.outputs), features + fit.bias
    apart = fit.loss.each is None
    pairs = max(outputs * (outputs - 1) // 2, 1) if apart else outputs**3
    most = PRODUCTS // (part if fit.rows.dense else PART)
    most *= HESSIANS if fit.loss.quadratic and apart else 1
    entries = fit.n * width * (1 if apart else outputs**2)
    few = width * outputs <= WIDEST and entries <= ENTRIES
    return few and pairs * fit.n * width**2 <= most


def is_light(problem: FiniteSum) -> TypeGuard[Problem]:
    """Whether all steps are Newton's because each is light even in all features, as on a few thousand short sparse rows.

    One call makes all of them, so Python code around a step costs nothing. With more features than rows a model may
    take many sweeps, which no count predicts.
    """
    fit = problem.datafit
    if fit is None or fit.outputs or fit.features > min(fit.n, WIDEST) or not can_finish(problem):
        return False
    step = costs.newton(problem, np.zeros(fit.shape), 1.0, fit.features) - costs.STEP_CALLS
    return step <= LIGHT


def is_strongly_held(problem: FiniteSum) -> TypeGuard[Problem]:
    """Whether all steps are Newton's on a set that is not small, because ψ will hold most features at zero.

    It does if no gradient exceeds its strength more than ``STRONG`` times where only the intercept has been fitted (for ℓ1 λ ≥ λ_max/25, or
    λ_max/100): models then have a few hundred features, found by their own working sets. With smaller strengths epochs find them
    sooner.
    """
    fit = problem.datafit
    if fit is None or not (_passes_are_cheap(fit) or fit.n <= TALL * fit.features):
        return False
    if fit.outputs and fit.n * prod(fit.outputs) > UNITS:
        return False
    if not fit.rows.dense and fit.rows.stored > SHORT:
        return False
    held = ability(problem.penalty, "holds_at_zero")
    if held is None or not can_finish(problem):
        return False
    g = fit.gradient(np.zeros(fit.shape), 1.0 / fit.n)
    if fit.bias and not fit.outputs:  # all rows have about the same curvature at zero
        g[:-1] -= g[-1] * fit.column_means()
    strength = STRONG[int(fit.loss.quadratic and fit.n < fit.features)]
    return bool(np.all(held(g[: fit.features], strength)))


def _passes_are_cheap(fit: Datafit) -> bool:
    """Whether the passes of a Newton step cost much less than epochs: dense rows are read in storage order several at a time."""
    return fit.rows.dense and not fit.outputs


class CompiledNewton:
    """Newton steps on a small problem, all in one call of the core."""

    at_once: ClassVar[bool] = True

    def __init__(self, problem: Problem) -> None:
        self.problem, fit = problem, problem.datafit
        self.form = form_of(problem)
        each = fit.loss.each
        loss = fit.loss if each is None else each()
        self._native = native_form(self.form)
        self._system = native.ColumnMajor(
            fit.core, None if each is None else native_loss(loss, False),
            float(loss.curvature), float(loss.self_concordance), loss.quadratic,
        )  # fmt: skip
        fit.raise_own_errors()

    @property
    def at_zero(self) -> float:
        return float(self._system.at_zero)

    def inner(self, x: Array) -> Array:
        """x in the coordinates of the core: the intercept is that of centred columns."""
        u = np.array(x)
        if self.problem.fit_intercept:
            self._system.inner(u.reshape(len(u), -1))
        return u

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most ``most`` steps from u = inner(x), until P(x) - P* ≤ ``target`` is proved or no step helps."""
        fit = self.problem.datafit
        shapes, most = (fit.shape, (fit.n, *fit.outputs)), min(most, STEPS)
        end = run_on(self._system, self._native, shapes, u, progress, target, at_zero, most)
        fit.raise_own_errors()
        return end
