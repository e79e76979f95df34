"""Newton steps as a phase, for when all of them together cost less than the epochs that are left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reshuffle.objective import FiniteSum
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.decrement import STALLED, stalled_at
from reshuffle.solvers.exact.newton_cg import FOUND, NewtonCG
from reshuffle.solvers.exact.newton_compiled import PART, STEPS, CompiledNewton, is_small
from reshuffle.solvers.exact.newton_drivers import NewtonDriver
from reshuffle.solvers.exact.newton_steps import NewtonSteps, can_finish
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.rest import PRECISION, REST
from reshuffle.solvers.exact.view import View

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

NEEDED = 3.0
"""The expected number of Newton steps from any start."""
PROVING = 2.0
"""If only Newton steps prove a bound, this many are made in any case and do not count as steps left."""
FROM_ZERO = 6.0
"""The expected number of Newton steps if no epoch was made."""
WARM = 2.0
"""The expected number of Newton steps if the run begins near the minimiser, as along a path."""
PATIENCE = 3.0
"""If epochs make no progress, a step may cost as much as this many epochs, or as the epochs made so far."""
DEARER = 3.0
"""A step may cost this many times as much as one by conjugate gradients that did not help."""
UNSETTLED = 0.5
"""If an epoch changes more than this share of the support, another epoch costs less than Newton steps from a wrong support."""
CHEAP = 4.0
"""A step that costs at most this many epochs is made in any case: it replaces the last epochs, which only certify."""
SETTLED = 2
"""A cheap step is made after this many epochs."""
LOOSEST = 1e-6
"""Models are asked to prove at least this accuracy, over f(0): farther from the minimum they prove nothing."""
ROUNDING = 1e-14
"""A fall of P by less than this share of P may be rounding."""


@dataclass(frozen=True)
class Newton(Phase):
    """Proximal Newton steps in the active features, with a bound on P(x) - P*.

    ``at_once`` allows all steps in one call of the core if the set is small in the active features.
    """

    name: ClassVar[str] = "newton"
    proves: ClassVar[bool] = True
    at_once: bool = True

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        return can_finish(problem)

    def unfinished(self, view: View) -> bool:
        """Whether the next step continues the last one. If features came back, the chooser decides on a costly step again."""
        newton = view.state.newton
        if not newton.unfinished or (view.resting and view.newton_cost == np.inf):
            return False
        same = newton.width == view.state.active.size
        return same or self._is_small(view) or self._in_epochs(view) <= CHEAP

    def ready(self, view: View) -> bool:
        """False while second-order steps rest; if epochs make no progress, only a step that costs few epochs is ready."""
        if view.resting:
            return False
        if view.wants_proof or self._is_small(view):
            return True
        if self._gains_by_waiting(view):
            return False
        if view.epochs_left < np.inf:
            return True
        made = (
            self._epochs_of_cg(view)
            + view.epoch
            + (view.second_order_steps if view.led_by_lbfgs else 0)
        )
        patient = self._in_epochs(view) <= max(PATIENCE, made)
        return patient or self._replaces_cg(view) or self._follows_cg(view)

    def cost(self, view: View) -> float:
        return view.newton_cost

    def steps_left(self, view: View) -> float:
        """The expected number of steps; near the end, each step squares the accuracy.

        Zero if a step is made in any case: on small sets, and if it is cheap.
        """
        quadratic, monitor = view.model.loss.quadratic, view.state.monitor
        if self._is_small(view):
            return 0.0
        if view.unknown:
            return (
                1.0 if quadratic else WARM if view.warm else NEEDED if view.x.any() else FROM_ZERO
            )
        if view.epochs_left == np.inf:
            return 1.0
        if view.epoch >= SETTLED and self._in_epochs(view) <= CHEAP:
            return 0.0
        if quadratic:
            needed = 1.0
        else:
            squarings = max(np.ceil(monitor.squarings(view.run.solver.tol)), 1.0)
            needed = NEEDED if self._rivalled(view) else min(NEEDED, squarings)
            needed = max(needed - PROVING * view.run.needs_proof, 1.0)
        return min(needed, super().steps_left(view)) if self._replaces_cg(view) else needed

    def step(self, view: View) -> Outcome:
        """A step in the active features, or all steps if the set is small in these features."""
        run, state = view.run, view.state
        target = max(min(run.solver.tol, LOOSEST), PRECISION) * run.at_zero
        driver = self._driver(view)
        most = STEPS if driver.at_once else 1
        end = driver.run(driver.inner(view.x), state.newton.progress, target, run.at_zero, most)
        width = float(state.active.size)
        newton, stalled = state.newton._replace(width=width, progress=end.progress), ""
        if end.stuck or not (end.steps or end.progress.bound <= run.solver.tol * run.at_zero):
            proved = end.progress.bound <= PRECISION * run.at_zero
            known = not end.objective < newton.stuck - ROUNDING * abs(end.objective)
            if state.active.size == run.sets.size and (proved or known):
                stalled = STALLED if proved else stalled_at(view.model, end.at, run.at_zero)
            newton = newton._replace(rest=view.epoch + 1 + REST, stuck=end.objective)
        gradients = end.passes * run.problem.n
        new = view.moved_to(end.at, newton=newton)
        return Outcome(new, gradients, end.rounds, view.step, stalled, end.steps)

    def _driver(self, view: View) -> NewtonDriver:
        if self._is_small(view):
            return CompiledNewton(view.model)
        return view.run.tool(NewtonSteps, view.model)

    def _is_small(self, view: View) -> bool:
        """Whether only some features are active and all steps in them are made in one call."""
        restricted = view.part is not view.run.table
        return self.at_once and restricted and is_small(view.model, PART)

    def _in_epochs(self, view: View) -> float:
        return view.newton_cost / view.epoch_cost

    def _gains_by_waiting(self, view: View) -> bool:
        """Whether one more epoch would save more of the next step than it costs, if the support keeps shrinking at its present rate.

        Only the next step counts: it removes most of the unneeded features before the later ones.
        """
        shrinks, changed = view.state.newton.shrinks, view.state.newton.changed
        if view.unknown or view.newton_cost == np.inf:
            return False
        if changed > UNSETTLED:
            least = costs.newton(view.model, view.x, view.curved, share=0.0)
            return view.newton_cost > least and view.newton_cost > view.epoch_cost
        fewer = costs.newton(view.model, view.x, view.curved, share=shrinks)
        return view.newton_cost - fewer > view.epoch_cost

    def _rivalled(self, view: View) -> bool:
        """Whether steps by conjugate gradients, which cost less, could be made instead."""
        rival = _conjugate_gradients(view)
        return rival is not None and view.epoch >= FOUND and rival.cost(view) < view.newton_cost

    def _epochs_of_cg(self, view: View) -> float:
        """The epochs that would have been made in the time of the steps by conjugate gradients."""
        rival = _conjugate_gradients(view)
        if rival is None:
            return 0.0
        return view.state.newton.steps * rival.cost(view) / view.epoch_cost

    def _follows_cg(self, view: View) -> bool:
        """Whether the last step by conjugate gradients ended too early to help, and a Hessian does not cost much more than it did."""
        rival = _conjugate_gradients(view)
        if rival is None or not rival.failed(view):
            return False
        return view.newton_cost <= DEARER * rival.cost(view)

    def _replaces_cg(self, view: View) -> bool:
        """Whether a step by conjugate gradients would be made, but a step with the Hessian costs no more."""
        rival = _conjugate_gradients(view)
        if rival is None or not view.newton_cost <= rival.cost(view):
            return False
        return rival.ready(view)


def _conjugate_gradients(view: View) -> NewtonCG | None:
    """The phase of conjugate gradients, if it takes part in this run."""
    return next((phase for phase in view.run.phases if isinstance(phase, NewtonCG)), None)
