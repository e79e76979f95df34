"""Where Newton steps on many rows begin: near the minimiser of a sample of them.

Newton steps from zero take five or so to come near, each with a pass over all rows and their Hessian. On m random rows they
cost m/n as much, and with d unknowns their minimiser is off by about d/m of f(0): two or three steps on all rows are left.
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
"""One row in so many is in the sample: all steps on it cost about half a step on all rows."""
FOR_EACH = 10
"""Rows of the sample for each unknown at least: with fewer its minimiser is hardly nearer than zero."""
LONG = 5e5
"""Nanoseconds of a step on all rows from which on the calls for a sample are worth their time."""
STEPS = 10
"""Steps on the sample at most. One that has no minimum, as of a single class without a penalty, is left there."""
LOOSEST = 1e-6
"""The accuracy, over f(0), that is asked of the sample at least; steps from farther out prove nothing."""


class SampleMinimiser(NamedTuple):
    """The point found, and how many rows were visited on the way."""

    x: Array
    visits: int


def can_begin_at_sample(problem: Problem, x: Array) -> bool:
    """Whether x is zero, a sample has rows enough, and several long steps would be made from zero.

    Losses without a bound on their curvature begin at zero: the rare rows that decide their minimum (the few claims of an
    insurer) are missing from a sample, and the way back from there took longer. One step minimises a quadratic.
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
