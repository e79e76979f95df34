"""L-BFGS as a phase, for problems whose ψ is a ridge (``quasi_newton`` has the iterations).

With several outputs (softmax) a Hessian would be too large, and L-BFGS goes all the way to the minimum. With one output the
first iterations show how fast it converges: on dense rows an iteration reads the rows in storage order and costs less than an
epoch. If too many iterations seem to be left, the chooser compares the phases again.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reshuffle.objective import FiniteSum
from reshuffle.solvers.certificate import Gap, certificate_of
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_cg import FOUND
from reshuffle.solvers.exact.newton_kernel import NewtonKernel
from reshuffle.solvers.exact.newton_steps import can_finish
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.quasi_newton import FEWEST, LONGEST, QuasiNewton, is_smooth
from reshuffle.solvers.exact.rest import after_steps
from reshuffle.solvers.exact.view import RunContext, View
from reshuffle.solvers.second_order import Linearisation

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

FIRST_ITERATIONS, ITERATIONS_PER_DIGIT = 6.0, 3.0
"""The expected iterations of a run: a constant, and a number for each decimal digit of accuracy."""
FEWEST_AT_ALL = 4.0
"""Iterations that a run takes however well-conditioned the problem is: the losses are not quadratics."""
SHARED = 4.0
"""The expected iterations are multiplied by this if all classes share one block, taken at zero: measured on ten classes of images."""
NEWTON_STEPS = 3.0
"""This many Newton steps could replace L-BFGS. If they cost less, a call with one output ends, and with several outputs
a Newton step is preferred to a further call."""


class LBFGS(Phase):
    """Calls of L-BFGS in all features, at most 50 iterations each."""

    name: ClassVar[str] = "lbfgs"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        smooth = can_finish(problem) and is_smooth(problem)
        return smooth and certificate_of(problem).name == Gap.name

    def skips_zero(self, run: RunContext) -> bool:
        return _descent(run).has_metric

    def ready(self, view: View) -> bool:
        """True from the start if a block costs less than the iterations of a call, otherwise after a few epochs."""
        lbfgs = _descent(view.run)
        if lbfgs.one_output and view.newton_is_cheap:
            return False  # epochs and a few Newton steps cost less
        late = 0 if lbfgs.has_metric else FOUND
        return not view.resting and view.epoch >= late

    def cost(self, view: View) -> float:
        """The cost of a first call, with its block and few iterations."""
        lbfgs = _descent(view.run)
        fit = lbfgs.second_order.fit
        if lbfgs.one_output:
            return costs.passes(fit, FEWEST)
        return costs.passes(fit, FEWEST) + (costs.block(fit) if lbfgs.has_metric else 0.0)

    def steps_left(self, view: View) -> float:
        """The calls of few iterations that seemed to be left at the end of the last call.

        With several outputs this is infinite if the gap did not follow the gradient, or if the iterations so far
        cost more than a few Newton steps: then a Newton step is made if it is ready.
        """
        made = view.state.made.get(self.name, 0)
        if made:
            spent = made / FEWEST * self.cost(view)
            late = view.led_by_lbfgs and spent > NEWTON_STEPS * view.newton_cost
            return np.inf if late else view.state.newton.iterations / FEWEST
        lbfgs, expected = _descent(view.run), FIRST_ITERATIONS + ITERATIONS_PER_DIGIT * view.digits
        if lbfgs.one_output:
            return min(expected, _iterations_on_sparse_rows(view)) / FEWEST
        return expected * (1.0 if lbfgs.has_blocks else SHARED) / FEWEST

    def step(self, view: View) -> Outcome:
        """One call. It makes all features active, because epochs may have left out columns without an entry."""
        run, tol, lbfgs = view.run, view.run.solver.tol, _descent(view.run)
        known: dict[int, Point] = {}

        def enough(at: Linearisation) -> bool:
            point = Point(at.x, at, slopes=at.slopes, gradient=at.gradient, whole=True)
            known.clear()
            known[id(at)] = point
            return run.gap(point) <= tol

        first = not view.second_order_steps
        worth = self._worth(view) if lbfgs.one_output else np.inf
        found = lbfgs.descend(view.state.x, first, enough, tol * run.at_zero, worth)
        at = found.at
        point = known.get(id(at)) or Point(
            at.x, at, slopes=at.slopes, gradient=at.gradient, whole=True
        )
        newton = after_steps(view, found.gained, 0 if lbfgs.has_metric else 1, self.cost(view))
        left = found.left if lbfgs.one_output or found.left > 0.0 else np.inf
        newton = newton._replace(iterations=left)
        new = view.moved_everywhere(point, at.slopes, at.gradient, newton=newton)
        gradients = found.passes * run.problem.n
        return Outcome(new, gradients, step=view.step, made=found.iterations)

    def _worth(self, view: View) -> float:
        """The most iterations that may be left: those of a call, or those that cost as much as epochs or Newton steps."""
        others = [NEWTON_STEPS * view.newton_cost, view.work_left]
        others += [
            phase.cost(view) * phase.steps_left(view)
            for phase in view.run.phases
            if isinstance(phase, NewtonKernel)
        ]
        return min(LONGEST, FEWEST * min(others) / self.cost(view))


def _iterations_on_sparse_rows(view: View) -> float:
    """Iterations to the wanted accuracy as for conjugate gradients, each of which leaves ((√κ - 1)/(√κ + 1))² of P(x) - P*.

    Columns of sparse rows hardly overlap, so κ is little more than 1 + max_j ∂²f/∂x_j²/μ. Nothing is known of dense rows.
    """
    problem = view.model
    fit = problem.datafit
    if fit.rows.dense:
        return np.inf
    steepest = fit.loss.curvature * float(np.max(fit.column_squares))
    root = sqrt(1.0 + steepest / problem.strong_convexity)
    if not root > 1.0:
        return FEWEST_AT_ALL
    return FEWEST_AT_ALL + view.digits * log(10.0) / (2.0 * log((root + 1.0) / (root - 1.0)))


def _descent(run: RunContext) -> QuasiNewton:
    """The L-BFGS solver of the run's whole problem."""
    problem = run.problem
    if not can_finish(problem):
        raise AttributeError("this problem has no second-order steps")
    return run.tool(QuasiNewton, problem)
