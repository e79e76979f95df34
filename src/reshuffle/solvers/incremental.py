"""The epoch that all shuffled and sampled methods share: a sweep, then perhaps a prox."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from reshuffle.errors import StepWarning
from reshuffle.finite_sum import Array, FiniteSum, Visits
from reshuffle.orders import Order, copy_weights, expanded, with_replacement
from reshuffle.randomness import generator
from reshuffle.solvers.base import Epoch, Method, State
from reshuffle.steps import Schedule, Setting, Step, checked
from reshuffle.validation import read_only


@dataclass(frozen=True, eq=False)
class Sampling:
    """Which samples the steps of an epoch use, and with which weights.

    A step averages over a batch B: its function is average·Σ_{i in B} w_i f_i. The mean of these
    functions over an epoch is f, also when the last batch is shorter.
    """

    problem: FiniteSum
    visits: Callable[[np.random.Generator, int], Visits]
    weights: Array | None
    batch: int
    average: float
    steps: int
    smoothness: float
    """L_max of the functions of single steps."""


def permuted(
    problem: FiniteSum, order: Order, batch: int, importance: bool, rng: np.random.Generator
) -> Sampling:
    """Every sample (or copy of it) once an epoch, in the given order.

    ``rng`` is the generator of the first epoch, from which a fixed order is drawn.
    """
    count, weights, largest = problem.n, None, _largest(problem)
    if importance and largest > problem.ridge:
        constants = problem.smoothness.individual
        constants -= problem.ridge
        weights, count = copy_weights(constants)
        constants *= weights
        largest = float(constants.max()) + problem.ridge
        del constants  # before the visits come
    steps = ceil(count / batch)
    average = steps / count
    smoothness = batch * average * largest
    listed = weights
    weights = _combined(problem, weights)

    def pool() -> Visits:  # made anew each time: it costs little, and need not be kept
        return np.arange(count, dtype=np.uint32) if listed is None else expanded(listed, count)

    if order.fixed:
        visits = order.visits(pool(), rng, 0)
        if getattr(order, "store", False):
            problem = problem.take(visits)
            weights = None if weights is None else read_only(weights[visits])
            visits = np.arange(count, dtype=np.uint32)
        return Sampling(
            problem, lambda rng, epoch: visits, weights, batch, average, steps, smoothness
        )

    def draw(rng: np.random.Generator, epoch: int) -> Visits:
        return order.visits(pool(), rng, epoch)

    return Sampling(problem, draw, weights, batch, average, steps, smoothness)


def independent(problem: FiniteSum, batch: int, importance: bool) -> Sampling:
    """Independent draws, uniform or with p_i ∝ L_i and weight L̄/L_i (importance sampling)."""
    steps, weights, cumulative, largest = ceil(problem.n / batch), None, None, _largest(problem)
    if importance:
        constants = problem.smoothness.individual
        constants -= problem.ridge
        mean = float(constants.mean())
        weights = np.divide(mean, constants, out=np.zeros(problem.n), where=constants > 0)
        cumulative = np.cumsum(constants, out=constants)
        cumulative /= cumulative[-1]
        largest = mean + problem.ridge  # w_i·L_i = L̄

    def draw(rng: np.random.Generator, epoch: int) -> Visits:
        return with_replacement(steps * batch, problem.n, rng, cumulative)

    weights = _combined(problem, weights)
    return Sampling(problem, draw, weights, batch, 1.0 / batch, steps, largest)


def _largest(problem: FiniteSum) -> float:
    """L_max; NaN for an oracle without constants."""
    try:
        return problem.smoothness.maximum
    except ValueError:
        return np.nan


def bound(step: Step, setting: Setting, problem: FiniteSum) -> Schedule:
    """γ_t for this problem; where γ_0 wants a constant that it lacks, the problem says why."""
    schedule = step.bind(setting)
    first = schedule(0)
    if isinstance(first, float) and not np.isfinite(first) and not setting.smoothness > 0:
        problem.smoothness.require()
    return checked(schedule)


def inverse(smoothness: float) -> float:
    """1/L, infinite where L = 0."""
    return 1.0 / smoothness if smoothness else np.inf


def _combined(problem: FiniteSum, weights: Array | None) -> Array | None:
    """The weights of the copies times those of the samples."""
    if weights is None:
        return None
    return read_only(weights * problem.weights if problem.weights.size else weights)


class Incremental(Method):
    """An epoch: gradient steps over the visits; a prox after each of them, or one at the end."""

    def __init__(
        self,
        problem: FiniteSum,
        sampling: Sampling,
        schedule: Schedule,
        seed: int,
        prox_each_step: bool,
    ) -> None:
        super().__init__(problem)
        self.seed = seed
        self.sampling, self.schedule = sampling, schedule
        self.prox_each_step = prox_each_step
        self.safe_step = 1.0 / sampling.smoothness if sampling.smoothness > 0 else np.inf

    def start(self, x0: Array) -> State:
        return {"x": x0}

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        sampling, x = self.sampling, state["x"].copy()
        visits = sampling.visits(generator(self.seed, epoch), epoch)
        sampling.problem.sweep(
            x,
            visits,
            step,
            weights=sampling.weights,
            batch=sampling.batch,
            average=sampling.average,
            prox_step=step if self.prox_each_step else 0.0,
        )
        if self.prox_each_step:
            return Epoch({"x": x}, visits.size, sampling.steps)
        if not np.isfinite(x).all():  # a diverged sweep: the loop says so
            return Epoch({"x": x}, visits.size, 0)
        after = sampling.problem.prox(x, step * sampling.steps)
        if epoch == 0:
            self._warn_if_wiped_out(x, after, step)
        return Epoch({"x": after}, visits.size, 1)

    def _warn_if_wiped_out(self, before: Array, after: Array, step: float) -> None:
        penalised = slice(self.sampling.problem.penalised)
        left = np.linalg.norm(after[penalised])
        moved = np.linalg.norm(before[penalised])
        if moved > 0 and left <= 0.05 * moved:
            warnings.warn(
                f"the prox at the end of the epoch took away {1 - left / moved:.0%} of the iterate: "
                f"with step {step:.3g} its parameter step·n = {step * self.sampling.steps:.3g} is "
                "too strong for this penalty; use a smaller or decreasing step",
                StepWarning,
                stacklevel=5,
            )
