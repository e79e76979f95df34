"""Proximal Newton steps with a proved bound P(x) - P* ≤ bound.

The core makes the steps (see ``core/newton.hpp``; ``core/lower_model.hpp`` proves the bound). Here they work on rows as they are
stored, with working sets of features; ``newton_compiled`` works on a small set laid out column by column.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeGuard

import numpy as np

from reshuffle.core import native
from reshuffle.device_problem import DeviceProblem
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties import ability
from reshuffle.penalties.forms import Form, native_form
from reshuffle.problem import Problem
from reshuffle.solvers.second_order import Linearisation, SecondOrder

ABILITIES = ("compiled", "part", "excess", "together")
"""The abilities that a penalty needs for Newton steps."""


class Progress(NamedTuple):
    """Numbers that one step hands to the next: part of the state of a run."""

    damping: float = 0.0
    """The share of the loss's largest curvature that is added to every row."""
    expected: float = np.inf
    """The expected decrease of the next model; -inf if the model is f itself."""
    seen: float = 0.0
    """1 if a lower model was made at this point and did not help."""
    bound: float = np.inf
    """A bound on P(x) - P*; infinite if nothing was proved at this x."""


class Ended(NamedTuple):
    """The end of one or more Newton steps."""

    at: Linearisation
    """f at the end point."""
    inner: Array
    """The end point in the coordinates of the steps."""
    objective: float
    progress: Progress
    stuck: bool
    """Whether no step lowers P."""
    steps: int
    passes: int
    rounds: int
    """Rounds of the solver of the models."""


def run_on(
    system: native.ColumnMajor | native.RowMajor, form: native.Form, shapes: tuple[tuple[int, ...], tuple[int, ...]], u: Array,
    progress: Progress, target: float, at_zero: float, most: int,
) -> Ended:  # fmt: skip
    """At most ``most`` steps from u on a system of the core; ``shapes`` are those of x and of the margins."""
    u, x, g, at = np.array(u), np.empty(shapes[0]), np.empty(shapes[0]), np.empty((3, *shapes[1]))
    value, psi, damping, expected, seen, bound, stuck, steps, passes, rounds = system.run(
        form, u, x, g, at, progress, target, at_zero, most
    )
    linear = Linearisation(x, at[0], at[1], at[2], g, value)
    then = Progress(damping, expected, seen, bound)
    return Ended(linear, u, value + psi, then, stuck, steps, passes, rounds)


class NewtonSteps:
    """Newton steps on the rows of one problem, in the features that matter.

    The loss must have a second derivative, and the penalty the ``ABILITIES``.
    """

    at_once: ClassVar[bool] = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.form = form_of(problem)
        self.second_order = SecondOrder(problem.datafit)
        self._native = native_form(self.form)

    @property
    def at_zero(self) -> float:
        return self.problem.datafit.at_zero

    def inner(self, x: Array) -> Array:
        return x

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most ``most`` steps from u, until P(x) - P* ≤ ``target`` is proved; ``at_zero`` is f(0).

        A call that has done much work ends after a step, and the next call continues from there.
        """
        fit = self.problem.datafit
        system, shapes = self.second_order.system, (fit.shape, (fit.n, *fit.outputs))
        end = run_on(system, self._native, shapes, u, progress, target, at_zero, most)
        fit.raise_own_errors()
        return end


def form_of(problem: Problem | DeviceProblem) -> Form:
    """ψ with the ridge, as the core reads it."""
    form = problem.form_with_ridge
    if form is None:
        raise AttributeError(f"penalty {problem.penalty!r} has no compiled form")
    return form


def psi_of(problem: Problem, x: Array) -> float:
    """ψ(x) with the ridge."""
    seen = x[: problem.features]
    return problem.penalty.value(seen) + 0.5 * problem.ridge * float(np.vdot(seen, seen))


def can_step(problem: Problem) -> bool:
    """Whether second-order steps can be made: the loss has ``second``, or for a sum over outputs, ``each`` has it."""
    fit, penalty = problem.datafit, problem.penalty
    second = type(fit.loss).second is not None or fit.loss.each is not None
    return second and all(ability(penalty, name) is not None for name in ABILITIES)


def can_finish(problem: FiniteSum) -> TypeGuard[Problem]:
    """Whether Newton steps can be made: the loss has a second derivative, and the penalty has the ``ABILITIES``.

    The second derivative of a sum of squares over the outputs is known without ``second``.
    """
    fit, penalty = problem.datafit, problem.penalty
    if fit is None:
        return False
    if type(fit.loss).second is None and not (fit.loss.each is not None and fit.loss.quadratic):
        return False
    return all(ability(penalty, name) is not None for name in ABILITIES)
