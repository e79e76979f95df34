"""Reviews all features: renews the slopes at x, brings features back, and certifies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from reshuffle.penalties import ability
from reshuffle.penalties.inexact import COLD
from reshuffle.solvers.certificate import FreeCoordinates
from reshuffle.solvers.exact.movement_monitor import OFTEN, SQUARE, STEEPEST
from reshuffle.solvers.exact.newton_bound import certified
from reshuffle.solvers.exact.newton_steps import NewtonSteps, can_finish
from reshuffle.solvers.exact.state import ExactState
from reshuffle.solvers.exact.view import RunContext
from reshuffle.solvers.method import Check


def renewed(run: RunContext, state: ExactState) -> ExactState:
    """The state with slopes at x, and with the features that matter there. The point keeps the slopes."""
    sets, old = run.sets, state.active
    slopes, g = state.point.slopes_on(sets, old)
    active, missing = sets.choose(state.x, g, old)
    monitor = state.monitor.unsettled()
    monitor = monitor._replace(rarity=OFTEN if missing else OFTEN * monitor.rarity)
    change = sets.restrict(g, old) - state.g
    q = sets.extend(state.q + change, old)  # h is kept where it is known
    return replace(
        state, g=sets.restrict(g, active), q=sets.restrict(q, active), table=run.table.table(slopes),
        active=active, monitor=monitor,
    )  # fmt: skip


def certify(run: RunContext, state: ExactState) -> Check:
    """The certificate at x, from a pass that renews the slopes and their mean.

    There is no pass after a Newton step in all features, or a step of another phase that computed the slopes.
    """
    unfinished, everything = state.newton.unfinished, state.active.size == run.sets.size
    if unfinished and everything:
        return Check(_newton_certificate(run, state), 0, 0, state)
    if state.point.whole:
        return Check(run.gap(state.point), 0, 0, state)
    if not state.x.any() and any(phase.skips_zero(run) for phase in run.phases):
        return Check(np.nan, 0, 0, state)  # first steps are cheaper and say more
    if _moves_from_zero(run, state):
        state = replace(state, monitor=state.monitor.unsettled())
        return Check(np.nan, run.problem.n, 0, state)
    new, value = renewed(run, state), partial(state.point.value_on, run.sets, state.active)
    slopes, g = state.point.slopes_on(run.sets, state.active)
    start = COLD if state.warm is None else state.warm.start
    gap = run.measure.from_slopes(state.x, slopes, g, value, start)
    if unfinished and gap > run.solver.tol and new.active.size == state.active.size:
        new, gap = _screened(run, new, gap)
    steepest = STEEPEST if run.has_outputs_with_ridge else SQUARE
    monitor = new.monitor.after_check(gap, run.solver.tol, steepest)
    return Check(gap, run.problem.n, 0, replace(new, monitor=monitor))


def _newton_certificate(run: RunContext, state: ExactState) -> float:
    """The smaller of the bounds of the last Newton step, in all features, and of the dual point."""
    problem, at = run.problem, state.point.linearisation
    if not can_finish(problem):
        return np.inf
    if at is None or at.x.shape != problem.shape:  # a resumed run, or one whose features came back
        at = run.tool(NewtonSteps, problem).second_order.linearise(state.x)
        state.point.linearisation = at
    bound, tol = state.newton.progress.bound / run.at_zero, run.solver.tol
    return certified(problem, lambda: run.measure, at, bound, tol)


def _moves_from_zero(run: RunContext, state: ExactState) -> bool:
    """Whether the run has not begun, x is zero, and the gradient there shows that zero is not the minimiser."""
    started = state.monitor.moves[-1] < np.inf or any(state.made.values())
    if started or state.x.any() or run.solver.check_every or run.sets.wide:
        return False
    holds = ability(run.problem.penalty, "holds_at_zero")
    if holds is None:
        return False
    _, g = state.point.slopes_on(run.sets, run.sets.everything)
    return not bool(np.all(holds(g[: run.problem.features])))


def _screened(run: RunContext, state: ExactState, gap: float) -> tuple[ExactState, float]:
    """Decide which features may stay inactive, from a bound on P(x) - P* in the active ones.

    If all others are certain to be zero at the minimiser, the bound holds for all features; otherwise those that are not certain become active.
    """
    sets, newton, bound = run.sets, state.newton, state.newton.progress.bound
    slopes, g = state.point.slopes_on(sets, state.active)
    q = sets.extend(state.q, state.active)
    if newton.stuck < np.inf or not run.trusts_bounds:
        return replace(state, active=sets.everything, g=g, q=q), gap
    if bound > run.solver.tol * run.at_zero:
        return state, gap  # the Newton steps are not finished
    active = sets.add(state.active, g, bound)
    if active.size == state.active.size:
        free = FreeCoordinates(run.problem)
        return state, min(gap, free.believed(bound / run.at_zero, slopes, g))
    g, q = sets.restrict(g, active), sets.restrict(q, active)
    return replace(state, active=active, g=g, q=q), gap
