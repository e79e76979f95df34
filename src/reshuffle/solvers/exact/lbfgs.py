"""L-BFGS steps where ψ is smooth and a Hessian would be too large: softmax with a ridge.

L-BFGS in a metric of its own. The Hessian of f has the blocks -(1/n) Σ w_i p_ik p_il a_i a_iᵀ (k ≠ l); those on its
diagonal, (1/n) Σ w_i p_ik(1 - p_ik) a_i a_iᵀ + l2, are small matrices that know how the columns are correlated and
scaled. Their inverses stand where L-BFGS has a multiple of the identity. At zero all classes share one block; a call
that begins elsewhere takes one for each, once as many passes have been made as they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from reshuffle.objective import Array, FiniteSum
from reshuffle.problem import Problem
from reshuffle.solvers.certificate import Gap, certificate_of
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_cg import FOUND
from reshuffle.solvers.exact.newton_steps import can_finish, form_of
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.rest import after_steps
from reshuffle.solvers.exact.view import RunContext, View
from reshuffle.solvers.second_order import Linearisation, SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

ITERATIONS = 50
"""Iterations of one call at most; the next call has new blocks, and in between a run listens for interruption."""
FEWEST = 10
"""Iterations of the first call at most, or as many as a block for each class costs."""
PAIRS = 20
"""Steps and changes of the gradient that are remembered."""
ARMIJO = 1e-4
"""The share of the promised decrease that a step has to keep."""
ROUNDING = 1e-15
"""A rise of P by less than this share of it may be rounding."""
HALVINGS = 30
"""Halvings of a step at most."""
LITTLE = 0.05
"""Rows with less than this share of the mean curvature, most of them near the end, are left out of a block."""
LIFT = 1e-10
"""The share that is added to a diagonal, so that blocks stay invertible where columns depend on each other."""


class LBFGS(Phase):
    """Calls of L-BFGS in all features, at most 50 iterations each."""

    name: ClassVar[str] = "lbfgs"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        smooth = can_finish(problem) and is_smooth(problem)
        return smooth and certificate_of(problem).name == Gap.name

    def skips_zero(self, run: RunContext) -> bool:
        return _descent(run).has_metric

    def ready(self, view: View) -> bool:
        """From the start where a block costs less than the iterations of a call, after a few epochs elsewhere."""
        late = 0 if _descent(view.run).has_metric else FOUND
        return not view.resting and view.epoch >= late

    def cost(self, view: View) -> float:
        """The cost of a first call, with its block and few iterations."""
        lbfgs = _descent(view.run)
        fit = lbfgs.problem.datafit
        return costs.passes(fit, FEWEST) + (costs.block(fit) if lbfgs.has_metric else 0.0)

    def steps_left(self, view: View) -> float:
        return super().steps_left(view) if view.second_order_steps else 1.0

    def step(self, view: View) -> Outcome:
        """One call. All features are active afterwards: epochs may have left out columns without an entry."""
        run, tol, lbfgs = view.run, view.run.solver.tol, _descent(view.run)
        known: dict[int, Point] = {}

        def enough(at: Linearisation) -> bool:
            point = Point(at.x, at, slopes=at.slopes, gradient=at.gradient, whole=True)
            known.clear()
            known[id(at)] = point
            return run.gap(point) <= tol

        first = not view.second_order_steps
        found = lbfgs.descend(view.state.x, first, enough, tol * run.at_zero)
        at = found.at
        point = known.get(id(at)) or Point(
            at.x, at, slopes=at.slopes, gradient=at.gradient, whole=True
        )
        newton = after_steps(view, found.gained, 0 if lbfgs.has_metric else 1, self.cost(view))
        new = replace(
            view.state, point=point, active=run.sets.everything, table=run.table.table(at.slopes),
            g=at.gradient, q=np.zeros_like(at.gradient), momentum=0.0, newton=newton,
        )  # fmt: skip
        gradients = found.passes * run.problem.n
        return Outcome(new, gradients, step=view.step, made=found.iterations)


def _descent(run: RunContext) -> QuasiNewton:
    """The calls on the whole problem of this run."""
    problem = run.problem
    if not can_finish(problem):
        raise AttributeError("this problem has no second-order steps")
    return run.tool(QuasiNewton, problem)


class Descended(NamedTuple):
    """The outcome of a call."""

    at: Linearisation
    """f at the end point of the call."""
    gained: float
    passes: int
    iterations: int


def is_smooth(problem: Problem) -> bool:
    """Whether ψ is (l2/2)‖·‖² in every coordinate, and the loss has several outputs.

    For one output Newton steps, with the Hessian or by conjugate gradients, are shorter.
    """
    form, fit = form_of(problem).one_by_one, problem.datafit
    if not fit.outputs or fit.loss.second is None or form is None:
        return False
    free = np.all(form.l1 == 0.0) and np.all(form.low == -np.inf) and np.all(form.high == np.inf)
    return bool(free)


class QuasiNewton:
    """Calls of L-BFGS on one problem, whose ridge holds every coordinate but for an intercept."""

    def __init__(self, problem: Problem) -> None:
        self.problem, fit = problem, problem.datafit
        self.second_order = SecondOrder(fit, origin=np.zeros(fit.features))
        self.l2 = np.zeros(problem.shape)
        self.l2[: fit.features] = np.reshape(form_of(problem).l2, (fit.features, -1))
        self.block_cost = costs.block_passes(fit)
        """Passes that a block costs."""

    @property
    def has_metric(self) -> bool:
        """Whether a block costs no more than the passes of a call."""
        return self.block_cost <= ITERATIONS

    @property
    def has_blocks(self) -> bool:
        """Whether a block for each class costs no more than the passes of a call."""
        return self.block_cost * self.problem.datafit.outputs[0] <= ITERATIONS

    def descend(
        self, x: Array, first: bool, enough: Callable[[Linearisation], bool], target: float
    ) -> Descended:
        """Iterations from x, until the gradient says P(x) - P* ≤ ``target`` and ``enough`` agrees.

        Without an intercept ‖∇P‖²/(2·l2) is the duality gap.
        """
        before, at, iterations = self.second_order.passes, self.second_order.linearise(x), 0
        value, g = self._whole(at)
        start, most = value, ITERATIONS
        if first and self.has_blocks:
            most = max(FEWEST, ceil(self.block_cost * x.shape[1]))
        metric = self.metric(at, first or not self.has_blocks)
        steps: list[tuple[Array, Array, float]] = []
        while iterations < most and not (self._estimate(g) <= target and enough(at)):
            d = -self._times(metric, g, steps)
            slope = float(np.vdot(g, d))
            found = self._search(at, value, slope, d)
            if found is None:
                break
            new, value, then = found
            step, change = new.x - at.x, then - g
            bent = float(np.vdot(step, change))
            if bent > 0.0:
                steps = [*steps[1 - PAIRS :], (step, change, bent)]
            at, g, iterations = new, then, iterations + 1
        return Descended(at, start - value, self.second_order.passes - before, iterations)

    def _whole(self, at: Linearisation) -> tuple[float, Array]:
        """P and its gradient."""
        return at.value + 0.5 * float(np.vdot(self.l2 * at.x, at.x)), at.gradient + self.l2 * at.x

    def _estimate(self, g: Array) -> float:
        features = self.problem.features
        return 0.5 * float(np.sum(g[:features] ** 2 / self.l2[:features]))

    def _search(
        self, at: Linearisation, value: float, slope: float, d: Array
    ) -> tuple[Linearisation, float, Array] | None:
        """The first of x + d, x + d/2, … where P is low enough: f there, P and its gradient."""
        t = 1.0
        for _ in range(HALVINGS if slope < 0.0 else 0):
            new = self.second_order.linearise(at.x + t * d)
            then, g = self._whole(new)
            # near the end values are rounded; slopes still tell
            flat = abs(float(np.vdot(g, d))) <= 0.5 * -slope and then <= value + ROUNDING * abs(
                value
            )
            if then <= value + ARMIJO * t * slope or flat:
                return new, then, g
            t *= 0.5
        return None

    # --- the metric ----------------------------------------------------------------------------

    def metric(self, at: Linearisation, shared: bool) -> Callable[[Array], Array]:
        """The inverse of the blocks at x, one that all classes share or one for each, times a gradient."""
        if not self.has_metric:
            return np.copy
        inverses = self.blocks(at, shared)
        if shared:
            return lambda g: inverses[0] @ g
        return lambda g: np.ascontiguousarray(np.matmul(inverses, g.T[:, :, None])[:, :, 0].T)

    def blocks(self, at: Linearisation, shared: bool) -> Array:
        """The inverses of the blocks at x: one that all classes share, or one for each."""
        p, scales = at.curvatures, self.second_order.weights / self.second_order.fit.n
        everything = np.arange(self.problem.features, dtype=np.uint32)
        bends, l2 = (p * (1.0 - p)).T, self.l2.T
        if shared:
            bends, l2 = bends.mean(axis=0, keepdims=True), l2.mean(axis=0, keepdims=True)
        found = []
        for bend, ridge in zip(bends, l2, strict=True):
            matters = bend >= LITTLE * bend.mean()
            H = self.second_order.gram(np.where(matters, scales * bend, 0.0), everything)
            diagonal = H.diagonal() + ridge
            np.fill_diagonal(H, np.where(diagonal > 0.0, (1.0 + LIFT) * diagonal, 1.0))
            found.append(H)
        return np.linalg.inv(np.array(found))

    def _times(
        self, metric: Callable[[Array], Array], g: Array, steps: list[tuple[Array, Array, float]]
    ) -> Array:
        """The inverse of the quasi-Newton matrix times g: two loops over the remembered pairs."""
        q, shares = g.copy(), []
        for step, change, bent in reversed(steps):
            shares.append(float(np.vdot(step, q)) / bent)
            q -= shares[-1] * change
        d = metric(q)
        if steps:  # the scale of the metric is that of the last change
            _, change, bent = steps[-1]
            d *= bent / float(np.vdot(change, metric(change)))
        for (step, change, bent), share in zip(steps, reversed(shares), strict=True):
            d += (share - float(np.vdot(change, d)) / bent) * step
        return d
