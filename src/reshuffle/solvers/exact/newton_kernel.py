"""Newton steps by a linear system with one equation for each row, for wide rows and a ridge.

With Λ the ridge of every feature, D the diagonal of w_i l''_i and E its root, the Newton equation of x and an intercept b,

    (Λ + AᵀDA/n) d + AᵀD1·e/n = r,    1ᵀDA·d/n + 1ᵀD1·e/n = r_b,    r = -∇P(x),    r_b = -∂P/∂b,

is solved by one factorisation of an n × n matrix (the identity of Woodbury):

    B = I + EKE/n,    K = AΛ⁻¹Aᵀ,    q = B⁻¹E·AΛ⁻¹r,    u = B⁻¹E1,
    e = (r_b - 1ᵀE·q/n)/(1ᵀE·u/n),    d = Λ⁻¹(r - AᵀE(q + e·u)/n),

and the margins change by AΛ⁻¹r - KE(q + e·u)/n + e, without a pass. B ≥ I however small the curvatures are, and K is computed
once. Because the right side is the gradient at x, a step also corrects the rounding errors of the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties.forms import native_form
from reshuffle.problem import Problem
from reshuffle.solvers.certificate import Gap, certificate_of
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_steps import can_finish, form_of
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.quasi_newton import is_smooth
from reshuffle.solvers.exact.rest import after_steps
from reshuffle.solvers.exact.view import RunContext, View
from reshuffle.solvers.second_order import Linearisation, SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

MOST = 20
"""The most steps of one call; between two calls a run can be interrupted."""
FROM_ZERO = 5.0
"""The expected number of steps from zero if f is not quadratic."""
NEARER = 3.0
"""The expected number of steps from another start."""
LONGEST = 1e12
"""The largest diagonal entry of K. Beyond it, rounding leaves fewer than four digits of the identity in B, and steps no longer lower P."""
ROUNDING = 1e-15
"""A step that lowers P by less than this share of P is the last one: the rest is rounding."""


class NewtonKernel(Phase):
    """Newton steps by the kernel of the rows, in all features: dense rows, one output, and a ridge on every feature."""

    name: ClassVar[str] = "newton_kernel"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        fit = problem.datafit
        if fit is None or fit.on_disk or fit.outputs or not fit.rows.dense:
            return False
        wide = fit.n < fit.features and fit.n <= costs.LARGEST
        if not (wide and can_finish(problem) and is_smooth(problem)):
            return False
        if certificate_of(problem).name != Gap.name:
            return False
        values = fit.quick.values
        with np.errstate(over="ignore", divide="ignore"):
            longest = np.einsum("ij,ij,j->i", values, values, 1.0 / ridge_of(problem)).max()
        return bool(longest <= LONGEST)

    def skips_zero(self, run: RunContext) -> bool:
        return True

    def ready(self, view: View) -> bool:
        return not view.resting

    def cost(self, view: View) -> float:
        """The cost of a step, with its share of the kernel if that is still to be computed."""
        fit = _steps(view.run).problem.datafit
        made = view.state.made.get(self.name, 0) > 0
        once = 0.0 if made else costs.kernel(fit) / _expected(view)
        return costs.kernel_step(fit) + once

    def steps_left(self, view: View) -> float:
        return _expected(view)

    def step(self, view: View) -> Outcome:
        """Steps until the gap is small enough, or no step lowers P."""
        run, tol = view.run, view.run.solver.tol

        known: list[Point] = []

        def enough(at: Linearisation) -> bool:
            known[:] = [_point(at)]
            return run.gap(known[0]) <= tol

        found = _steps(run).descend(view.state.x, enough, tol * run.at_zero)
        at = found.at
        point = known[0] if known and known[0].linearisation is at else _point(at)
        newton = after_steps(view, found.gained, 0, self.cost(view))
        new = view.moved_everywhere(point, at.slopes, at.gradient, newton=newton)
        gradients = found.passes * run.problem.n
        return Outcome(new, gradients, step=view.step, made=found.steps)


def _expected(view: View) -> float:
    if _steps(view.run).problem.loss.quadratic:
        return 1.0
    return NEARER if view.state.x.any() else FROM_ZERO


def _point(at: Linearisation) -> Point:
    return Point(at.x, at, slopes=at.slopes, gradient=at.gradient, whole=True)


def _steps(run: RunContext) -> KernelSteps:
    """The steps on the whole problem of this run."""
    problem = run.problem
    if not can_finish(problem):
        raise AttributeError("this problem has no second-order steps")
    return run.tool(KernelSteps, problem)


def ridge_of(problem: Problem) -> Array:
    """The ridge of every feature."""
    return np.array(np.broadcast_to(form_of(problem).l2, problem.features), dtype=np.float64)


class Stepped(NamedTuple):
    """The outcome of a call."""

    at: Linearisation
    """f at the end point of the call."""
    gained: float
    passes: int
    steps: int


class KernelSteps:
    """Steps on one problem, with the kernel of its rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.second_order = SecondOrder(problem.datafit, origin=np.zeros(problem.features))
        self._form = native_form(form_of(problem))
        self.l2 = ridge_of(problem)

    @cached_property
    def kernel(self) -> Array:
        """K = AΛ⁻¹Aᵀ."""
        rows: Array = np.asarray(self.problem.datafit.quick.values, dtype=np.float64)
        same = bool(np.all(self.l2 == self.l2[0]))
        rows = rows if same else rows / np.sqrt(self.l2)
        found: Array = np.matmul(rows, rows.T)
        return found / self.l2[0] if same else found

    def descend(self, x: Array, enough: Callable[[Linearisation], bool], target: float) -> Stepped:
        """Steps from x, until ‖∇P‖² in the metric of the ridge shows P(x) - P* ≤ ``target`` and ``enough`` agrees."""
        before, at, made = self.second_order.passes, self.second_order.linearise(x), 0
        start = value = self._objective(at)
        while made < MOST:
            r = self._residual(at)
            estimate = 0.5 * float(np.sum(r[: self.l2.size] ** 2 / self.l2))
            if estimate <= target and enough(at):
                break
            try:
                d, change = self.direction(at, r)
            except (
                np.linalg.LinAlgError
            ):  # rounding hides the identity in B: its rows are too long for such a weak ridge
                break
            if not (np.isfinite(d).all() and np.isfinite(change).all()):
                break
            t, to = self.second_order.search(at, d, change, self._form, value - at.value)
            if not t > 0.0:
                break
            new = self.second_order.linearise(to)
            lower = self._objective(new)
            if not lower < value - ROUNDING * abs(value):
                at, value = (new, lower) if lower <= value else (at, value)
                break
            at, value, made = new, lower, made + 1
        return Stepped(at, start - value, self.second_order.passes - before, made)

    def direction(self, at: Linearisation, r: Array) -> tuple[Array, Array]:
        """The solution of the Newton equation at x, where r = -∇P(x), and the change of the margins by it."""
        from scipy.linalg import cho_factor, cho_solve

        fit, weights = self.problem.datafit, self.second_order.weights
        n, features = fit.n, fit.features
        root = np.sqrt(weights * np.maximum(at.curvatures, 0.0))
        B = self.kernel * (root[:, None] / n)
        B *= root
        B.flat[:: n + 1] += 1.0
        scaled = np.zeros(fit.shape)
        scaled[:features] = r[:features] / self.l2
        margins, e = self.second_order.margins(scaled), 0.0
        factor = cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
        t = cho_solve(factor, root * margins, check_finite=False)
        if fit.bias:
            u = cho_solve(factor, root, check_finite=False)
            bent = float(root @ u) / n
            e = (float(r[-1]) - float(root @ t) / n) / bent if bent > 0.0 else 0.0
            t = t + e * u
        t = root * t
        table = np.divide(t, weights, out=np.zeros(n), where=weights > 0.0)
        d = np.empty(fit.shape)
        d[:features] = scaled[:features] - self.second_order.combine(table)[:features] / self.l2
        d[features:] = e
        return d, margins - self.kernel @ t / n + e

    def _residual(self, at: Linearisation) -> Array:
        """-∇P(x)."""
        r = -at.gradient
        r[: self.l2.size] -= self.l2 * at.x[: self.l2.size]
        return r

    def _objective(self, at: Linearisation) -> float:
        x = at.x[: self.l2.size]
        return at.value + 0.5 * float(np.vdot(self.l2 * x, x))
