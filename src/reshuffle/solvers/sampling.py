"""Which samples the steps of an epoch use, how often each, and with which weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from reshuffle.arrays import Array, Visits
from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum, Objective
from reshuffle.orders import (
    Order,
    Reshuffle,
    ShardWindows,
    copy_weights,
    expanded,
    is_fixed,
    order_on,
    visits_of,
    with_replacement,
)
from reshuffle.steps import Schedule, Setting, StepGiven, check_step, checked
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
    """Every sample (or copy of it) once per epoch, in the given order.

    ``rng`` is the generator of the first epoch, from which a fixed order is drawn.
    """
    order = order_on(order, problem.datafit)
    if importance:
        refuse_copies(problem)
    count, weights, largest = problem.n, None, smoothness_of(problem)
    if importance and largest > problem.ridge:
        constants = problem.smoothness.individual
        constants -= problem.ridge
        weights, count = copy_weights(constants)
        constants *= weights
        largest = float(constants.max()) + problem.ridge
        del constants  # freed before the visits are made
    batch = min(batch, count)  # a larger batch has no more samples, and its step would be too small
    steps = ceil(count / batch)
    average = steps / count
    smoothness = batch * average * largest
    listed = weights
    weights = _combined(problem, weights)

    def pool() -> Visits:  # made anew each time: this is cheap and saves memory
        return np.arange(count, dtype=np.uint32) if listed is None else expanded(listed, count)

    fixed = visits_of(order, pool(), rng, 0) if is_fixed(order) else None
    if fixed is not None and getattr(order, "store", False):
        problem = problem.take(fixed)
        weights = None if weights is None else read_only(weights[fixed])
        fixed = np.arange(count, dtype=np.uint32)

    def draw(rng: np.random.Generator, epoch: int) -> Visits:
        return visits_of(order, pool(), rng, epoch) if fixed is None else fixed

    return Sampling(problem, draw, weights, batch, average, steps, smoothness)


def independent(problem: FiniteSum, batch: int, importance: bool) -> Sampling:
    """Independent draws, uniform or with p_i ∝ L_i and weight L̄/L_i (importance sampling)."""
    steps, largest = ceil(problem.n / batch), smoothness_of(problem)
    weights = cumulative = None
    if importance:
        refuse_copies(problem)
        constants = problem.smoothness.individual
        constants -= problem.ridge
        mean = float(constants.mean())
        weights = np.divide(mean, constants, out=np.zeros(problem.n), where=constants > 0)
        cumulative = np.cumsum(constants, out=constants)
        cumulative /= cumulative[-1]
        largest = mean + problem.ridge  # w_i·L_i = L̄

    on_disk = order_on(Reshuffle(), problem.datafit)

    def draw(rng: np.random.Generator, epoch: int) -> Visits:
        if isinstance(on_disk, ShardWindows):
            return on_disk.draws(steps * batch, rng)
        return with_replacement(steps * batch, problem.n, rng, cumulative)

    weights = _combined(problem, weights)
    return Sampling(problem, draw, weights, batch, 1.0 / batch, steps, largest)


def refuse_copies(problem: FiniteSum) -> None:
    """Refuse importance sampling on disk: copies of samples are visited in an order for which windows of rows do not work."""
    if problem.datafit is not None and problem.datafit.on_disk:
        raise InputError(
            "importance must be False where rows lie on disk: copies of samples need all rows in memory"
        )


def smoothness_of(problem: Objective) -> float:
    """L_max; NaN if it is not known."""
    try:
        return problem.smoothness.L_max
    except ValueError:
        return np.nan


def schedule_of(
    step: StepGiven, problem: Objective, smoothness: float, steps: int, limit: int, default: float
) -> Schedule:
    """γ_t of a run of at most ``limit`` epochs, of so many steps each; ``default`` is the γ if none was given."""
    convexity, contraction = problem.strong_convexity, problem.contraction
    setting = Setting(smoothness, convexity, contraction, steps, limit, default)
    return bind_step(step, setting, problem)


def bind_step(step: StepGiven, setting: Setting, problem: Objective) -> Schedule:
    """γ_t for this problem. If the step needs a constant that the problem lacks, the problem's error says why."""
    schedule = check_step(step).bind(setting)
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


def resampled(problem: FiniteSum, importance: bool | None) -> tuple[Visits, Array, float]:
    """Owners and weights of the copies (both empty if there are none), and the largest L of the copies.

    The work of the method grows like N + 2L/μ, for N functions that are L-smooth. Copies are
    made if that lowers this sum: ⌈L_i/c⌉ copies of sample i, for the best of a few c between L̄ and L_max.
    """
    smoothness, n = problem.smoothness, problem.n
    largest, mean = (constant - problem.ridge for constant in (smoothness.L_max, smoothness.L_mean))
    if not np.isfinite(largest):
        smoothness.require()
    none = np.empty(0, dtype=np.uint32), np.empty(0), largest
    if importance:
        refuse_copies(problem)
    if importance is None and problem.datafit is not None and problem.datafit.on_disk:
        return none
    if importance is False or not largest > 0:
        return none
    mu = max(problem.strong_convexity, mean / n)
    if importance is None and n + 2.0 * mean / mu > 0.9 * (n + 2.0 * largest / mu):
        return none
    asked = importance, mu, problem.ridge
    found: tuple[Visits, Array, float] = smoothness.kept(
        asked, lambda: _cheapest_copies(problem, importance, mu) or none
    )
    return found


def _cheapest_copies(
    problem: FiniteSum, importance: bool | None, mu: float
) -> tuple[Visits, Array, float] | None:
    """Copies that lower the work by a tenth or more; any copies if they were asked for."""
    constants = problem.smoothness.individual - problem.ridge
    mean, most = float(constants.mean()), float(constants.max())
    best, chosen = problem.n + 2.0 * most / mu, None
    for sixths in range(1 if importance else 6):
        weights, count = copy_weights(constants, mean * (most / mean) ** (sixths / 6))
        largest = float(np.max(weights * constants))
        work = count + 2.0 * largest / mu
        if work < 0.9 * best or (importance and chosen is None):
            best, chosen = work, (weights, count, largest)
    if chosen is None:
        return None
    weights, count, largest = chosen
    pool = expanded(weights, count)
    return pool, weights[pool], largest
