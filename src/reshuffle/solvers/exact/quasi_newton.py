"""L-BFGS for a ridge, with a metric made of blocks of the Hessian.

With several outputs the Hessian of f has the blocks -(1/n) Σ w_i p_ik p_il a_i a_iᵀ (k ≠ l); those on its diagonal,
(1/n) Σ w_i p_ik(1 - p_ik) a_i a_iᵀ + l2, are small matrices that describe the correlations and scales of the columns. Their
inverses replace the multiple of the identity of L-BFGS. At zero all classes share one block; a call that begins
elsewhere has a block for each class, once as many passes have been made as the blocks cost.

With one output a block would be the whole Hessian, which Newton steps use; the metric is then its approximate diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import NamedTuple, cast

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.datafit import Datafit
from reshuffle.device_problem import DeviceProblem
from reshuffle.objective import Array
from reshuffle.problem import Problem
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_steps import form_of
from reshuffle.solvers.newton_model import is_quadratic
from reshuffle.solvers.second_order import Linearisation, SecondOrder

ITERATIONS = 50
"""The most iterations of one call; the next call has new blocks, and between calls a run can be interrupted."""
FEWEST = 10
"""The first call has at most this many iterations, or as many as a block for each class costs if that is more."""
PAIRS = 20
"""The number of remembered pairs of a step and the change of the gradient."""
ARMIJO = 1e-4
"""A step must achieve this share of the promised decrease."""
ROUNDING = 1e-15
"""A rise of P by less than this share of P may be rounding."""
HALVINGS = 30
"""The most halvings of a step."""
LITTLE = 0.05
"""Rows with less than this share of the mean curvature are left out of a block; near the minimum these are most rows."""
LIFT = 1e-10
"""This share is added to a diagonal, so that blocks stay invertible if columns depend on each other."""
TINY = 1e-300
"""A lower bound for diagonal entries of the Hessian, so that none is zero."""
LONGEST = 200
"""The most iterations of one call with one output: a new call loses the pairs, which are worth more than a new diagonal."""


class Descended(NamedTuple):
    """The outcome of a call."""

    at: Linearisation
    """f at the end point of the call."""
    gained: float
    passes: int
    iterations: int
    left: float
    """Iterations that seem to be left to the target, at the rate of the last ones."""


def is_smooth(problem: Problem) -> bool:
    """Whether ψ is (l2/2)‖·‖² in every coordinate, and the loss has second derivatives."""
    return problem.datafit.loss.second is not None and is_quadratic(form_of(problem))


class QuasiNewton:
    """L-BFGS on one problem, whose ridge holds every coordinate except an intercept."""

    def __init__(
        self, problem: Problem | DeviceProblem, second_order: SecondOrder | None = None
    ) -> None:
        d, fit = problem.features, cast(Datafit, problem.datafit)
        self.problem, self._fit = problem, fit
        if second_order is None:
            second_order = SecondOrder(fit, origin=np.zeros(d))
        self.second_order, self.dot = second_order, second_order.dot
        self.held = np.zeros(problem.shape)
        self.held[:d] = np.reshape(form_of(problem).l2, self.held[:d].shape)
        self.l2 = second_order.array(self.held)
        """l2 of each coordinate, on the same device as x; ``held`` is always in the processor's memory."""

    @cached_property
    def block_cost(self) -> float:
        """The cost of a block, in passes."""
        return costs.block_passes(self._fit)

    @property
    def one_output(self) -> bool:
        """Whether x is a vector, and the metric a diagonal."""
        return not self.problem.datafit.outputs

    @property
    def has_metric(self) -> bool:
        """Whether a block costs no more than the passes of a call. A diagonal always does."""
        return self.one_output or self.block_cost <= ITERATIONS

    @property
    def has_blocks(self) -> bool:
        """Whether a block for each class costs no more than the passes of a call."""
        return (
            not self.one_output and self.block_cost * self.problem.datafit.outputs[0] <= ITERATIONS
        )

    def descend(
        self, x: Array, first: bool, enough: Callable[[Linearisation], bool], target: float, worth: float = np.inf
    ) -> Descended:  # fmt: skip
        """Iterations from x, until the gradient shows P(x) - P* ≤ ``target`` and ``enough`` agrees.

        Without an intercept ‖∇P‖²/(2·l2) is the duality gap. The call also ends if more than ``worth`` iterations
        seem to be left.
        """
        before, at, iterations = self.second_order.passes, self.second_order.linearise(x), 0
        value, g = self._whole(at)
        start, most = value, LONGEST if self.one_output else ITERATIONS
        if first and self.has_blocks:
            most = max(FEWEST, ceil(self.block_cost * x.shape[1]))
        metric = self.metric(at, first or not self.has_blocks)
        steps: list[tuple[Array, Array, float]] = []
        estimates = [self._estimate(g)]
        while iterations < most and not (estimates[-1] <= target and enough(at)):
            if iterations >= FEWEST and iterations_left(estimates, target) > worth:
                break
            d = -self._times(metric, g, steps)
            if self.one_output and not steps:
                d *= self._length(at, g, d)
            slope = self.dot(g, d)
            found = self._search(at, value, slope, d)
            if found is None:
                break
            new, value, then = found
            step, change = new.x - at.x, then - g
            bent = self.dot(step, change)
            if bent > 0.0:
                steps = [*steps[1 - PAIRS :], (step, change, bent)]
            at, g, iterations = new, then, iterations + 1
            estimates.append(self._estimate(g))
        passes, left = self.second_order.passes - before, iterations_left(estimates, target)
        return Descended(at, start - value, passes, iterations, left)

    def _length(self, at: Linearisation, g: Array, d: Array) -> float:
        """The best length of the step d if P were a parabola along d; 1 if P has no curvature along d."""
        bent = self.dot(d, self.second_order.hessian_product(at, d) + self.l2 * d)
        return -self.dot(g, d) / bent if bent > 0.0 else 1.0

    def _whole(self, at: Linearisation) -> tuple[float, Array]:
        """P and its gradient, the ridge included."""
        return at.value + 0.5 * self.dot(self.l2 * at.x, at.x), at.gradient + self.l2 * at.x

    def _estimate(self, g: Array) -> float:
        features = self.problem.features
        return 0.5 * float((g[:features] ** 2 / self.l2[:features]).sum())

    def _search(
        self, at: Linearisation, value: float, slope: float, d: Array
    ) -> tuple[Linearisation, float, Array] | None:
        """The first of x + d, x + d/2, … at which P is low enough: f there, P and its gradient."""
        t = 1.0
        for _ in range(HALVINGS if slope < 0.0 else 0):
            new = self.second_order.linearise(at.x + t * d)
            then, g = self._whole(new)
            # near the minimum P is lost in rounding, but slopes are not
            flat = abs(self.dot(g, d)) <= 0.5 * -slope and then <= value + ROUNDING * abs(value)
            if then <= value + ARMIJO * t * slope or flat:
                return new, then, g
            t *= 0.5
        return None

    # --- the metric ----------------------------------------------------------------------------

    def metric(self, at: Linearisation, shared: bool) -> Callable[[Array], Array]:
        """A function that multiplies a gradient by the inverse blocks at x; all classes share one block, or each has its own."""
        if self.one_output:
            inverse = self.second_order.array(1.0 / np.maximum(self._diagonal(at), TINY))
            return lambda g: inverse * g
        if not self.has_metric:
            return np.copy
        inverses = self.blocks(at, shared)
        if shared:
            return lambda g: inverses[0] @ g
        return lambda g: np.ascontiguousarray(np.matmul(inverses, g.T[:, :, None])[:, :, 0].T)

    def _diagonal(self, at: Linearisation) -> Array:
        """An approximate diagonal of the Hessian: the mean curvature of the rows times the mean squares of the columns."""
        fit, mean = self.problem.datafit, self.second_order.mean_curvature(at)
        if not mean > 0.0:  # the loss is flat here: use its curvature elsewhere
            mean = float(fit.loss.curvature) if fit.loss.curvature < np.inf else 1.0
        squares = np.append(fit.column_squares, 1.0) if fit.bias else fit.column_squares
        return mean * squares + self.held

    def blocks(self, at: Linearisation, shared: bool) -> Array:
        """The inverses of the blocks at x: one that all classes share, or one for each."""
        l2, found = self.l2.T.mean(axis=0, keepdims=True) if shared else self.l2.T, []
        for H, ridge in zip(self.grams(at, shared), l2, strict=True):
            diagonal = H.diagonal() + ridge
            np.fill_diagonal(H, np.where(diagonal > 0.0, (1.0 + LIFT) * diagonal, 1.0))
            found.append(self.inverse(H))
        return np.array(found)

    def grams(self, at: Linearisation, shared: bool) -> Iterator[Array]:
        """(1/n) Σ w_i p_ik(1 - p_ik) a_i a_iᵀ for each class k, or of the mean of these factors."""
        p, scales = at.curvatures, self.second_order.weights / self.second_order.fit.n
        everything = np.arange(self.problem.features, dtype=np.uint32)
        bends = (p * (1.0 - p)).T
        for bend in bends.mean(axis=0, keepdims=True) if shared else bends:
            matters = bend >= LITTLE * bend.mean()
            yield self.second_order.gram(np.where(matters, scales * bend, 0.0), everything)

    def inverse(self, H: Array) -> Array:
        """H⁻¹."""
        return np.asarray(np.linalg.inv(H), dtype=np.float64)

    def _times(
        self, metric: Callable[[Array], Array], g: Array, steps: list[tuple[Array, Array, float]]
    ) -> Array:
        """The inverse of the quasi-Newton matrix times g: two loops over the remembered pairs."""
        q, shares = g.copy(), []
        for step, change, bent in reversed(steps):
            shares.append(self.dot(step, q) / bent)
            q -= shares[-1] * change
        d = metric(q)
        if steps:  # scale the metric to the last pair
            _, change, bent = steps[-1]
            d *= bent / self.dot(change, metric(change))
        for (step, change, bent), share in zip(steps, reversed(shares), strict=True):
            d += (share - self.dot(change, d) / bent) * step
        return d


def iterations_left(estimates: list[float], target: float) -> float:
    """Iterations left to the target, at the rate of the last half of the iterations; infinite without progress.

    Gradients go up and down on the way, so the least so far counts.
    """
    least = np.minimum.accumulate(estimates)
    last = least[(len(least) - 1) // 2 :]
    if not last[-1] > target:
        return 0.0
    if len(last) <= 1 or not (last[-1] < last[0] < np.inf and target > 0.0):
        return np.inf
    return float(np.log(last[-1] / target) * (len(last) - 1) / np.log(last[0] / last[-1]))
