"""Regression with a matrix of targets: against a loop, scikit-learn and cvxpy; dense and CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from oracles import oracle, sparse
from sklearn.linear_model import MultiTaskElasticNet, Ridge

import reshuffle as rs
from reshuffle import penalties as P

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)) * (RNG.random((60, 6)) < 0.7)
TRUE = np.outer([1.0, -1.0, 0.5, 0.0, 0.0, 0.0], [1.0, 0.5, -1.0])
Y = X @ TRUE + 0.2 * RNG.standard_normal((60, 3))
SQUARED = rs.losses.Squared()


@pytest.mark.filterwarnings("ignore::reshuffle.errors.StepWarning")
@pytest.mark.parametrize("solver", [rs.ProxRR(epochs=3, seed=1, batch_size=5), rs.ProxSGD(epochs=2, seed=1)])  # fmt: skip
@pytest.mark.parametrize("penalty", [P.L1(0.01), P.NuclearNorm(0.01)], ids=repr)
def test_dense_csr_and_oracle_agree(solver: Any, penalty: Any) -> None:
    dense = rs.Problem(X, Y, SQUARED, penalty, ridge=0.1, fit_intercept=True)
    rows = rs.Problem(sparse(X), Y, SQUARED, penalty, ridge=0.1, fit_intercept=True)
    first, *others = (solver.solve(p) for p in (dense, rows, oracle(dense, X, Y)))
    assert first.x.shape == (7, 3)
    for other in others:
        np.testing.assert_allclose(other.x.reshape(7, 3), first.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", [np.array, sp.csr_matrix])
def test_ridge_with_intercepts_against_scikit_learn(layout: Any) -> None:
    weights = np.linspace(0.5, 2.0, 60)
    problem = rs.Problem(
        layout(X), Y, SQUARED, ridge=0.05, sample_weight=weights, fit_intercept=True
    )
    ours = rs.ExactProxRR(tol=1e-12).solve(problem)
    theirs = Ridge(alpha=0.05 * weights.sum()).fit(X, Y, sample_weight=weights)
    assert ours.converged
    np.testing.assert_allclose(ours.x[:-1], theirs.coef_.T, atol=1e-8)
    np.testing.assert_allclose(ours.x[-1], theirs.intercept_, atol=1e-8)


def test_groups_of_rows_against_scikit_learn() -> None:
    """Theirs is ‖Y - XW‖²/(2n) + alpha·Σ_j ‖W_j‖, without a weight √K."""
    problem = rs.Problem(X, Y, SQUARED, P.GroupLasso(0.1, weights=np.ones(6)))
    ours = rs.ExactProxRR(tol=1e-12).solve(problem)
    theirs = MultiTaskElasticNet(alpha=0.1, l1_ratio=1.0, fit_intercept=False, tol=1e-12, max_iter=100_000)  # fmt: skip
    assert ours.converged
    assert "gap" in ours.trace.last()
    np.testing.assert_allclose(ours.x, theirs.fit(X, Y).coef_.T, atol=1e-6)
    assert not ours.x[3:].any()


def test_one_output_is_the_scalar_loss() -> None:
    wide, narrow = (rs.Problem(X, y, SQUARED, P.L1(0.05)) for y in (Y[:, :1], Y[:, 0].copy()))
    x = rs.ExactProxRR(tol=1e-12).solve(wide).x
    np.testing.assert_allclose(x[:, 0], rs.ExactProxRR(tol=1e-12).solve(narrow).x, atol=1e-7)
    assert wide.smoothness.L_max == pytest.approx(narrow.smoothness.L_max)
    assert wide.lambda_max() == pytest.approx(narrow.lambda_max())


def test_a_low_rank_against_cvxpy_and_in_a_federation() -> None:
    cp: Any = pytest.importorskip("cvxpy")
    problem = rs.Problem(X, Y, SQUARED, P.NuclearNorm(0.1))
    W = cp.Variable((6, 3))
    loss = cp.sum_squares(X @ W - Y) / 120 + 0.1 * cp.normNuc(W)
    cp.Problem(cp.Minimize(loss)).solve(
        solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    ours = rs.ExactProxRR(tol=1e-11).solve(problem)
    np.testing.assert_allclose(ours.x, W.value, atol=1e-5)
    assert np.linalg.matrix_rank(ours.x, tol=1e-7) == 1
    clients = rs.federated.split(problem, by=(Y[:, 0] > 0).astype(int))
    np.testing.assert_allclose(rs.ExactFedRR(tol=1e-9).solve(clients).x, W.value, atol=1e-5)


def test_the_theory_knows_it() -> None:
    problem = rs.Problem(X, Y, SQUARED, ridge=0.1)
    c = rs.theory.constants(problem)
    R = X @ c.x_star - Y
    squares = np.sum((X[:, :, None] * R[:, None, :] + 0.1 * c.x_star) ** 2, axis=(1, 2))
    assert c.sigma_star_sq == pytest.approx(float(squares.mean()), rel=1e-9)


def test_slopes_conjugates_and_values_are_their_formulas() -> None:
    problem, x = rs.Problem(X, Y, SQUARED), RNG.standard_normal((6, 3))
    R = X @ x - Y
    assert problem.value(x) == pytest.approx(float(np.sum(R * R)) / 120, rel=1e-13)
    np.testing.assert_allclose(problem.gradient(x), X.T @ R / 60, rtol=1e-12)
    loss = problem.loss
    for z, y in zip(R[:5], Y[:5], strict=True):
        s = type(loss).derivative(z.copy(), y)
        both = type(loss).value(z, y) + type(loss).conjugate(s, y)  # type: ignore[misc]
        assert both == pytest.approx(float(s @ z), rel=1e-12)
    assert type(loss).oracle(R, Y) == pytest.approx([type(loss).value(z, y) for z, y in zip(R, Y, strict=True)])  # type: ignore[misc]  # fmt: skip


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(rs.InputError, match=r"y must have shape \(60, outputs\), a row of targets"):
        rs.Problem(X, Y[:-1], SQUARED)
    with pytest.raises(rs.InputError, match=r"y must have shape \(60,\), one target"):
        rs.Problem(X, Y, rs.losses.Huber())
    with pytest.raises(rs.InputError, match="y must be finite"):
        rs.Problem(X, np.where(Y > 0, np.nan, Y), SQUARED)
    with pytest.raises(rs.InputError, match='by="label" needs one target per row'):
        rs.federated.split(rs.Problem(X, Y, SQUARED), clients=2, by="label")
