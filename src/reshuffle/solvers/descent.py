"""Newton steps, one at a time or all in one call: what leads the methods that are made of them."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from reshuffle.objective import Array
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.compiling import once
from reshuffle.solvers.newton import Ended, Newton, Progress
from reshuffle.solvers.whole import Whole, is_small


class Descent(Protocol):
    """Newton steps, one or many."""

    at_once: ClassVar[bool]
    """Whether a call makes as many steps as it takes."""

    @property
    def form(self) -> Form:
        """ψ and the ridge."""
        ...

    @property
    def at_zero(self) -> float:
        """f(0)."""
        ...

    def prepare(self) -> float:
        """Compile, or load, the kernels where this process has not yet; the seconds it took."""
        ...

    def inner(self, x: Array) -> Array:
        """x in the coordinates that the steps are made in."""
        ...

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        """At most so many steps from inner(x) towards P(x) - P* ≤ ``target``; ``at_zero`` is f(0)."""
        ...


class Stepwise:
    """One step at a time, in the features that matter."""

    at_once: ClassVar[bool] = False

    def __init__(self, newton: Newton) -> None:
        self.newton, self.form = newton, newton.model.form

    @property
    def at_zero(self) -> float:
        return self.newton.problem.datafit.at_zero

    def prepare(self) -> float:
        problem = self.newton.problem

        def try_one() -> None:
            newton = Newton(problem.with_datafit(problem.datafit.first()))
            at = newton.at(newton.feasible(np.zeros(problem.shape)))
            newton.bounds.below(at, 1.0)
            newton.step(at.x, Progress(damping=1.0), 1.0, 1.0)

        return once(("newton", *problem.signature), problem.loss, try_one)

    def inner(self, x: Array) -> Array:
        return x

    def run(self, u: Array, progress: Progress, target: float, at_zero: float, most: int) -> Ended:
        move = self.newton.step(u, progress, target, at_zero)
        at, objective = move.at, move.at.value + self.newton.psi(move.at.x)
        return Ended(at, at.x, objective, move.progress, move.stuck, 1, move.passes, move.rounds)


def descent_on(problem: Problem) -> Descent:
    """Steps in one call on a small set, one at a time on others."""
    return Whole(problem) if is_small(problem) else Stepwise(Newton(problem))
