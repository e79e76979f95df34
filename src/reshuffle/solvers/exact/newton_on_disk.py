"""Newton steps on rows that lie on disk; a step takes one pass over the files.

A pass at x sums up the gradient and the Hessian window by window. The model

    min_u  g_fᵀ(u - x) + ½(u - x)ᵀH(u - x) + ψ(u),    H = (1/n) Σ_i w_i l''(a_iᵀx) a_i a_iᵀ = LLᵀ,

is the least-squares problem ½‖Lᵀ(u - x) + L⁻¹g_f‖² + ψ(u), which has d rows and is solved in memory. An intercept is
eliminated from it. The pass at u gives P(u), the slopes for a certificate, and the Hessian of the next step; if P
has not fallen, the step is halved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from reshuffle.device_problem import DeviceProblem
from reshuffle.disk_datafit import on_disk
from reshuffle.errors import held_warnings
from reshuffle.losses import Squared
from reshuffle.objective import Array, FiniteSum
from reshuffle.problem import Problem
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.rest import REST
from reshuffle.solvers.exact.view import View
from reshuffle.solvers.second_order import SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

WIDEST = 2000
"""The most features: the Hessian then takes 32 MB, and its Cholesky factorisation takes seconds."""
HALVINGS = 6
"""Steps shorter than 1/64 of Newton's are left to shuffled epochs."""
DAMPING = 1e-10
"""This share of each diagonal entry of the Hessian (of the mean one for columns of zeros) is added to it, so that a Cholesky factor exists even if columns are dependent."""
MODEL = 1e-10
"""The accuracy of the model's minimiser, over the value of the model at zero."""


class Expansion(NamedTuple):
    """f at x to second order; the gradient without the ridge."""

    x: Array
    slopes: Array
    gradient: Array
    value: float
    """f without the ridge."""
    hessian: Array


class DiskHessian:
    """Expansions of f; the last one is kept."""

    def __init__(self, problem: Problem) -> None:
        self.fit = on_disk(problem.datafit)
        self._last: Expansion | None = None

    def at(self, x: Array) -> Expansion:
        """f at x, by a pass over the files unless the last expansion is at x."""
        if self._last is None or not np.array_equal(self._last.x, x):
            self._last = None  # free its memory before the next expansion is made
            self._last = self._expand(x)
        return self._last

    def _expand(self, x: Array) -> Expansion:
        fit = self.fit
        every, width = np.arange(fit.features, dtype=np.uint32), fit.features + fit.bias
        slopes, value = np.empty(fit.n), 0.0
        gradient, hessian = np.zeros(fit.shape), np.zeros((width, width))
        for part, window in fit.windows():
            second = SecondOrder(window, np.zeros(fit.features))
            at = second.linearise(x)
            share = window.n / fit.n
            part.of(slopes)[...] = at.slopes
            gradient += share * at.gradient
            value += share * at.value
            hessian += second.gram(second.weights * at.curvatures, every) / fit.n
        fit.remember(x, value * fit.n, gradient)
        return Expansion(x.copy(), slopes, gradient, value, hessian)


@dataclass(frozen=True)
class NewtonOnDisk(Phase):
    """Newton steps whose Hessian is summed up over the files, for losses of one output and at most 2,000 features."""

    name: ClassVar[str] = "newton_on_disk"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        fit = problem.datafit
        if fit is None or not fit.on_disk or fit.outputs or fit.features > WIDEST:
            return False
        return type(fit.loss).second is not None

    def ready(self, view: View) -> bool:
        fit = view.part.problem.datafit
        return fit is not None and fit.on_disk and not view.resting

    def step(self, view: View) -> Outcome:
        """A step, and the slopes at its end point."""
        problem: Any = view.run.problem
        tool = view.run.tool(DiskHessian, problem)
        now = tool.at(view.state.x)
        target, before = model_minimiser(problem, now), self._objective(problem, now)
        for k in range(HALVINGS + 1):
            x = now.x + (target - now.x) * 0.5**k
            new = tool.at(x)
            if self._objective(problem, new) < before:
                state = view.with_slopes(x, new.slopes, new.gradient)
                return Outcome(state, (k + 1) * problem.n, 1, view.step)
        newton = view.state.newton._replace(rest=view.epoch + 1 + REST)
        state = view.with_slopes(now.x, now.slopes, now.gradient, newton=newton)
        return Outcome(state, (HALVINGS + 1) * problem.n, 1, view.step, made=0)

    def _objective(self, problem: Problem, at: Expansion) -> float:
        ridge = (
            0.5 * problem.ridge * float(np.vdot(at.x[: problem.features], at.x[: problem.features]))
        )
        return problem.objective(at.x, at.value + ridge)


def model_minimiser(problem: Problem | DeviceProblem, at: Expansion) -> Array:
    """The minimiser of the quadratic model with ψ and the ridge."""
    from scipy.linalg import cholesky, solve_triangular

    from reshuffle.solvers.exact.solver import ExactProxRR

    d, bias = problem.features, problem.fit_intercept
    H, g = at.hessian[:d, :d], at.gradient[:d]
    sizes = np.diag(H).copy()
    if not np.isfinite(at.hessian).all():
        return at.x  # f overflows
    across = at.hessian[:d, d] if bias else np.zeros(d)
    own = float(at.hessian[d, d]) if bias else 0.0
    if not float(sizes.max()) > np.finfo(float).tiny:  # f does not depend on the features
        still = at.x.copy()
        still[d:] -= at.gradient[d:] / own if own > 0.0 else 0.0
        return still
    sizes[sizes <= 0.0] = sizes.mean()
    if own > 0.0:  # the best intercept for every u
        H, g = H - np.outer(across, across) / own, g - across * (at.gradient[d] / own)
    L = cholesky(H + np.diag(DAMPING * sizes), lower=True)
    x, root = at.x[:d], np.sqrt(d)
    target = L.T @ x - solve_triangular(L, g, lower=True)
    model = Problem(
        np.ascontiguousarray(root * L.T), root * target, Squared(), problem.penalty, problem.ridge
    )  # fmt: skip
    with (
        held_warnings()
    ):  # a poor solution of the model gives a worse step, which the comparison of P catches
        u = ExactProxRR(tol=MODEL).solve(model, x).x
    if not bias:
        return u
    step = -(at.gradient[d] + across @ (u - x)) / own if own > 0.0 else 0.0
    return np.concatenate([u, [at.x[d] + step]])


def leaves_the_disk(problem: Problem, x: Array) -> bool:
    """Whether the rows are expected to fit into memory with only the features that the penalty does not hold at zero, judged at x."""
    fit = on_disk(problem.datafit)
    used = int(np.count_nonzero(x[: problem.features]))
    share = 2 * used / max(problem.features, 1)  # as many again may soon be used
    return bool(share < 1.0 and share * fit.rows.bytes + 8 * fit.n <= fit.rows.memory // 2)
