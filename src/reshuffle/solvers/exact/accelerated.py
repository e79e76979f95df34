"""Accelerated gradient steps, where epochs hardly come nearer and no Newton step can be made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reshuffle.objective import Array, FiniteSum
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.view import View
from reshuffle.solvers.fista import accelerated

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

ENOUGH = 0.3
"""An epoch that takes away more than this share of the movement is fast enough."""
RESTARTS = 2.0
"""FISTA with restarts takes this many times √κ iterations for every factor e."""
PATIENCE = 20
"""Epochs after which the movement is believed."""
CHECKED = 10
"""Steps between two certificates, as for FISTA."""


class Accelerated(Phase):
    """Iterations of FISTA in all features; the state has their momentum θ and their extrapolated point."""

    name: ClassVar[str] = "accelerated"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        return solver.own_step

    def ready(self, view: View) -> bool:
        """Whether a step comes nearer in a pass than an epoch does; once begun, until another phase acts.

        An epoch with the step 1/(2L) leaves a share ρ ≈ 1 - nμ/(2L) of the distance, which tells μ; an
        accelerated step leaves 1 - √(μ/L_f)/c, which is less where 1 - ρ is below 2L/(c²n·L_f), with
        c = ``RESTARTS``.
        """
        if view.state.momentum > 0.0:
            return True
        if "newton_cg" in view.run.names:
            return False  # its steps go further, and take turns with epochs
        run, monitor = view.run, view.state.monitor
        known = all(0.0 < move < np.inf for move in monitor.moves)
        slack = 1.0 - monitor.falls() if known and view.epoch >= PATIENCE else np.inf
        if not slack < ENOUGH:
            return False
        rough = run.problem.smoothness.rough_L_f
        return bool(slack < 2.0 * run.largest / (RESTARTS**2 * run.table.count * rough))

    def step(self, view: View) -> Outcome:
        """One iteration. The slopes are renewed by the next certificate."""
        state, problem = view.state, view.run.problem
        begun, step = state.momentum > 0.0, 1.0 / problem.smoothness.L_f
        y, momentum = (state.ahead, state.momentum) if begun else (state.x, 1.0)
        x, y, momentum, warm = accelerated(problem, state.warm, state.x, y, momentum, step)
        if not begun:
            zero = np.zeros(problem.shape)
            state = replace(state, active=view.run.sets.everything, g=zero, q=zero)
        monitor = state.monitor.moved(distance(x, state.x))
        new = replace(state, point=Point(x), ahead=y, momentum=momentum, warm=warm, monitor=monitor)
        return Outcome(new, problem.n, 1, step)


def distance(x: Array, y: Array) -> float:
    """‖x - y‖, infinite where a step was far too large."""
    if not np.isfinite(x).all():
        return np.inf
    return float(np.sqrt(np.vdot(x - y, x - y)))
