"""Accelerated gradient steps, for problems on which epochs are slow and no Newton step is possible."""

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
"""Epochs that reduce the movement by more than this share are fast enough: no accelerated steps."""
RESTARTS = 2.0
"""FISTA with restarts needs this many times √κ iterations to reduce the error by a factor e."""
PATIENCE = 20
"""The movement of epochs counts as evidence after this many epochs."""
CHECKED = 10
"""Steps between two certificates, as for FISTA."""


class Accelerated(Phase):
    """Iterations of FISTA in all features; the state holds the momentum θ and the extrapolated point."""

    name: ClassVar[str] = "accelerated"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        return solver.own_step

    def ready(self, view: View) -> bool:
        """Whether a step reduces the error more than an epoch does; once begun, true until another phase acts.

        An epoch with the step 1/(2L) leaves a share ρ ≈ 1 - nμ/(2L) of the distance, which tells μ; an
        accelerated step leaves 1 - √(μ/L_f)/c, which is less if 1 - ρ is below 2L/(c²n·L_f), with
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
        """One iteration. The next certificate renews the slopes."""
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
    """‖x - y‖; infinite if it overflows, after a step that was far too long."""
    if not np.isfinite(x).all():
        return np.inf
    return float(np.sqrt(np.vdot(x - y, x - y)))
