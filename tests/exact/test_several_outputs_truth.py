"""Losses of several outputs: certified where they say so, and no crash on columns that are empty or heavy-tailed.

Minimisers are those of numpy's linear algebra, scikit-learn and scipy.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.linear_model import MultiTaskLasso

import reshuffle as rs
from reshuffle.losses import Multinomial, Squared
from reshuffle.penalties import L1, L2, ElasticNet, GroupLasso
from reshuffle.solvers.certificate import Gap, certificate_of
from reshuffle.solvers.exact.decrement import newton_decrement
from reshuffle.solvers.exact.newton_compiled import is_small
from reshuffle.solvers.second_order import SecondOrder

ROWS, FEATURES, OUTPUTS = 1200, 90, 4


def hard(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of different size, a common direction, a mean, and one output far larger than the others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, FEATURES)) + 3.0 * rng.standard_normal((ROWS, 1)) + 2.0
    X *= 10.0 ** rng.uniform(-2, 2, FEATURES)
    B = (rng.standard_normal((FEATURES, OUTPUTS)) * (rng.random((FEATURES, 1)) < 0.3)) / X.std(0)[
        :, None
    ]
    Y = X @ B + rng.standard_normal((ROWS, OUTPUTS)) + 4.0
    return X, Y * np.array([1e3, 1.0, 1.0, 0.1])  # fmt: skip


def centred(A: np.ndarray, w: np.ndarray) -> np.ndarray:
    found: np.ndarray = A - (w @ A) / w.sum()
    return found


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 1e-4, 0.1])
def test_squares_with_a_ridge_are_certified_at_the_normal_equations(
    ridge: float, weighted: bool, layout: str
) -> None:
    X, Y = hard(0)
    w = np.random.default_rng(1).pareto(1.5, ROWS) + 0.01 if weighted else np.ones(ROWS)
    w *= ROWS / w.sum()
    A, T = centred(X, w), centred(Y, w)
    root = np.sqrt(w / ROWS)[:, None]
    stacked = np.vstack([root * A, np.sqrt(ridge) * np.eye(FEATURES)])
    targets = np.vstack([root * T, np.zeros((FEATURES, OUTPUTS))])
    B = np.linalg.lstsq(stacked, targets, rcond=None)[0]
    best = np.vstack([B, (w @ (Y - X @ B)) / w.sum()])
    problem = rs.Problem(
        X if layout == "dense" else sp.csr_matrix(X), Y, Squared(), L2(ridge) if ridge else None,
        sample_weight=w if weighted else None, fit_intercept=True,
    )  # fmt: skip
    assert not is_small(problem)
    for tol in (1e-3, 1e-6, 1e-9):
        result = rs.ExactProxRR(tol=tol).solve(problem)
        above = problem.objective(result.x) - problem.objective(best)
        assert result.converged
        assert "gap" in result.message
        assert above <= tol * problem.datafit.at_zero


@pytest.mark.parametrize("strength", [0.3, 0.01])
def test_rows_as_groups_are_those_of_scikit_learn(strength: float) -> None:
    X, Y = hard(1)
    X = (X - X.mean(0)) / X.std(0)
    unit = GroupLasso(1.0, weights=np.ones(FEATURES))
    make: dict[str, Any] = {"loss": Squared(), "fit_intercept": True}
    lam = strength * rs.Problem(X, Y, penalty=unit, **make).lambda_max()
    problem = rs.Problem(X, Y, penalty=GroupLasso(lam, weights=np.ones(FEATURES)), **make)
    theirs = MultiTaskLasso(alpha=lam, tol=1e-12, max_iter=100_000).fit(X, Y)
    best = np.vstack([theirs.coef_.T, theirs.intercept_])
    for tol in (1e-3, 1e-6, 1e-9):
        result = rs.ExactProxRR(tol=tol).solve(problem)
        assert result.converged
        above = problem.objective(result.x) - problem.objective(best)
        assert above <= tol * problem.datafit.at_zero
    assert np.allclose(result.x, best, atol=1e-4 * np.abs(best).max())


@pytest.mark.parametrize("intercept", [False, True])
def test_the_gap_of_squares_bounds_what_is_left(intercept: bool) -> None:
    X, Y = hard(2)
    problem = rs.Problem(X, Y, Squared(), ElasticNet(0.1, 0.1), fit_intercept=intercept)
    measure = certificate_of(problem)
    assert isinstance(measure, Gap)
    best = problem.objective(rs.ExactProxRR(tol=1e-12).solve(problem).x)
    rng = np.random.default_rng(3)
    for scale in (0.0, 1e-3, 1.0):
        x = (
            scale
            * rng.standard_normal(problem.shape)
            / np.append(X.std(0), [1.0] * intercept)[:, None]
        )
        left = problem.objective(x) - best
        assert measure.at(x) * problem.datafit.at_zero >= left * (1 - 1e-9)


def test_a_run_that_the_mapping_ends_says_that_it_bounds_nothing() -> None:
    X, Y = hard(3)
    problem = rs.Problem(
        X[:, :5], Y, Squared()
    )  # nothing is penalised, and FISTA makes no Newton steps
    result = rs.FISTA(tol=1e-2, epochs=20_000).solve(problem)
    assert result.stationary
    assert not result.converged
    assert result.message.startswith("stationary: relative gradient mapping = ")
    assert result.message.endswith("which is not a bound on P(x) - P*")
    assert "converged" not in result.summary()


# --- text with many classes --------------------------------------------------------------------


@cache
def text(classes: int, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of unit length whose columns are heavy-tailed, most of them empty."""
    rng = np.random.default_rng(seed)
    n, d = 1500, 9000
    A: Any = sp.random(n, d, 30 / d, format="csr", random_state=1)
    where = (rng.pareto(1.0, A.nnz) * 20).astype(int) % d
    A = sp.csr_matrix((A.data, where, A.indptr), shape=(n, d))
    A.sum_duplicates()
    A = sp.diags(1.0 / np.maximum(np.sqrt(A.multiply(A).sum(axis=1).A1), 1e-12)) @ A
    z = A @ (5.0 * rng.standard_normal((classes, d))).T
    return sp.csr_matrix(A), (z + rng.gumbel(size=(n, classes))).argmax(1)


PHASES: dict[str, dict[str, Any]] = {
    "default": {},
    "shuffled epochs": {"finish": False, "step": 0.5},
    "accelerated": {"finish": False},
    "looked at": {"eval_every": 1, "check_every": 1},
}


@pytest.mark.parametrize("phase", list(PHASES))
@pytest.mark.parametrize("kind", ["softmax", "squares"])
@pytest.mark.parametrize("penalty", [L2(1e-3), L1(1e-3), ElasticNet(1e-5, 1e-3), GroupLasso(1e-4)],
                         ids=repr)  # fmt: skip
def test_empty_and_heavy_tailed_columns(kind: str, penalty: Any, phase: str) -> None:
    A, y = text(6)
    assert np.count_nonzero(np.diff(A.tocsc().indptr) == 0) > 1000
    loss, targets = (Multinomial(), y) if kind == "softmax" else (Squared(), np.eye(6)[y])
    problem = rs.Problem(A, targets, loss, penalty, fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        most = 1000 if phase == "default" else 30
        result = rs.ExactProxRR(tol=1e-3, epochs=most, **PHASES[phase]).solve(problem)
    start = problem.objective(np.zeros(problem.shape))
    assert problem.objective(result.x) < start
    if phase == "default":
        assert result.converged


def test_quasi_newton_steps_after_epochs_that_left_out_empty_columns() -> None:
    A, y = text(6)
    problem = rs.Problem(A, y, Multinomial(), L2(1e-3), fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-7).solve(problem)
    assert result.converged
    used = np.flatnonzero(np.diff(A.tocsc().indptr))
    dense, w = A[:, used].toarray(), 1e-3

    def value(u: np.ndarray) -> tuple[float, np.ndarray]:
        x = u.reshape(used.size + 1, 6)
        z = dense @ x[:-1] + x[-1]
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        p = e / e.sum(axis=1, keepdims=True)
        losses = np.log(e.sum(axis=1)) + top[:, 0] - z[np.arange(y.size), y]
        p[np.arange(y.size), y] -= 1.0
        g = np.vstack([dense.T @ p / y.size + w * x[:-1], p.mean(axis=0)])
        return float(losses.mean() + 0.5 * w * np.sum(x[:-1] ** 2)), g.ravel()

    start = np.zeros((used.size + 1) * 6)
    best = minimize(value, start, jac=True, method="L-BFGS-B",
                    options={"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-9})  # fmt: skip
    assert problem.objective(result.x) <= best.fun + 1e-7 * problem.datafit.at_zero
    assert not result.x[np.setdiff1d(np.arange(A.shape[1]), used)].any()


# --- columns that are nearly the same ------------------------------------------------------------


@pytest.mark.parametrize("apart", [1e-7, 1e-8])
def test_nearly_collinear_columns_end_with_a_measured_distance(apart: float) -> None:
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((300, 6)), rng.standard_normal(300)
    X[:, 1] = X[:, 0] + apart * noise
    y = X[:, 0] - X[:, 2] + rng.standard_normal(300)
    columns = np.column_stack([X, np.ones(300)])
    columns[:, 1] = noise  # spans the same, and is far from the first
    least = 0.5 * np.mean((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2)
    problem = rs.Problem(X, y, Squared(), fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = rs.ExactProxRR(tol=1e-6).solve(problem)
    assert problem.objective(result.x) - least <= 1e-9 * problem.datafit.at_zero
    if not result.converged:
        assert result.message.startswith("no step lowers P(x) any further (by the Newton decrement")
        told = float(result.message.split("P(x) is ")[1].split("·")[0])
        assert told <= 1e-9


def test_the_newton_decrement_is_the_same_on_sparse_rows() -> None:
    """And it is the distance to the minimum, for a quadratic."""
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 5)) < 0.5, rng.standard_normal((60, 5)), 0.0)
    y = rng.standard_normal(60)
    found = []
    for rows in (X, sp.csr_matrix(X)):
        problem = rs.Problem(rows, y, Squared(), fit_intercept=True)
        at = SecondOrder(problem.datafit).linearise(np.zeros(6))
        found.append(newton_decrement(problem, at))
    columns = np.column_stack([X, np.ones(60)])
    least = 0.5 * np.mean((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2)
    np.testing.assert_allclose(found, 0.5 * np.mean(y**2) - least, rtol=1e-12)
