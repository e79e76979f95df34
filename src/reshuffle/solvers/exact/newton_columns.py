"""Newton steps by coordinate descent over the columns of sparse rows, for problems whose Hessian would be too large.

A step minimises the quadratic model of f plus the exact ψ,

    min_u  gᵀ(u - x) + ½ (u - x)ᵀ AᵀDA (u - x)/n + ψ(u),        D the diagonal of w_i l''_i,

coordinate by coordinate (``core/column_sweeps.hpp``), and searches along the line to the minimiser. Unlike a step on the face of x
it crosses kinks, so it helps where thousands of coordinates are still to become zero. A model is solved roughly: exact ones
would take more sweeps than they save steps. LIBLINEAR solves logistic regression
with ℓ1 by such steps (Yuan, Ho and Lin 2012).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from reshuffle.core import native
from reshuffle.interruption import listen
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties.forms import native_form
from reshuffle.problem import Problem
from reshuffle.solvers.certificate import Gap, certificate_of
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_cg import FOUND, NewtonCG
from reshuffle.solvers.exact.newton_steps import Progress, can_finish, form_of, psi_of
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.rest import REST
from reshuffle.solvers.exact.view import RunContext, View
from reshuffle.solvers.second_order import Linearisation, SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

SWEEPS = 10
"""The most sweeps of a step; five sets of text took 0.8 to 2.9 times as long with 5, and one of them 1.3 times with 30."""
SHARE = 0.1
"""Sweeps end when one gains at most this share of what the first one gained."""
STEPS_PER_DIGIT = 5.0
"""Steps for each digit of accuracy that are expected before the first; text took 0.2 to 43."""
MOST_LEFT = 50.0
"""The most steps that are taken to be left; after as many, another phase has a turn."""


class NewtonColumns(Phase):
    """Newton steps by coordinate descent, in all features: sparse rows, one output, and a penalty that treats coordinates one by one."""

    name: ClassVar[str] = "newton_columns"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        fit = problem.datafit
        if fit is None or fit.on_disk or fit.outputs or fit.rows.dense or not can_finish(problem):
            return False
        return form_of(problem).one_by_one is not None and certificate_of(problem).name == Gap.name

    def unfinished(self, view: View) -> bool:
        """Whether the last step was one of these and lowered P, and fewer of them are left than a Hessian is worth."""
        if not _was_last(view) or view.resting or self._yields(view):
            return False
        return self.cost(view) * self.steps_left(view) <= view.newton_cost

    def ready(self, view: View) -> bool:
        """True once steps by conjugate gradients have failed, or epochs make no progress and no such steps take part."""
        if view.resting or view.epoch < FOUND or self._yields(view):
            return False
        if view.state.made.get(self.name, 0):
            return True
        rival = next((phase for phase in view.run.phases if isinstance(phase, NewtonCG)), None)
        return rival.failed(view) if rival is not None else view.epochs_left == np.inf

    def _yields(self, view: View) -> bool:
        """Whether another phase has a turn now: slow steps would otherwise go on to the end of the run."""
        return _was_last(view) and view.state.made[self.name] % MOST_LEFT == 0

    def cost(self, view: View) -> float:
        return costs.column_step(_descent(view.run).second_order.fit, SWEEPS)

    def steps_left(self, view: View) -> float:
        """The steps that are left if each leaves as large a share of the certificate as the last one."""
        monitor, newton = view.state.monitor, view.state.newton
        known = newton.columns > 0.0 and newton.gap < np.inf
        if not (known and 0.0 < monitor.checked < np.inf):
            return STEPS_PER_DIGIT * view.digits
        share = monitor.checked / newton.gap if newton.gap > 0.0 else 1.0
        if not share < 1.0:
            return MOST_LEFT
        tol = max(view.run.solver.tol, np.finfo(np.float64).tiny)
        return float(np.clip(np.log(tol / monitor.checked) / np.log(share), 1.0, MOST_LEFT))

    def step(self, view: View) -> Outcome:
        run, state = view.run, view.state
        descent = _descent(run)
        known = state.point.linearisation if state.point.whole else None
        taken = descent.step(state.x, known)
        # the last step knew f at x; a run that was resumed after it computes that again, and counts no pass for it
        repeated = known is None and abs(state.newton.columns) == view.epoch > 0
        at, passes = taken.at, taken.passes - repeated
        point = Point(at.x, at, slopes=at.slopes, gradient=at.gradient, whole=True)
        newton = state.newton._replace(
            columns=view.epoch + 1.0, gap=state.monitor.checked, progress=Progress()
        )
        if not taken.gained > 0.0:  # rounding hides a fall of P, or the model promised too much
            newton = newton._replace(columns=-newton.columns, rest=view.epoch + 1 + REST)
        new = view.moved_everywhere(point, at.slopes, at.gradient, newton=newton)
        monitor = new.monitor.after_check(run.gap(point), run.solver.tol)
        new = replace(new, monitor=monitor)
        return Outcome(new, passes * run.problem.n, step=view.step)


class Swept(NamedTuple):
    """The outcome of a step."""

    at: Linearisation
    """f at the end point."""
    gained: float
    passes: int


class ColumnDescent:
    """Newton steps by coordinate descent on one problem, whose rows it keeps by columns besides."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.second_order, form = SecondOrder(problem.datafit), form_of(problem)
        self._native = native_form(form)
        rows = problem.datafit.rows
        values = np.ones(rows.indices.size) if rows.unit else rows.values
        shape = problem.datafit.n, problem.datafit.features
        columns = sp.csr_matrix((values, rows.indices, rows.indptr), shape=shape).tocsc()
        self._columns = (
            columns.data.astype(np.float64, copy=False), columns.indices.astype(np.uint32), columns.indptr.astype(np.int64)
        )  # fmt: skip

    def step(self, x: Array, known: Linearisation | None = None) -> Swept:
        """One step from x, with a line search; x itself if no step lowers P. ``known`` is f at x."""
        listen()
        second_order, n = self.second_order, self.problem.n
        before = second_order.passes
        at = second_order.linearise(x) if known is None else known
        h, u, z = second_order.weights * at.curvatures / n, x.copy(), np.zeros(n)
        _, _, visited = native.sweep_columns(
            self._native, *self._columns, h, at.gradient, u, z, SWEEPS, SHARE
        )
        psi = psi_of(self.problem, x)
        t, to = second_order.search(at, u - x, z, self._native, psi)
        passes = (
            second_order.passes - before + round(visited / max(self.problem.datafit.rows.stored, 1))
        )
        if not t > 0.0:
            return Swept(at, 0.0, passes)
        new = second_order.linearise(to)
        gained = at.value + psi - new.value - psi_of(self.problem, to)
        return Swept(new, gained, passes + 1)


def _was_last(view: View) -> bool:
    """Whether the last step was one of these and lowered P."""
    return 0.0 < view.state.newton.columns == view.epoch


def _descent(run: RunContext) -> ColumnDescent:
    """The steps on the whole problem of this run."""
    problem = run.problem
    if not can_finish(problem):
        raise AttributeError("this problem has no second-order steps")
    return run.tool(ColumnDescent, problem)
