"""Rows of ones are read without their values; nothing else about them changes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import PIECE
from reshuffle.solvers.sampling import resampled
from reshuffle.solvers.slope_table import LinearModelTable

LOSSES: dict[str, rs.losses.Loss] = {
    "logistic": rs.losses.Logistic(),
    "squared": rs.losses.Squared(),
    "multinomial": rs.losses.Multinomial(),
}


def ones(n: int = 200, d: int = 12, seed: int = 0) -> Any:
    """A matrix of zeros and ones, with an empty row and rows of many lengths."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < rng.random((n, 1))).astype(float)
    X[3] = 0.0
    return X


def problems(loss: str, dtype: Any = np.float64, **how: Any) -> list[rs.Problem]:
    """The same problem as ones without values, as CSR with values, and dense."""
    X = ones().astype(dtype)
    y: Any = np.arange(200) % (3 if loss == "multinomial" else 2)
    penalty = rs.penalties.ElasticNet(0.01, 0.02)
    matrices = (sp.csr_matrix(X), sp.csr_matrix(X), X)
    unit, valued, dense = (rs.Problem(A, y, LOSSES[loss], penalty, **how) for A in matrices)
    vars(valued.datafit)["quick"] = valued.rows  # as if not all of the values were 1
    assert unit.datafit.quick.unit
    assert not valued.datafit.quick.unit
    assert not dense.datafit.quick.unit
    return [unit, valued, dense]


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("loss", "dtype"),
    [("logistic", np.float64), ("multinomial", np.float64), ("logistic", np.float32)],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_slopes_gradient_and_epoch(loss: str, dtype: Any, intercept: bool) -> None:
    how: dict[str, Any] = {"fit_intercept": intercept, "sample_weight": np.arange(1.0, 201.0)}
    found = []
    for problem in problems(loss, dtype, **how):
        x = np.random.default_rng(1).standard_normal(problem.shape)
        owner, weights, largest = resampled(problem, True)
        for copies, each in ((owner, weights), (owner[:0], problem.weights)):
            slopes = LinearModelTable(problem, copies, each)
            state = slopes.start(x)
            same(state.g, problem.gradient(x))
            visits = np.random.default_rng(2).permutation(len(state.table)).astype(np.uint32)
            after = slopes.epoch(state, visits, np.full(7, 0.5 / largest))
            assert np.abs(after.x - x).max() > 1e-3
            found.append((state, after))
    for start in (0, 1):
        for state, after in found[start + 2 :: 2]:
            for k in range(4):  # x, table, g, q
                same(found[start][0][k], state[k])
                same(found[start][1][k], after[k])


@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_gradient_of_some_columns(loss: str) -> None:
    """A part of ones has no values even in its own rows; its passes are those of the others."""
    kept = np.array([0, 2, 3, 7, 11], dtype=np.uint32)
    unit, valued, dense = (p.columns(kept) for p in problems(loss, fit_intercept=True))
    assert unit.rows.unit
    x = np.random.default_rng(1).standard_normal(unit.shape)
    for other in (valued, dense):
        same(unit.value(x), other.value(x))
        same(unit.gradient(x), other.gradient(x))
        same(unit.margins(x), other.margins(x))
        same(unit.smoothness.individual, other.smoothness.individual)
        same(unit.smoothness.L_f, other.smoothness.L_f)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_solver_reads_them_alike(loss: str) -> None:
    first, *others = problems(loss)
    for solver in (
        rs.ExactProxRR(epochs=5, tol=0.0, steps_per_prox=10),
        rs.ProxRR(epochs=5, step=0.005),
        rs.FISTA(epochs=5),
    ):
        x = solver.solve(first).x
        assert np.abs(x).max() > 1e-3
        for other in others:
            same(x, solver.solve(other).x)
    assert first.rows.values.size == np.count_nonzero(ones())  # the values are still there


@pytest.mark.parametrize("where", [0, 5, PIECE - 1, PIECE, -1])
@pytest.mark.parametrize("value", [0.0, -1.0, 1.0 + 2.0**-23])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_other_value_is_seen(where: int, value: float, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_matrix((rng.random((400, 100)) < 0.5).astype(dtype))
    assert X.nnz > PIECE + 1
    y = np.where(np.arange(400) % 2 == 0, 1.0, -1.0)
    assert rs.Problem(X, y).datafit.quick.unit
    X.data[where] = value
    problem = rs.Problem(X, y)
    assert problem.datafit.quick is problem.rows
    x = rng.standard_normal(100)
    g = LinearModelTable(problem, np.empty(0, dtype=np.uint32), problem.weights).start(x).g
    same(g, rs.Problem(X.toarray(), y).gradient(x))


def test_kernels_of_one_problem_are_not_taken_for_another() -> None:
    """Losses, layouts, penalties and intercepts in turn, each as if it were alone."""
    X, rng = ones(), np.random.default_rng(0)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0.5, 1.0, -1.0)
    matrices = (X, sp.csr_matrix(X), sp.csr_matrix(2.0 * X))
    penalties: tuple[Any, ...] = (
        rs.penalties.ElasticNet(0.01, 0.05),
        rs.penalties.GroupLasso(0.01, groups=[list(range(6)), list(range(6, 12))]),
    )
    losses = (rs.losses.Logistic(), rs.losses.Huber(0.5), rs.losses.Huber(2.0))
    choices = [*product(penalties, (False, True), matrices, losses)]
    for penalty, intercept, matrix, loss in [*choices, *choices[::-3]]:
        problem = rs.Problem(matrix, y, loss, penalty, 0.01, None, intercept)
        result = rs.ExactProxRR(tol=1e-9, eval_every=1000).solve(problem)
        assert result.converged
        x = rs.FISTA(tol=1e-7, eval_every=1000).solve(problem).x
        np.testing.assert_allclose(result.x, x, atol=1e-3)
        assert problem.objective(result.x) <= problem.objective(x) + 1e-8
