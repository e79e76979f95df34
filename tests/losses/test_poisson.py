"""The Poisson loss, whose curvature has no bound: Newton steps alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from oracles import PENALTIES, fits, penalty
from sklearn.linear_model import PoissonRegressor

import reshuffle as rs
from reshuffle.penalties import ability
from reshuffle.solvers.exact import Newton
from reshuffle.solvers.exact.newton_steps import ABILITIES

Array = NDArray[np.float64]


def counts(n: int = 300, d: int = 6, level: float = 0.5, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    mean = np.exp(X @ rng.standard_normal(d) * 0.3 + level)
    return X, rng.poisson(mean).astype(np.float64)


both_ways = pytest.mark.parametrize("at_once", [True, False], ids=["one call", "steps"])


@both_ways
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("level", [-3.0, 0.5, 8.0])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_the_minimiser_is_that_of_scikit_learn(
    alpha: float, level: float, intercept: bool, at_once: bool
) -> None:
    X, y = counts(level=level)
    problem = rs.Problem(X, y, rs.losses.Poisson(), ridge=alpha, fit_intercept=intercept)
    result = rs.ExactProxRR(tol=1e-12, phases=[Newton(at_once)]).solve(problem)
    assert result.converged, result.message
    peer = PoissonRegressor(
        alpha=alpha, fit_intercept=intercept, solver="newton-cholesky", tol=1e-10, max_iter=1000
    )
    with np.errstate(all="ignore"):  # it steps too far at times, and comes back
        peer.fit(X, y)
    theirs = np.append(peer.coef_, peer.intercept_) if intercept else peer.coef_
    np.testing.assert_allclose(result.x, theirs, rtol=1e-6, atol=1e-6)


def _is_able(name: str) -> bool:
    return fits(name, (6,)) and all(ability(penalty(name, (6,)), one) for one in ABILITIES)


@both_ways
@pytest.mark.parametrize("name", [name for name in PENALTIES if _is_able(name)])
def test_every_able_penalty(name: str, at_once: bool) -> None:
    """No first-order step is left at x: the prox of a short gradient step does not move it."""
    X, y = counts(n=120)
    psi = penalty(name, (6,))
    problem = rs.Problem(sp.csr_matrix(X), y, rs.losses.Poisson(), psi, fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-13, phases=[Newton(at_once)]).solve(problem)
    assert result.trace["gap"][-1] <= 1e-12
    step = 1e-3
    moved = problem.prox(result.x - step * problem.gradient(result.x), step)
    assert np.abs(moved - result.x).max() <= 1e-6 * step * (1.0 + y.mean())


def test_weights_repeat_rows() -> None:
    X, y = counts(n=60)
    times = np.arange(60) % 3
    weighted = rs.Problem(X, y, rs.losses.Poisson(), ridge=0.1, sample_weight=times)
    repeated = rs.Problem(
        np.repeat(X, times, axis=0), np.repeat(y, times), rs.losses.Poisson(), ridge=0.1
    )
    ours, theirs = (rs.ExactProxRR(tol=1e-12).solve(p).x for p in (weighted, repeated))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_accuracy_is_true() -> None:
    X, y = counts(n=2000, d=160, level=1.0)  # more than a small set
    problem = rs.Problem(X, y, rs.losses.Poisson(), rs.penalties.L1(0.05), fit_intercept=True)
    best = problem.objective(rs.ExactProxRR(tol=1e-13).solve(problem).x)
    at_zero = problem.value(np.zeros(problem.shape))
    for tol in (1e-2, 1e-4, 1e-6, 1e-9):
        result = rs.ExactProxRR(tol=tol).solve(problem)
        assert result.converged
        true = (problem.objective(result.x) - best) / at_zero
        assert true <= result.trace["gap"][-1] + 1e-13
        assert result.trace["gap"][-1] <= tol


@pytest.mark.parametrize(
    "solver", [rs.ProxRR(), rs.ProxSGD(), rs.FISTA(), rs.ExactProxRR(finish=False)], ids=repr
)
def test_methods_that_need_a_bound_say_so(solver: Any) -> None:
    problem = rs.Problem(*counts(), rs.losses.Poisson())
    with pytest.raises(rs.InputError, match=r"Poisson\(\) has no bound on its curvature"):
        solver.solve(problem)


def test_clients_that_need_a_bound_say_so() -> None:
    clients = rs.federated.split(rs.Problem(*counts(), rs.losses.Poisson()), clients=3, seed=0)
    with pytest.raises(rs.InputError, match=r"Poisson\(\) has no bound on its curvature"):
        rs.FedRR(rounds=2).solve(clients)


def test_a_penalty_without_the_abilities_is_named() -> None:
    problem = rs.Problem(*counts(), rs.losses.Poisson(), rs.penalties.L1Ball(1.0))
    with pytest.raises(rs.InputError, match="need a penalty with compiled, part, excess, together"):
        rs.ExactProxRR().solve(problem)


def test_targets_must_not_be_negative() -> None:
    X, y = counts()
    with pytest.raises(rs.InputError, match=r"y must not be negative for Poisson\(\), got -1"):
        rs.Problem(X, y - 1.0, rs.losses.Poisson())


def test_counts_that_are_all_zero_end_at_the_infimum() -> None:
    """exp(z) → 0 as the intercept falls: there is no minimiser, and P comes as near to 0 as asked."""
    X, _ = counts(n=50)
    problem = rs.Problem(X, np.zeros(50), rs.losses.Poisson(), fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-6).solve(problem)
    assert result.converged
    assert problem.objective(result.x) <= 1e-6
