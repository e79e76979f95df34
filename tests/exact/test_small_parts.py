"""Working sets that are small problems: begun with few features, grown as long as some are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import random_data

import reshuffle as rs
from reshuffle.arrays import Visits
from reshuffle.solvers.exact.newton_compiled import is_strongly_held
from reshuffle.solvers.exact.working_sets import FIRST, WorkingSets
from reshuffle.solvers.slope_table import LinearModelTable

P = rs.penalties
NO_OWNERS: Visits = np.empty(0, dtype=np.uint32)


def wide(loss: rs.losses.Loss, penalty: Any, **settings: Any) -> rs.Problem:
    """More features than a small set may have, and more than a few of them needed."""
    X, y = random_data(loss, n=80, d=200)
    return rs.Problem(X, y, loss, penalty, **settings)


def sets_of(problem: rs.Problem) -> WorkingSets:
    return WorkingSets(LinearModelTable(problem, NO_OWNERS, np.empty(0)))


LOSSES = [rs.losses.Logistic(), rs.losses.Huber(0.5), rs.losses.SquaredHinge(), rs.losses.Multinomial()]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("share", [0.5, 0.02])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_minimiser_is_that_of_fista(
    loss: rs.losses.Loss, share: float, intercept: bool
) -> None:
    strength = share * wide(loss, P.L1(1.0), fit_intercept=intercept).lambda_max()
    problem = wide(loss, P.ElasticNet(strength, strength / 10.0), fit_intercept=intercept)
    assert sets_of(problem).first == FIRST
    result = rs.ExactProxRR(tol=1e-10).solve(problem)
    assert result.converged
    reference = rs.FISTA(tol=1e-11, epochs=100_000).solve(problem)
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) <= problem.objective(reference.x) + 1e-10 * scale
    began_with_few = result.trace["active"][0] < problem.features
    assert began_with_few != is_strongly_held(problem)  # all steps are then one call


@pytest.mark.parametrize("penalty", [P.GroupLasso(0.03, np.arange(200) // 4), P.NonNegative() + P.L1(0.01)])  # fmt: skip
def test_groups_and_bounds(penalty: Any) -> None:
    problem = wide(rs.losses.Logistic(), penalty)
    result = rs.ExactProxRR(tol=1e-9).solve(problem)
    reference = rs.FISTA(tol=1e-10, epochs=100_000).solve(problem)
    assert result.converged
    assert abs(problem.objective(result.x) - problem.objective(reference.x)) < 1e-8


def test_few_features_are_the_likeliest_and_at_most_as_many_again() -> None:
    problem = wide(rs.losses.Logistic(), P.L1(1e-3))
    sets, zero = sets_of(problem), np.zeros(problem.shape)
    g = problem.gradient(zero)
    found = sets.few(zero, g, sets.everything[:0])
    assert found is not None
    assert found.size == FIRST
    others = np.setdiff1d(sets.everything, found)
    assert np.abs(g[found]).min() >= np.abs(g[others]).max()
    x = zero.copy()
    x[:30] = 1.0
    grown = sets.few(x, g, sets.everything[:30])
    assert grown is not None
    assert grown.size == 60
    assert set(range(30)) <= set(grown.tolist())


def test_a_feature_that_may_not_rest_is_added() -> None:
    """Whatever the gradient at x: where |∇_j f| exceeds the strength at the minimiser of a part, j is added.

    The bound on P(x) - P(x*) in the part is all that is known; x is near its minimiser x*, not at it.
    """
    strength, seen = 0.05, 0
    problem = wide(rs.losses.Logistic(), P.L1(strength))
    sets, rng = sets_of(problem), np.random.default_rng(0)
    for _ in range(50):
        active = np.sort(rng.choice(200, 25, replace=False)).astype(np.uint32)
        part = problem.columns(active)
        best = rs.ExactProxRR(tol=1e-13).solve(part).x
        near = best + rng.standard_normal(25) * 10.0 ** rng.uniform(-4, 0) * (best != 0)
        bound = part.objective(near) - part.objective(best)
        points = (sets.extend(x, active) for x in (near, best))
        at_near, at_best = (problem.gradient(x) for x in points)
        needed = np.flatnonzero(np.abs(at_best) > strength * (1 + 1e-9))
        added = sets.add(active, at_near, bound)
        assert set(needed.tolist()) <= set(added.tolist())
        resting = np.flatnonzero(np.abs(at_near) <= strength)
        seen += np.setdiff1d(np.intersect1d(needed, resting), active).size
    assert seen > 0  # some were needed although the gradient at x would have held them


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 2.0, 60)])
@pytest.mark.parametrize("intercept", [False, True])
def test_least_squares_takes_one_step(weights: Any, intercept: bool) -> None:
    X, y = random_data(rs.losses.Squared(), n=60, d=15)
    problem = rs.Problem(
        X, y, rs.losses.Squared(), P.ElasticNet(0.01, 0.001), sample_weight=weights,
        fit_intercept=intercept,
    )  # fmt: skip
    result = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert result.converged
    assert result.trace["newton"][-1] == 1
    reference = rs.FISTA(tol=1e-13, epochs=100_000).solve(problem)
    assert abs(problem.objective(result.x) - problem.objective(reference.x)) < 1e-12


@pytest.mark.parametrize(
    ("loss", "strongly"), [(rs.losses.Squared(), True), (rs.losses.Huber(0.5), False)]
)
def test_squares_on_wide_sets_are_strongly_held_down_to_a_weaker_penalty(
    loss: Any, strongly: bool
) -> None:
    """Their first model is f itself."""
    strength = 0.02 * wide(loss, P.L1(1.0)).lambda_max()
    assert is_strongly_held(wide(loss, P.L1(strength))) == strongly
