"""Solutions against other projects' solvers, and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import LOSSES, every_pair, penalty, random_data, sparse, unknown
from sklearn.linear_model import ElasticNet, HuberRegressor, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import reshuffle as rs

Data = tuple[Any, Any]


@every_pair
def test_fista_reaches_1e_12(loss: str, psi: str) -> None:
    X, y = random_data(LOSSES[loss], n=60)
    chosen = penalty(psi, unknown(loss))
    problem = rs.Problem(X, y, LOSSES[loss], chosen, ridge=0.01, fit_intercept=True)
    assert problem.gradient_mapping(rs.theory.solve(problem)) <= 1e-12
    result = rs.FISTA(tol=1e-9).solve(problem)
    assert result.reached, result.message
    last = result.trace.last()
    assert last["gap" if "gap" in last else "relative_mapping"] <= 1e-9


def test_logistic_elastic_net_against_scikit_learn(a1a: Data) -> None:
    X, y = a1a
    n, l1, l2 = X.shape[0], 2e-3, 1e-3
    ours = rs.theory.solve(rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1, l2)))
    theirs = LogisticRegression(
        C=1 / (n * (l1 + l2)), l1_ratio=l1 / (l1 + l2), solver="saga", fit_intercept=False,
        tol=1e-13, max_iter=20_000,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-7)


def test_weighted_ridge_with_intercept_against_scikit_learn() -> None:
    X, y = random_data(rs.losses.Squared(), n=80)
    weights = np.random.default_rng(1).random(80)
    problem = rs.Problem(
        X, y, rs.losses.Squared(), ridge=0.05, sample_weight=weights, fit_intercept=True
    )
    ours = rs.theory.solve(problem)
    theirs = Ridge(alpha=0.05 * weights.sum(), tol=1e-14).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours, [*theirs.coef_, theirs.intercept_], atol=1e-10)


def test_lasso_against_scikit_learn() -> None:
    X, y = random_data(rs.losses.Squared(), n=80)
    problem = rs.Problem(
        X, y, rs.losses.Squared(), rs.penalties.ElasticNet(0.05, 0.02), fit_intercept=True
    )
    ours = rs.theory.solve(problem)
    theirs = ElasticNet(alpha=0.07, l1_ratio=0.05 / 0.07, tol=1e-14, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours, [*theirs.coef_, theirs.intercept_], atol=1e-9)


def test_squared_hinge_against_liblinear() -> None:
    X, y = random_data(rs.losses.SquaredHinge(), n=80)
    ours = rs.theory.solve(rs.Problem(X, y, rs.losses.SquaredHinge(), ridge=0.1))
    # liblinear minimises ‖w‖²/2 + C Σ max(0, 1 - yz)²; ours is ridge/2 ‖w‖² + (1/2n) Σ …
    theirs = LinearSVC(C=1 / (2 * 80 * 0.1), fit_intercept=False, tol=1e-12, max_iter=200_000)
    np.testing.assert_allclose(ours, theirs.fit(X, y).coef_[0], atol=1e-6)


def test_multinomial_against_scikit_learn() -> None:
    X, y = random_data(rs.losses.Multinomial(), n=90)
    problem = rs.Problem(X, y, rs.losses.Multinomial(), ridge=0.02, fit_intercept=True)
    ours = rs.theory.solve(problem)
    theirs = LogisticRegression(C=1 / (90 * 0.02), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours[:-1].T, theirs.coef_, atol=1e-6)
    shift = ours[-1] - theirs.intercept_  # softmax does not see a common shift of the intercepts
    np.testing.assert_allclose(shift, shift.mean(), atol=1e-6)


def test_huber_against_scikit_learn() -> None:
    """Their scale σ is fitted too; with the data divided by it, theirs is our problem."""
    X, y = random_data(rs.losses.Huber(), n=120)
    y[:10] *= 20
    theirs = HuberRegressor(epsilon=1.35, alpha=0.01, tol=1e-10, max_iter=10_000).fit(X, y)
    sigma = theirs.scale_
    problem = rs.Problem(
        X, y / sigma, rs.losses.Huber(1.35), ridge=0.01 * sigma / 120, fit_intercept=True
    )
    # their loss of r/σ is twice ours, times σ: the ridge scales accordingly
    ours = rs.theory.solve(problem) * sigma
    np.testing.assert_allclose(ours, [*theirs.coef_, theirs.intercept_], atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [{}, {"order": rs.orders.ShuffleOnce()}, {"importance": True}, {"batch_size": 7}],
    ids=["reshuffle", "shuffle_once", "importance", "batches"],
)
def test_prox_rr_tends_to_the_minimiser(settings: dict[str, Any]) -> None:
    """With decreasing steps ‖x_T - x*‖ falls like 1/T."""
    problem = uneven_rows()
    minimiser = rs.theory.solve(problem)
    assert np.abs(minimiser).max() > 0.1

    def distance(epochs: int) -> float:
        step = rs.steps.Decreasing()
        solver = rs.ProxRR(step=step, epochs=epochs, eval_every=epochs, **settings)
        return float(np.linalg.norm(solver.solve(problem).x - minimiser))

    assert distance(4000) < 1e-3
    assert distance(4000) < distance(400) / 5


def uneven_rows(**kwargs: Any) -> rs.Problem:
    """Rows whose lengths differ by a factor of ten, so that importance matters."""
    X, y = random_data(rs.losses.Logistic(), n=50)
    X *= np.geomspace(0.3, 3.0, 50)[:, None]
    return rs.Problem(sparse(X), y, penalty=rs.penalties.ElasticNet(0.01, 0.1), **kwargs)


def test_importance_leaves_the_minimiser_in_place() -> None:
    """The mean over one epoch of resampled gradients at x* is the full gradient, exactly.

    With the weights 1/n_i of the paper's text it would be n/N of it.
    """
    problem = uneven_rows()
    x = rs.theory.solve(problem)
    pool, weights = rs.orders.copies(problem.smoothness.individual)
    assert problem.n < pool.size <= 2 * problem.n
    total = np.zeros_like(x)
    for i in pool:
        row = problem.take(np.array([i], dtype=np.uint32))
        total += weights[i] * row.gradient(x)
    np.testing.assert_allclose(total / pool.size, problem.gradient(x), atol=1e-15)
    assert (weights * problem.smoothness.individual).max() <= (
        pool.size / problem.n * problem.smoothness.L_mean * (1 + 1e-12)
    )


def test_importance_pays_when_rows_differ() -> None:
    """A consistent system with one row thirty times longer: 1/L_max crawls, 1/(2 L̄) does not."""
    X, _ = random_data(rs.losses.Squared(), n=200)
    X[1] *= 30
    solution = np.arange(1.0, 7.0)
    problem = rs.Problem(X, X @ solution, rs.losses.Squared())
    plain = rs.ProxRR(epochs=20).solve(problem)
    importance = rs.ProxRR(epochs=10, importance=True).solve(problem)
    assert importance.trace["gradients"][-1] <= plain.trace["gradients"][-1]
    error, improved = (np.linalg.norm(r.x - solution) for r in (plain, importance))
    assert improved < 1e-3 * error


@pytest.mark.parametrize("loss", LOSSES)
def test_ridge_inside_f_equals_ridge_inside_psi_at_the_optimum(loss: str) -> None:
    X, y = random_data(LOSSES[loss], n=60)
    common: Any = {"loss": LOSSES[loss], "fit_intercept": True}
    inside_f = rs.Problem(X, y, penalty=rs.penalties.L1(0.02), ridge=0.1, **common)
    inside_psi = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.02, 0.1), **common)
    x = rs.theory.solve(inside_f)
    assert inside_psi.gradient_mapping(x) < 1e-11
    assert np.isclose(inside_f.objective(x), inside_psi.objective(x), rtol=1e-14)
    assert inside_f.strong_convexity == inside_psi.strong_convexity == 0.1
