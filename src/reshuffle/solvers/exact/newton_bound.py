"""The certificate after Newton steps: the smaller of their bound and the duality gap."""

from __future__ import annotations

from collections.abc import Callable

from reshuffle.problem import Problem
from reshuffle.solvers.certificate import FreeCoordinates, Measure, Proof
from reshuffle.solvers.exact.newton_steps import form_of
from reshuffle.solvers.second_order import Linearisation

TRUSTED = 1e-4
"""The bound of a model with groups is believed only if the gap, over f(0), is at most this."""


def is_separable(problem: Problem) -> bool:
    """Whether the models are solved coordinate by coordinate, which is more reliable than group by group."""
    return form_of(problem).one_by_one is not None


def certified(
    problem: Problem,
    measured: Callable[[], Measure],
    at: Linearisation,
    bound: float,
    tol: float,
) -> float:
    """The smaller of the bounds that Newton's models and the dual point prove at x, over f(0).

    Models with groups are solved less reliably than separable ones, so the gap is consulted if there is one.
    """
    separable = is_separable(problem)
    bound = FreeCoordinates(problem).believed(bound, at.slopes, at.gradient)
    if separable and bound <= tol:
        return bound
    measure = measured()
    trusted = separable or measure.meaning == Proof.meaning
    x, ridge = at.x[: problem.features], problem.ridge
    gap = measure.from_slopes(
        at.x, at.slopes, at.gradient, lambda: at.value + 0.5 * ridge * float((x * x).sum())
    )
    return min(gap, bound) if trusted or gap <= TRUSTED else gap
