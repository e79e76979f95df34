"""Proximal Newton steps, with a bound on what is left: P(x) - P* ≤ bound.

Each step minimises the quadratic model of f with ψ as it is (``newton_model``) and searches along the
line to that point, where P needs the margins alone. Far from the end models are rough; near it their
curvatures lie below those of P, and a step proves how far P can still fall (``newton_bounds``).
Where the model promises too much, curvature of the loss's bound is added to every row: damping in
the metric of the rows, which no scale of columns changes.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.penalties import Able, ability
from reshuffle.problem import Problem
from reshuffle.solvers.curves import Bend, Linear
from reshuffle.solvers.newton_bounds import Below, Bounds
from reshuffle.solvers.newton_model import Model, Step, within
from reshuffle.solvers.outputs import curves_of

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

    def on(self, loss: Loss) -> Progress:
        """What a step on this loss begins with: where f is a quadratic, the model is f itself."""
        return self._replace(expected=-np.inf) if loss.quadratic else self


class Move(NamedTuple):
    """What a Newton step did."""

    at: Linear
    """f at the new point."""
    progress: Progress
    stuck: bool
    """Whether no model at this point has a step that lowers P."""
    passes: int
    rounds: int
    """Of the solver of the models."""


class Ended(NamedTuple):
    """Where one or more steps ended, and how it went."""

    at: Linear
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


class Newton:
    """Newton steps on one problem, whose loss has a second derivative and whose penalty is able."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.penalty = problem, cast(Able, problem.penalty)
        self.curves = curves_of(problem.datafit)
        self.model = Model(self.curves, self.penalty, problem.ridge)
        self.bounds, self.rounds = Bounds(self.curves), 0
        self.last: Linear | None = None

    def at(self, x: Array) -> Linear:
        """f at x; what the last step left is not computed again."""
        if self.last is None or not np.array_equal(self.last.x, x):
            self.last = self.curves.linearise(x)
        return self.last

    def step(self, x: Array, progress: Progress, target: float, at_zero: float) -> Move:
        """One step from x, by as many models as it takes.

        ``target`` is the bound that is wanted, ``at_zero`` f(0).
        """
        x = self.feasible(x)
        if progress != Progress():  # the pass at x was counted with the step that led to it
            self.at(x)
        passes, rounds = self.curves.passes, self.rounds
        at, progress, stuck = self._step(self.at(x), progress, target, at_zero)
        passes, rounds = self.curves.passes - passes, self.rounds - rounds
        return Move(at, progress, stuck, passes, rounds)

    def _step(
        self, at: Linear, progress: Progress, target: float, at_zero: float
    ) -> tuple[Linear, Progress, bool]:
        from reshuffle.kernels.progress import adapted, another, from_below
        from reshuffle.kernels.search import ROUNDING
        from reshuffle.kernels.whole import SPARE

        psi = self.psi(at.x)
        objective = at.value + psi
        progress = progress.on(self.problem.loss)
        while True:
            cap = from_below.py_func(*progress[:2], target, at_zero, self.problem.n)
            below = self.bounds.below(at, cap) if cap > 0.0 else None
            extra = 0.0 if below else progress.damping * self.curves.largest(at)
            step = self._minimum(at, below, extra, objective)
            t, to = self.curves.search(at, step.d, step.change, self.model.form, psi)
            now, bound = objective, np.inf
            if t > 0.0:
                at = self.last = self.curves.linearise(to)
                now = at.value + self.psi(at.x)
                spent = 0.5 * extra * self.curves.mean_square(step.change)
                progress = Progress(
                    *adapted.py_func(
                        progress.damping,
                        step.decrease,
                        t,
                        objective - now,
                        below is not None,
                        spent,
                    )
                )
            if below is not None and self.bounds.proves(step, below, target):
                left = max(step.decrease - (objective - now), 0.0) + SPARE * step.left
                bound = left + ROUNDING * abs(objective)
            bound = min(bound, max(now - self.bounds.floor, 0.0) + ROUNDING * abs(now))
            if t > 0.0 or bound <= target:
                return at, progress._replace(bound=bound), t == 0.0
            again, *numbers = another.py_func(*progress[:3], step.decrease)
            if not again:
                return at, progress._replace(bound=bound), True
            progress = Progress(*numbers)

    def psi(self, x: Array) -> float:
        """ψ(x) + (ridge/2)‖x‖²."""
        x = x[: self.problem.features]
        return self.penalty.value(x) + 0.5 * self.problem.ridge * float(np.sum(x * x))

    def feasible(self, x: Array) -> Array:
        """x within the bounds of the penalty, where it has some."""
        return within(self.model.form, x)

    # --- the model -----------------------------------------------------------------------------

    def _minimum(self, at: Linear, below: Below | None, extra: float, objective: float) -> Step:
        from reshuffle.kernels.search import EPS
        from reshuffle.kernels.whole import FINE, ROUGH, TRACE

        floor = TRACE * EPS * abs(objective)
        if below is None:
            damped = Bend(at.curvatures, extra)
            step = self.model.minimise(at, damped, ROUGH, floor, complete=False)
        else:
            step = self.model.minimise(at, below.bend, FINE, floor, complete=True)
        self.rounds += step.rounds
        return step


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
