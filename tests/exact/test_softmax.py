"""Softmax with penalties that have kinks, on more than a small set: Newton steps in the coordinates that matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

import reshuffle as rs
from reshuffle.losses import Multinomial
from reshuffle.solvers.second_order import RowCurvature, SecondOrder


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 5), st.booleans(), st.sampled_from([0.0, 0.3]),
    st.sampled_from([1.0, 30.0]),
)  # fmt: skip
def test_a_hessian_in_some_coordinates_is_that_of_numpy(
    seed: int, classes: int, bias: bool, extra: float, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((25, 6)) + 1.0, rng.integers(0, classes, 25)
    X[:, 3], y[:classes] = 2.0, np.arange(classes)
    weights = rng.random(25) + 0.1
    problem = rs.Problem(X, y, Multinomial(), fit_intercept=bias, sample_weight=weights)
    curves = SecondOrder(problem.datafit)
    at = curves.linearise(spread * rng.standard_normal(problem.shape))
    factors = rng.random(25) * (rng.random(25) > 0.2)
    active = np.array([0, 2, 3, 5], dtype=np.uint32)
    width = active.size + bias
    chosen = np.append(rng.random(active.size * classes) > 0.5, np.ones(bias * classes, dtype=bool))
    kept = np.flatnonzero(chosen)
    found = curves.hessian(RowCurvature(at.curvatures, extra, factors), active, kept)

    w = problem.datafit.weights
    A = X[:, active]
    if bias:
        A = np.column_stack([A - (w @ A) / 25, np.ones(25)])
    H, unit = np.zeros((width * classes,) * 2), np.eye(classes)
    for i in range(25):
        p = at.curvatures[i]
        G = factors[i] * (p.sum() * np.diag(p) - np.outer(p, p)) + extra * (unit - 1.0 / classes)
        H += w[i] / 25 * np.kron(np.outer(A[i], A[i]), G)
    np.testing.assert_allclose(found, H[np.ix_(kept, kept)], atol=1e-12)
    assert np.array_equal(found, found.T)


PENALTIES = {
    "l1": rs.penalties.L1(0.01),
    "elastic net": rs.penalties.ElasticNet(0.003, 0.01),
    "groups": rs.penalties.GroupLasso(0.02),
    "sparse groups": rs.penalties.SparseGroupLasso(0.003, 0.01),
    "not negative": rs.penalties.NonNegative(l1=0.003),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("intercept", [False, True])
def test_every_layout_comes_to_the_same_minimum(name: str, intercept: bool) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = np.ascontiguousarray(X[:500] / 4.0 - 1.0), y[:500]
    weights = 0.5 + np.random.default_rng(3).random(500)

    def solved(X: Any, tol: float, **kind: Any) -> tuple[rs.Problem, rs.Result]:
        problem = rs.Problem(
            X, y, Multinomial(), PENALTIES[name], fit_intercept=intercept, sample_weight=weights
        )
        return problem, rs.ExactProxRR(tol=tol, **kind).solve(problem)

    problem, best = solved(X, 1e-12)
    assert best.converged
    at_zero = problem.value(np.zeros(problem.shape))
    slow = rs.FISTA(epochs=400, tol=0.0).solve(problem)
    assert problem.objective(best.x) <= problem.objective(slow.x) + 1e-12
    for other in (csr_array(X), X.astype(np.float32)):
        same = solved(other, 1e-9)[1]
        assert same.converged
        assert abs(problem.objective(same.x) - problem.objective(best.x)) <= 1e-6 * at_zero
    for tol in (1e-3, 1e-6):
        result = solved(X, tol)[1]
        assert result.converged
        assert problem.objective(result.x) - problem.objective(best.x) <= tol * at_zero
        assert result.x.tobytes() == solved(X, tol)[1].x.tobytes()
