"""Newton steps, one at a time or all in one call: what leads the methods that are made of them."""

from __future__ import annotations

from typing import ClassVar, Protocol

from reshuffle.objective import Array
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.exact.newton_compiled import Whole, is_small
from reshuffle.solvers.exact.newton_steps import Ended, Newton, Progress


class Descent(Protocol):
    """Newton steps, one or many."""

    at_once: ClassVar[bool]
    """Whether a call makes as many steps as it takes."""
    form: Form
    """ψ and the ridge."""

    @property
    def at_zero(self) -> float:
        """f(0)."""
        ...

    def inner(self, x: Array) -> Array:
        """x in the coordinates that the steps are made in."""
        ...

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most so many steps from inner(x) towards P(x) - P* ≤ ``target``; ``at_zero`` is f(0)."""
        ...


def descent_on(problem: Problem) -> Descent:
    """Steps on a small set laid out by columns, or on the rows as they lie."""
    return Whole(problem) if is_small(problem) else Newton(problem)
