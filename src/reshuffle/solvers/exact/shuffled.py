"""The phase of shuffled epochs with control variates, the core of the exact method."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reshuffle.objective import FiniteSum, Visits
from reshuffle.orders import is_fixed, order_on, visits_of
from reshuffle.solvers.exact.accelerated import distance
from reshuffle.solvers.exact.movement_monitor import MovementMonitor
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.review import renewed
from reshuffle.solvers.exact.state import ExactState
from reshuffle.solvers.exact.view import View
from reshuffle.solvers.slope_table import SlopeState, SlopeTable

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

TENFOLD = 10.0
"""The factor by which the step falls in a first epoch from zero."""
EPOCH_BITS = 40
"""An epoch may draw up to 2^EPOCH_BITS random numbers."""
RISE = 0.01
"""P may rise above its value at the start, or above its last computed value, by this share of f(0) before an epoch is undone, and
by ``GROWTH`` times what the last certificate left of P(x) - P*."""
GROWTH = 2.0
"""If the movement grows by this factor from one epoch to the next, the objective is checked."""


class ShuffledEpoch(Phase):
    """All functions once in shuffled order, with a prox after each block (see ``ExactProxRR``)."""

    name: ClassVar[str] = "shuffled"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        """False for a loss without a bound on its curvature, for which no step is safe."""
        return problem.datafit is None or bool(problem.datafit.loss.curvature < np.inf)

    def cost(self, view: View) -> float:
        return view.epoch_cost

    def steps_left(self, view: View) -> float:
        return view.epochs_left

    def step(self, view: View) -> Outcome:
        """An epoch. If it ends above the start of the run, it is undone and the step is shortened."""
        run, state, sets = view.run, view.state, view.run.sets
        part, monitor, active = view.part, state.monitor, state.active
        first, blocks = view.epoch == 0 and not state.x.any(), run.blocks(view.part)
        visits, step = _visits(view), view.step * monitor.factor * _gain(view, part)
        if first:  # no slopes are known yet: an epoch of ProxRR, with a step that falls
            steps = step / np.linspace(1.0, TENFOLD, blocks)
            end = part.epoch(part.blank(view.x, state.warm), visits, steps, corrected=False)
        else:
            begin = SlopeState(view.x, state.table, state.g, state.q, state.warm)
            end = part.epoch(begin, visits, np.full(blocks, step))
        moved = distance(end.x, view.x)
        point = state.point if moved == 0.0 else Point(sets.extend(end.x, active))
        newton = state.newton.after_epoch(view.x, end.x)
        new = replace(
            state, point=point, table=end.table, g=end.g, q=end.q, warm=end.warm, newton=newton
        )

        judged = _judged(view, new, moved)
        work = visits.size + (run.problem.n if judged is not monitor else 0)
        if judged is None:
            shorter = monitor.shortened(run.safe_step / view.step)
            return Outcome(replace(state, monitor=shorter), work, blocks, step, made=0)
        longest = 2.0 * run.safe_step / run.first_step if run.solver.own_step else 1.0
        monitor = judged.after(moved, run.solver.tol, longest)
        new = replace(new, monitor=monitor)
        if active.size < sets.size and moved <= monitor.review:
            new, work = renewed(run, new), work + run.problem.n
        elif not first:
            new = sets.shrink(new, state)
            if new.active.size < active.size:
                new = replace(new, monitor=monitor.unsettled())
        return Outcome(new, work, blocks, step)


def _judged(view: View, new: ExactState, moved: float) -> MovementMonitor | None:
    """The monitor, unchanged if the run goes well; otherwise updated from the objective, which costs a pass.

    ``None`` means that the epoch ended above the start of the run, or above the last computed P. A step longer than the
    safe one is checked after its first epoch, others if the movement has grown or does not fall.
    """
    run, monitor = view.run, view.state.monitor
    untried = run.first_step > run.safe_step and monitor.moves[-1] == np.inf
    grows, steady = not moved <= GROWTH * monitor.moves[-1], 0 < monitor.moves[0] <= moved
    if not (untried or grows or steady):
        return monitor
    with np.errstate(all="ignore"):
        objective = run.objective(new)
    lowest = min(run.start_objective(new), monitor.seen)
    limit = lowest + (0.0 if untried else min(RISE, GROWTH * monitor.checked) * run.at_zero)
    if not objective < limit:
        return None
    return monitor.steady(objective) if steady else monitor._replace()


def _visits(view: View) -> Visits:
    """The order of the epoch, which depends on the seed and the epoch's number alone."""
    order = order_on(view.run.solver.order, view.part.problem.datafit)
    rng = view.run.stream.at(0 if is_fixed(order) else view.epoch << EPOCH_BITS)
    pool = np.arange(view.run.table.count, dtype=np.uint32)
    return visits_of(order, pool, rng, view.epoch)


def _gain(view: View, part: SlopeTable) -> float:
    """The factor by which the step may be longer because the rows of a working set are shorter."""
    if not view.run.solver.own_step or part is view.run.table:
        return 1.0
    return view.run.largest / part.smoothness if part.smoothness > 0 else 1.0
