"""Finds a start for Newton steps on many rows: near the minimiser of a sample of the rows.

From zero about five Newton steps are needed to come near the minimum, each with a pass over all rows and their Hessian. On m
random rows a step costs m/n as much. With d unknowns P at their minimiser is off by about d/m of f(0), so that two or three steps on
all rows are left.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from reshuffle.objective import Array
from reshuffle.problem import Problem
from reshuffle.randomness import generator
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_drivers import newton_driver
from reshuffle.solvers.exact.newton_steps import Progress

SHARE = 16
"""One row in SHARE is in the sample: all steps on it together cost about half a step on all rows."""
FOR_EACH = 10
"""The fewest rows of the sample for each unknown: with fewer, its minimiser is hardly better than zero."""
LONG = 4e5
"""A sample is worth its overhead if a step on all rows takes at least this many nanoseconds."""
STEPS = 10
"""The most steps on the sample. They bound the work on samples without a minimum, such as a single class without a penalty."""
LOOSEST = 1e-6
"""The loosest accuracy, over f(0), that is asked of the sample; farther from the minimum steps prove nothing."""


class SampleMinimiser(NamedTuple):
    """The point found, and how many rows were visited on the way."""

    x: Array
    visits: int


def can_begin_at_sample(problem: Problem, x: Array) -> bool:
    """Whether x is zero, a sample has enough rows, and several long steps would be made from zero.

    Losses without a bound on their curvature begin at zero: rare rows that determine their minimum (the few claims of an
    insurer) are missing from a sample, and a run from its minimiser took longer. One step minimises a quadratic.
    """
    fit, loss = problem.datafit, problem.loss
    enough = fit.n // SHARE >= FOR_EACH * prod(problem.shape)
    if not enough or loss.quadratic or not loss.curvature < np.inf or x.any():
        return False
    return costs.newton(problem, x, 1.0, fit.features) - costs.STEP_CALLS >= LONG


def minimiser_of_sample(problem: Problem, seed: int, tol: float) -> SampleMinimiser:
    """Newton steps from zero on one random row out of each ``SHARE``; zero where they fail."""
    count = problem.n // SHARE
    places = np.arange(count, dtype=np.int64) * SHARE
    chosen = places + generator(seed, 0).integers(SHARE, size=count)
    part = problem.take(chosen.astype(np.uint32))
    driver, zero = newton_driver(part), np.zeros(problem.shape)
    at_zero = abs(driver.at_zero) or 1.0
    target = max(tol, LOOSEST) * at_zero
    end = driver.run(driver.inner(zero), Progress(), target, at_zero, STEPS)
    found = end.at.x if np.isfinite(end.at.x).all() else zero
    return SampleMinimiser(found, end.passes * count)
