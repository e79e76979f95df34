"""Drivers of Newton steps: one call of the core for each step, or one call for all of them."""

from __future__ import annotations

from typing import ClassVar, Protocol

from reshuffle.objective import Array
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.exact.newton_compiled import CompiledNewton, is_small
from reshuffle.solvers.exact.newton_steps import Ended, NewtonSteps, Progress


class NewtonDriver(Protocol):
    """Makes Newton steps on one problem."""

    at_once: ClassVar[bool]
    """Whether one call makes all steps."""
    form: Form
    """ψ with the ridge, as the core reads it."""

    @property
    def at_zero(self) -> float:
        """f(0)."""
        ...

    def inner(self, x: Array) -> Array:
        """x in the coordinates that the steps are made in."""
        ...

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most ``most`` steps from inner(x) towards P(x) - P* ≤ ``target``; ``at_zero`` is f(0)."""
        ...


def newton_driver(problem: Problem, at_once: bool = True) -> NewtonDriver:
    """On a small set, if ``at_once`` allows it, all steps in one call; otherwise a call for each step."""
    return CompiledNewton(problem) if at_once and is_small(problem) else NewtonSteps(problem)
