"""Newton steps on the face, by conjugate gradients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.solvers.exact.newton_cg import FaceSteps, has_faces
from reshuffle.solvers.second_order import SecondOrder

NO_HESSIAN = ["newton_cg", "shuffled"]


def sparse_set(n: int = 3000, d: int = 600, seed: int = 0) -> tuple[sp.csr_matrix, Any]:
    rng = np.random.default_rng(seed)
    X: Any = sp.random(n, d, 0.02, random_state=rng, format="csr")
    X.data = rng.standard_normal(X.nnz)
    scales = 10.0 ** rng.uniform(-1.0, 1.0, d)  # what makes epochs slow
    X = sp.csr_matrix(X @ sp.diags(scales))
    X.sort_indices()
    margins = X @ (rng.standard_normal(d) / scales)
    return X, np.where(margins + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss", [rs.losses.Logistic(), rs.losses.Squared(), rs.losses.Huber(0.7)], ids=repr
)
def test_a_step_is_newtons_where_the_penalty_is_smooth(loss: Any, intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8)) * 10.0 ** np.arange(-2, 2).repeat(2)
    y = np.where(X[:, 0] * 100 + rng.standard_normal(200) > 0, 1.0, -1.0)
    problem = rs.Problem(X, y, loss, rs.penalties.L2(0.01), ridge=0.02, fit_intercept=intercept)
    x = 0.01 * rng.standard_normal(problem.shape)
    steps = FaceSteps(problem)
    at = steps.second_order.linearise(x)
    free, slopes = steps._face(x)
    assert free.all()
    d, _ = steps._direction(at, free, slopes, 1e-3)
    A = np.hstack([X, np.ones((200, 1))]) if intercept else X
    H = A.T @ (at.curvatures[:, None] * A) / 200
    H[:8, :8] += 0.03 * np.eye(8)
    slope = problem.gradient(x)
    slope[:8] += 0.01 * x[:8]
    exact = -np.linalg.solve(H, slope)
    assert (d - exact) @ H @ (d - exact) <= 1e-5 * (exact @ H @ exact)


def test_coordinates_at_zero_and_at_a_bound_stay() -> None:
    X, y = sparse_set(n=300, d=40)
    penalty = rs.penalties.L1(0.01) + rs.penalties.Box(-0.05, 0.05)
    problem = rs.Problem(X, y, penalty=penalty)
    x = rs.ExactProxRR(finish=False, epochs=3, tol=0.0).solve(problem).x
    taken = FaceSteps(problem).step(x)
    assert taken.gained >= 0.0
    assert problem.objective(taken.at.x) <= problem.objective(x)
    held = (x == 0.0) | (np.abs(x) == 0.05)
    assert held.any()
    np.testing.assert_array_equal(taken.at.x[held], x[held])


@pytest.mark.parametrize("intercept", [False, True])
def test_runs_with_many_features_are_exact(intercept: bool) -> None:
    X, y = sparse_set()
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(2e-4), fit_intercept=intercept)
    best = problem.objective(rs.ExactProxRR(tol=1e-11).solve(problem).x)
    at_zero = problem.value(np.zeros(problem.shape))
    for tol in (1e-3, 1e-6, 1e-8):
        result = rs.ExactProxRR(tol=tol, phases=NO_HESSIAN).solve(problem)
        assert result.converged, result.message
        assert result.trace["newton_cg"][-1] > 0
        true = (problem.objective(result.x) - best) / at_zero
        assert true <= result.trace["gap"][-1] + 1e-13


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def test_the_same_bits_after_a_resume() -> None:
    X, y = sparse_set()
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(2e-4))
    solver = rs.ExactProxRR(tol=1e-8, eval_every=1, phases=NO_HESSIAN)
    whole = solver.solve(problem)
    stepped = np.flatnonzero(np.diff(whole.trace["newton_cg"]) > 0)
    for at in (2, int(stepped[0]) + 1, int(stepped[0]) + 2):
        part = solver.solve(problem, callbacks=[partial(stands_at, at)])
        resumed = solver.solve(problem, resume=part)
        np.testing.assert_array_equal(resumed.x, whole.x)
        assert resumed.trace["gradients"].tolist() == whole.trace["gradients"].tolist()


def test_who_has_faces() -> None:
    X, y = sparse_set(n=300, d=40)
    assert has_faces(rs.Problem(X, y, penalty=rs.penalties.GroupLasso(0.1, [[0, 1], [2, 3]])))
    assert not has_faces(rs.Problem(X, y, penalty=rs.penalties.L1Ball(1.0)))
    classes = rs.Problem(X, np.arange(300) % 3, rs.losses.Multinomial())
    assert not has_faces(classes)


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("layout", ["dense", "sparse", "ones"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_product_is_margins_and_their_sum(
    layout: str, intercept: bool, threads: int | None
) -> None:
    rng = np.random.default_rng(1)
    X: Any = (rng.random((9000, 7)) < 0.3) * (1.0 if layout == "ones" else rng.random((9000, 7)))
    y = np.where(rng.random(9000) < 0.5, 1.0, -1.0)
    data = X if layout == "dense" else sp.csr_matrix(X)
    problem = rs.Problem(data, y, fit_intercept=intercept, sample_weight=rng.random(9000) + 0.5)
    curves = SecondOrder(replace(problem.datafit, threads=threads))
    scales, v = rng.random(9000), rng.standard_normal(problem.shape)
    A = np.column_stack([X, np.ones(9000)]) if intercept else X
    wanted = A.T @ (scales * (A @ v)) / 9000
    assert np.allclose(curves.product(scales, v), wanted, rtol=1e-12)
    fit = problem.datafit
    assert np.allclose(fit.column_squares, fit.weights @ X**2 / 9000)
    kept = np.array([1, 4, 5], dtype=np.uint32)
    assert np.array_equal(fit.columns(kept).column_squares, fit.column_squares[kept])


def test_a_warm_run_takes_no_more_epochs_than_a_cold_one() -> None:
    X, y = sparse_set()
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(1e-4))
    cold = rs.ExactProxRR(tol=1e-9).solve(problem)
    warm = rs.ExactProxRR(tol=1e-9).solve(problem, 0.99 * cold.x)
    assert warm.converged
    assert warm.epoch <= cold.epoch
    assert abs(problem.objective(warm.x) - problem.objective(cold.x)) <= 1e-9
