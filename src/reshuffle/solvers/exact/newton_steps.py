"""Proximal Newton steps, with a bound on what is left: P(x) - P* ≤ bound.

The steps are made in the core (``core/newton.hpp``, which says how; ``core/lower_model.hpp`` has the proof of the bound):
on rows as they lie and working sets of features here, and on a small set laid out column by column in ``whole``.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, cast

import numpy as np

from reshuffle.core import native
from reshuffle.objective import Array
from reshuffle.penalties import ability
from reshuffle.penalties.forms import Form, native_form
from reshuffle.problem import Problem
from reshuffle.solvers.second_order import Linearisation, SecondOrder

ABILITIES = ("compiled", "part", "excess", "together")
"""What a penalty must be able to do."""


class Progress(NamedTuple):
    """Numbers that one step hands to the next: part of the state of a run."""

    damping: float = 0.0
    """Of the largest curvature of the loss, added to every row."""
    expected: float = np.inf
    """The decrease that the next model is expected to have; -inf where it is f itself."""
    seen: float = 0.0
    """Whether a model from below was made at this point without need."""
    bound: float = np.inf
    """On P(x) - P*; infinite where nothing was proved at this x."""


class Ended(NamedTuple):
    """Where one or more steps ended, and how it went."""

    at: Linearisation
    """f there."""
    inner: Array
    """The point in the coordinates that the steps are made in."""
    objective: float
    progress: Progress
    stuck: bool
    """Whether no step lowers P."""
    steps: int
    passes: int
    rounds: int
    """Of the solver of the models."""


def run_on(
    system: native.ColumnMajor | native.RowMajor, form: native.Form, shapes: tuple[tuple[int, ...], tuple[int, ...]], u: Array,
    progress: Progress, target: float, at_zero: float, most: int,
) -> Ended:  # fmt: skip
    """At most so many steps from u on a system of the core; shapes of x and of the margins."""
    u, x, g, at = np.array(u), np.empty(shapes[0]), np.empty(shapes[0]), np.empty((3, *shapes[1]))
    value, psi, damping, expected, seen, bound, stuck, steps, passes, rounds = system.run(
        form, u, x, g, at, progress, target, at_zero, most
    )
    linear = Linearisation(x, at[0], at[1], at[2], g, value)
    then = Progress(damping, expected, seen, bound)
    return Ended(linear, u, value + psi, then, stuck, steps, passes, rounds)


class Newton:
    """Newton steps on one problem, whose loss has a second derivative and whose penalty is able.

    A step looks at the features that matter.
    """

    at_once: ClassVar[bool] = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.form = cast(Form, problem.form_with_ridge)
        self.curves = SecondOrder(problem.datafit)
        self._native = native_form(self.form)
        self._last: Linearisation | None = None

    @property
    def at_zero(self) -> float:
        return self.problem.datafit.at_zero

    def at(self, x: Array) -> Linearisation:
        """f at x; what the last step left is not computed again."""
        if self._last is None or not np.array_equal(self._last.x, x):
            self._last = self.curves.linearise(x)
        return self._last

    def inner(self, x: Array) -> Array:
        return x

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most so many steps from u, by as many models as it takes, until P(x) - P* ≤ ``target`` is proved.

        ``at_zero`` is f(0). A call that has done much work ends after a step, to be gone on with.
        """
        fit = self.problem.datafit
        system, shapes = self.curves.system, (fit.shape, (fit.n, *fit.outputs))
        end = run_on(system, self._native, shapes, u, progress, target, at_zero, most)
        fit.raise_own_errors()
        self._last = end.at
        return end


def can_step(problem: Problem) -> bool:
    """Whether steps of second order can be made, by ``second`` or, for a sum over outputs, by that of ``each``."""
    fit, penalty = problem.datafit, problem.penalty
    second = type(fit.loss).second is not None or fit.loss.each is not None
    return second and all(ability(penalty, name) is not None for name in ABILITIES)


def can_finish(problem: object) -> bool:
    """Whether Newton steps can be made: the loss has a second derivative, the penalty its abilities.

    That of a sum of squares over the outputs is known.
    """
    fit, penalty = getattr(problem, "datafit", None), getattr(problem, "penalty", None)
    if fit is None or penalty is None:
        return False
    if type(fit.loss).second is None and not (fit.loss.each is not None and fit.loss.quadratic):
        return False
    return all(ability(penalty, name) is not None for name in ABILITIES)
