"""Accelerated gradient steps, where epochs hardly come nearer and no Newton step is to be had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.objective import Array, FiniteSum
from reshuffle.solvers.exact.movement_monitor import MovementMonitor
from reshuffle.solvers.fista import accelerated
from reshuffle.solvers.method import State

ENOUGH = 0.3  # of the movement: an epoch that takes away more is fast enough
RESTARTS = 2.0  # times √κ: iterations of FISTA with restarts for every factor e
PATIENCE = 20  # epochs after which the pace is believed
CHECKED = 10  # steps between two certificates, as for FISTA


@dataclass(frozen=True, eq=False)
class Acceleration:
    """FISTA on the problem of an exact run; ``momentum`` (0 where it does not run) and ``ahead`` in its state."""

    problem: FiniteSum
    largest: float
    """L of the functions that an epoch visits, and"""
    count: int
    """how many there are."""

    def is_due(self, pace: MovementMonitor, epoch: int) -> bool:
        """Whether a step comes nearer in a pass than an epoch does.

        An epoch with the step 1/(2L) leaves a share ρ ≈ 1 - nμ/(2L) of the distance, which tells μ; an
        accelerated step leaves 1 - √(μ/L_f)/c, which is less where 1 - ρ is below 2L/(c²n·L_f), with
        c = ``RESTARTS``.
        """
        known = all(0.0 < move < np.inf for move in pace.moves)
        slack = 1.0 - pace.falls() if known and epoch >= PATIENCE else np.inf
        if not slack < ENOUGH:
            return False
        rough = self.problem.smoothness.rough_L_f
        return bool(slack < 2.0 * self.largest / (RESTARTS**2 * self.count * rough))

    def step(self, state: State) -> tuple[Array, State, float]:
        """x, what else is new in the state, and the step."""
        x, momentum = state["x"], float(state["momentum"][0])
        y, momentum = (state["ahead"], momentum) if momentum > 0.0 else (x, 1.0)
        step = 1.0 / self.problem.smoothness.L_f
        x, y, momentum, warm = accelerated(self.problem, state, y, momentum, step)
        return x, warm | {"x": x, "ahead": y, "momentum": np.array([momentum])}, step
