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

from reshuffle.objective import Array
from reshuffle.penalties import Able, ability
from reshuffle.penalties.forms import Coordinates
from reshuffle.problem import Problem
from reshuffle.solvers.curves import Bend, Curves, Linear
from reshuffle.solvers.newton_bounds import Below, Bounds
from reshuffle.solvers.newton_model import Model, Step

ARMIJO = 0.1  # of the promised decrease, that a step has to keep
NEAR = 100.0  # times the tolerance: a decrease from where on curvatures are taken from below
CLOSE = 1e-8  # of the tolerance: a decrease that is not expected to be smaller than this
EPS = float(np.finfo(np.float64).eps)
ROUNDING = 16.0 * EPS  # of P: the error of one evaluation, with room for sums over many rows
LEAST = 1e-3  # damping to begin with, of the largest curvature of the loss
STRAIGHT = 0.9  # of the promise kept: the line is straight, go on along it
NO_MORE = 0.01  # of the model's decrease: below this damping does nothing
TRACE = 0.01  # of the rounding of P: gains that no one can see
SHORT = 0.2  # a step shorter than this share of the model's: the model promised too much
SPARE = 10.0  # times what the last round gained: what the next ones might
ROUGH = 1e-3  # of a model's decrease, that its last round may gain: far from the end, near enough
FINE = 1e-10  # the same for a model that has to prove something
TRIALS = 60  # halvings of a step
ABILITIES = ("compiled", "part", "excess", "together")
"""What a penalty must be able to do."""


class Progress(NamedTuple):
    """Numbers that one step hands to the next: part of the state of a run."""

    damping: float = 0.0
    """Of the largest curvature of the loss, added to every row."""
    expected: float = np.inf
    """The decrease that the next model is expected to have."""
    seen: float = 0.0
    """Whether a model from below was made at this point without need."""
    bound: float = np.inf
    """On P(x) - P*; infinite where nothing was proved at this x."""


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


class Newton:
    """Newton steps on one problem, whose loss has a second derivative and whose penalty is able."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.penalty = problem, cast(Able, problem.penalty)
        self.curves = Curves(problem.datafit)
        self.model = Model(self.curves, self.penalty, problem.ridge)
        self.bounds, self.rounds = Bounds(self.curves), 0
        self._last: Linear | None = None

    def at(self, x: Array) -> Linear:
        """f at x; what the last step left is not computed again."""
        if self._last is None or not np.array_equal(self._last.x, x):
            self._last = self.curves.linearise(x)
        return self._last

    def step(self, x: Array, progress: Progress, target: float) -> Move:
        """One step from x, by as many models as it takes; ``target`` is the bound that is wanted."""
        x = self.feasible(x)
        if progress != Progress():  # the pass at x was counted with the step that led to it
            self.at(x)
        passes, rounds = self.curves.passes, self.rounds
        with np.errstate(over="ignore", invalid="ignore"):  # trial points may lie far out
            at, progress, stuck = self._step(self.at(x), progress, target)
        passes, rounds = self.curves.passes - passes, self.rounds - rounds
        return Move(at, progress, stuck, passes, rounds)

    def _step(self, at: Linear, progress: Progress, target: float) -> tuple[Linear, Progress, bool]:
        objective = at.value + self.psi(at.x)
        while True:
            below = self._below(at, progress, target)
            step = self._minimum(at, below, progress, objective)
            t = self._search(at, step, objective)
            before, bound = objective, np.inf
            if t > 0.0:
                at = self._last = self.curves.linearise(self._moved(at.x, step.d, t))
                objective = at.value + self.psi(at.x)
                progress = self._adapted(progress, step, t, before - objective, below is not None)
            if below is not None and self.bounds.proves(step, below, target):
                left = max(step.decrease - (before - objective), 0.0) + SPARE * step.left
                bound = left + ROUNDING * abs(before)
            bound = min(bound, max(objective - self.bounds.floor, 0.0) + ROUNDING * abs(objective))
            further = None if t > 0.0 or bound <= target else self._another(progress, step.decrease)
            if further is None:
                return at, progress._replace(bound=bound), t == 0.0
            progress = further

    def psi(self, x: Array) -> float:
        """ψ(x) + (ridge/2)‖x‖²."""
        x = x[: self.problem.features]
        return self.penalty.value(x) + 0.5 * self.problem.ridge * float(np.sum(x * x))

    def feasible(self, x: Array) -> Array:
        """x within the bounds of the penalty, where it has some."""
        form = self.model.form
        if not isinstance(form, Coordinates):
            return x
        new = x.copy()
        flat = new.reshape(-1)[: form.l1.size]
        np.clip(flat, form.low, form.high, out=flat)
        return new

    def _moved(self, x: Array, d: Array, t: float) -> Array:
        """x + td; within the bounds in spite of rounding, where t ≤ 1 promises that."""
        new = x + t * d
        return self.feasible(new) if t <= 1.0 else new

    # --- the model -----------------------------------------------------------------------------

    def _minimum(
        self, at: Linear, below: Below | None, progress: Progress, objective: float
    ) -> Step:
        floor = TRACE * EPS * abs(objective)
        if below is None:
            damped = Bend(at.curvatures, progress.damping * self.curves.fit.loss.curvature)
            step = self.model.minimise(at, damped, ROUGH, floor, complete=False)
        else:
            step = self.model.minimise(at, below.bend, FINE, floor, complete=True)
        self.rounds += step.rounds
        return step

    def _below(self, at: Linear, progress: Progress, target: float) -> Below | None:
        """Curvatures from below, where the end may be near."""
        if progress.damping > 0.0 or not progress.expected <= NEAR * target:
            return None
        cap = min(target, max(4.0 * progress.expected, CLOSE * target))
        return self.bounds.below(at, cap)

    def _another(self, progress: Progress, decrease: float) -> Progress | None:
        """Another model at the same point that may do better than one that did not help."""
        if progress.damping == 0.0 and not progress.seen and decrease < np.inf:
            # the same, from below, for what it found
            return progress._replace(expected=decrease, seen=1.0)
        if progress.damping < 1.0:
            return progress._replace(damping=min(max(30.0 * progress.damping, LEAST), 1.0))
        return None

    # --- the step ------------------------------------------------------------------------------

    def _search(self, at: Linear, step: Step, objective: float) -> float:
        """The length of the step, 0 where none lowers P as promised."""
        x, d = at.x, step.d
        whole = self.psi(self._moved(x, d, 1.0)) - self.psi(x)
        promised = float(np.vdot(at.gradient, d)) + whole
        slack = ROUNDING * abs(objective)
        if not (promised < 0.0 and np.isfinite(promised)):
            return 0.0
        t, best, reached = 1.0, 0.0, objective
        for _ in range(TRIALS):
            value = self._along(at, step, t)
            if best > 0.0 and not value < reached:
                break
            if value <= objective + ARMIJO * t * promised:
                best, reached = t, value
                if t == 1.0:
                    return self._further(at, step, objective, reached, promised)
            elif t == 1.0 and -promised <= slack and value <= objective:
                return t
            t *= 0.5
            if -t * promised < EPS * abs(objective):
                break
        return best

    def _along(self, at: Linear, step: Step, t: float) -> float:
        """P(x + td)."""
        return self.curves.along(at, step.change, t)[0] + self.psi(self._moved(at.x, step.d, t))

    def _further(
        self, at: Linear, step: Step, objective: float, reached: float, promised: float
    ) -> float:
        """A step that met next to no curvature (half of the promise is what a parabola keeps)."""
        best = 1.0
        for _ in range(TRIALS if objective - reached > STRAIGHT * -promised else 0):
            value = self._along(at, step, 2.0 * best)
            if not value < reached:
                break
            best, reached = 2.0 * best, value
        return best

    def _adapted(
        self, progress: Progress, step: Step, t: float, gained: float, lowered: bool
    ) -> Progress:
        """Damping after a step, and the decrease that the next model is expected to have."""
        damping, fit = progress.damping, self.curves.fit
        if t < SHORT and not lowered:
            damping = min(max(4.0 * damping, LEAST), 1.0)
        elif t >= 1.0:
            damped = damping * fit.loss.curvature
            spent = 0.5 * damped * float(np.sum(self.curves.weights * (step.change**2).T))
            negligible = spent / fit.n <= NO_MORE * step.decrease
            damping = 0.0 if negligible else damping / (10.0 * t)
        known = 0.0 < step.decrease < np.inf
        off = abs(gained - step.decrease) / step.decrease if known else 1.0
        expected = min(off, 1.0) ** 2 * step.decrease if t >= 1.0 else np.inf
        return Progress(damping, expected)


def can_finish(problem: object) -> bool:
    """Whether Newton steps can be made: the loss has a second derivative, the penalty its abilities."""
    fit, penalty = getattr(problem, "datafit", None), getattr(problem, "penalty", None)
    if fit is None or type(fit.loss).second is None or penalty is None:
        return False
    return all(ability(penalty, name) is not None for name in ABILITIES)
