"""Honesty of the bounds on the new losses: no other solver may find a point below what a run calls its minimum.

pytest tests/losses/test_glm_honesty.py -m slow      # 400 random problems
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import reshuffle as rs

L, P = rs.losses, rs.penalties
LOSSES: list[Any] = [
    L.Poisson(), L.Gamma(), L.Tweedie(1.2), L.Tweedie(1.8), L.NegativeBinomial(0.3), L.NegativeBinomial(20.0),
    L.Probit(), L.ComplementaryLogLog(),
]  # fmt: skip
ROUNDING = 1e-13
"""P is known to this share of |P| + f(0)."""


def random_problem(rng: np.random.Generator) -> rs.Problem:
    """Any loss, sizes, scales of columns from 1e-3 to 1e3, with or without offsets, weights, an intercept, ties."""
    loss = LOSSES[rng.integers(len(LOSSES))]
    n, d = int(rng.integers(5, 80)), int(rng.integers(1, 12))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d)
    if rng.random() < 0.3:
        X[:, -1] = X[:, 0] * (1.0 + 1e-7 * rng.standard_normal(n))  # nearly the same column twice
    if rng.random() < 0.2:
        X *= rng.random((n, d)) < 0.2
    z = np.clip(X @ (rng.standard_normal(d) / (1e-9 + np.abs(X).max(axis=0))), -5, 5)
    if loss.targets == "signs":
        y = np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
    elif loss.targets == "positive":
        y = np.exp(z) * rng.gamma(1.0, 1.0, n) * 10.0 ** rng.uniform(-2, 4) + 1e-6
    else:
        y = rng.poisson(np.exp(z)) * (1.0 if rng.random() < 0.5 else 37.5)
        y[0] = max(y[0], 1.0)
    penalty: Any = [P.L2(10.0 ** rng.uniform(-8, 0)), P.ElasticNet(10.0 ** rng.uniform(-5, -1), 10.0 ** rng.uniform(-8, -1))][rng.integers(2)]  # fmt: skip
    return rs.Problem(
        X, y, loss, penalty, sample_weight=rng.integers(0, 3, n) + (np.arange(n) < 2) if rng.random() < 0.4 else None,
        fit_intercept=bool(rng.random() < 0.6), offset=rng.normal(0.0, 2.0, n) if rng.random() < 0.6 else None,
    )  # fmt: skip


def lowest(problem: rs.Problem, x: Any) -> float:
    """The lowest P that others find from here and from zero: a tighter run, and L-BFGS-B on x = u - v."""
    found = [problem.objective(rs.ExactProxRR(tol=1e-15).solve(problem, x0).x) for x0 in (x, None)]
    d = problem.features
    penalty: Any = problem.penalty
    l1, l2 = getattr(penalty, "l1", 0.0), penalty.l2 if hasattr(penalty, "l2") else penalty.strength

    def split(u: Any) -> tuple[float, Any]:
        w = np.concatenate([u[:d] - u[d : 2 * d], u[2 * d :]])
        g = problem.gradient(w)
        smooth = problem.value(w) + 0.5 * l2 * float(w[:d] @ w[:d])
        g[:d] += l2 * w[:d]
        both = np.concatenate([g[:d] + l1, l1 - g[:d], g[d:]])
        return smooth + l1 * float(u[: 2 * d].sum()), both

    begin = np.concatenate([np.maximum(x[:d], 0.0), np.maximum(-x[:d], 0.0), x[d:]])
    bounds = [(0, None)] * (2 * d) + [(None, None)] * (x.size - d)
    other = minimize(split, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 2000, "ftol": 0.0, "gtol": 0.0})  # fmt: skip
    w = np.concatenate([other.x[:d] - other.x[d : 2 * d], other.x[2 * d :]])
    return min(*found, problem.objective(w))


def check(seed: int) -> bool:
    """Whether the run claims a bound; an AssertionError where the bound is false."""
    rng = np.random.default_rng([seed, 77])
    problem = random_problem(rng)
    tol = float(10.0 ** rng.uniform(-12, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = rs.ExactProxRR(tol=tol).solve(problem)
        if not result.converged:
            return False
        scale = abs(problem.datafit.at_zero)
        here = problem.objective(result.x)
        gap = float(result.trace["gap"][-1])
        assert gap <= tol
        below = here - lowest(problem, result.x)
        assert below <= gap * scale + ROUNDING * (abs(here) + scale), (seed, problem, tol, gap, below / scale)  # fmt: skip
    return True


def test_bounds_are_true_on_some_random_problems() -> None:
    claimed = [check(seed) for seed in range(25)]
    assert np.mean(claimed) > 0.9


@pytest.mark.slow
def test_bounds_are_true_on_many_random_problems() -> None:
    claimed = [check(seed) for seed in range(1000, 1400)]
    assert np.mean(claimed) > 0.9
