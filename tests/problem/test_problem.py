"""Problem against plain numpy: objective, gradient, constants; and what it does with its data."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import MakeData
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.losses import Huber, Logistic, Loss, Squared

Array = NDArray[np.float64]

LAYOUTS, DTYPES = ["dense", "csr"], [np.float64, np.float32]
LOSSES: list[Loss] = [example for kind in rs.losses.LOSSES for example in kind.examples()]


def slopes(loss: Loss, z: Array, y: Any) -> Array:
    """l'(z, y) for all rows, each in plain Python."""
    rows = [type(loss).derivative(z[i].copy(), y[i], *loss.params) for i in range(len(z))]
    return np.array(rows, dtype=np.float64)


def dense(X: Any) -> Array:
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_objective_gradient_and_margins_are_the_formulas(
    make_data: MakeData,
    loss: Loss,
    layout: str,
    dtype: Any,
    weighted: bool,
    intercept: bool,
    ridge: float,
) -> None:
    X, y = make_data(layout, dtype, loss.targets)
    rng = np.random.default_rng(1)
    given = rng.random(30) if weighted else None
    psi = rs.penalties.ElasticNet(0.1, 0.2)
    problem = rs.Problem(X, y, loss, psi, ridge, given, intercept)
    x = rng.standard_normal(problem.shape)

    assert loss.oracle is not None
    A = np.hstack([dense(X), np.ones((30, 1))]) if intercept else dense(X)
    w = np.ones(30) if given is None else 30 * given / given.sum()
    penalised = x[:5]  # neither ψ nor the ridge sees the intercept
    f = np.mean(w * loss.oracle(A @ x, y, *loss.params)) + ridge / 2 * np.sum(penalised**2)
    gradient = A.T @ (w * slopes(loss, A @ x, y).T).T / 30
    gradient[:5] += ridge * penalised

    np.testing.assert_allclose(problem.margins(x), A @ x, rtol=1e-12, atol=1e-13)
    assert problem.value(x) == pytest.approx(f, rel=1e-12)
    P = f + 0.1 * np.abs(penalised).sum() + 0.1 * np.sum(penalised**2)
    assert problem.objective(x) == pytest.approx(P, rel=1e-12)
    np.testing.assert_allclose(problem.gradient(x), gradient, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradient_against_finite_differences(make_data: MakeData, loss: Loss) -> None:
    X, y = make_data("csr", targets=loss.targets)
    problem = rs.Problem(X, y, loss, ridge=0.1, sample_weight=np.arange(30), fit_intercept=True)
    rng, h = np.random.default_rng(2), 1e-6
    x = rng.standard_normal(problem.shape)
    for _ in range(5):
        d = rng.standard_normal(problem.shape)
        slope = (problem.value(x + h * d) - problem.value(x - h * d)) / (2 * h)
        assert slope == pytest.approx(float(np.sum(problem.gradient(x) * d)), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_weight_of_two_is_a_row_twice(make_data: MakeData, layout: str) -> None:
    X, y = make_data(layout)
    twice = np.repeat(np.arange(30), np.where(np.arange(30) < 10, 2, 1))
    weighted = rs.Problem(X, y, sample_weight=1.0 + (np.arange(30) < 10), fit_intercept=True)
    repeated = rs.Problem(X[twice], y[twice], fit_intercept=True)
    x = np.random.default_rng(3).standard_normal(6)
    assert weighted.value(x) == pytest.approx(repeated.value(x), rel=1e-13)
    np.testing.assert_allclose(weighted.gradient(x), repeated.gradient(x), rtol=1e-12)
    assert weighted.smoothness.L_f == pytest.approx(repeated.smoothness.L_f, rel=1e-4)


# --- smoothness --------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d", [1, 3, 12])
def test_smoothness_constants(
    make_data: MakeData, layout: str, d: int, weighted: bool, intercept: bool, ridge: float
) -> None:
    """L_i = c·w_i‖(a_i, 1)‖² + ridge, L_f = λ_max((c/n)AᵀWA + ridge), L_f ≤ L̄ ≤ L_max."""
    X, y = make_data(layout, d=d)
    given = np.linspace(0.0, 1.0, 30) if weighted else None
    constants = rs.Problem(X, y, Logistic(), None, ridge, given, intercept).smoothness
    A = np.hstack([dense(X), np.ones((30, 1))]) if intercept else dense(X)
    w = np.ones(30) if given is None else 30 * given / given.sum()
    individual = 0.25 * w * np.sum(A**2, axis=1) + ridge
    np.testing.assert_allclose(constants.individual, individual, rtol=1e-13)
    assert constants.L_max == pytest.approx(individual.max(), rel=1e-13)
    assert constants.L_mean == pytest.approx(individual.mean(), rel=1e-13)

    H = 0.25 * A.T @ (w[:, None] * A) / 30 + ridge * np.diag(np.arange(A.shape[1]) < d)
    exact = float(np.linalg.eigvalsh(H)[-1])
    assert constants.L_f_error <= 1e-3 * exact
    assert exact * (1 - 1e-13) <= constants.L_f <= exact * (1 + 1e-13) + constants.L_f_error
    assert constants.L_f <= constants.L_mean * (1 + 1e-15) <= constants.L_max * (1 + 1e-14)


@pytest.mark.parametrize(
    "loss", [*(loss for loss in LOSSES if loss.curvature < np.inf), Huber(0.1)], ids=repr
)
def test_smoothness_bounds_the_gradient(make_data: MakeData, loss: Loss) -> None:
    """‖∇f(x) - ∇f(y)‖ ≤ L_f‖x - y‖, the definition."""
    X, y = make_data(targets=loss.targets)
    problem = rs.Problem(X, y, loss, ridge=0.1, fit_intercept=True)
    rng = np.random.default_rng(4)
    for size in (1e-3, 1.0, 1e2):
        a, b = size * rng.standard_normal((2, *problem.shape))
        change = np.linalg.norm(problem.gradient(a) - problem.gradient(b))
        assert change <= problem.smoothness.L_f * np.linalg.norm(a - b)


# --- data stay where they are ----------------------------------------------------------------------


def assert_shared(problem: rs.Problem, X: Any) -> None:
    """The very memory, all of it: a view of the same start, shape and stride."""
    sparse = sp.issparse(X)
    pairs = [(problem.rows.values, X.data if sparse else X)]
    if sparse:
        pairs += [(problem.rows.indices, X.indices), (problem.rows.indptr, X.indptr)]
    for held, given in pairs:
        assert np.shares_memory(held, given)
        assert held.shape == given.shape
        assert not held.flags.writeable


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_data_are_not_copied(make_data: MakeData, layout: str, dtype: Any, frozen: bool) -> None:
    X, y = make_data(layout, dtype)
    arrays = [X.data, X.indices, X.indptr] if layout == "csr" else [X]
    before = [a.copy() for a in arrays]
    for array in arrays:
        array.flags.writeable = not frozen
    problem = rs.Problem(X, y)
    assert_shared(problem, X)
    rs.ProxRR(epochs=2).solve(problem)
    rs.FISTA(epochs=2, tol=0.0).solve(problem)
    for array, copy in zip(arrays, before, strict=True):
        assert array.flags.writeable is not frozen  # the caller's array is still the caller's
        np.testing.assert_array_equal(array, copy)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_mapped_data_are_read_in_place(
    make_data: MakeData, layout: str, tmp_path: Path
) -> None:
    X, y = make_data(layout)

    def mapped(name: str, array: Any) -> Any:
        np.save(tmp_path / f"{name}.npy", array)
        return np.load(tmp_path / f"{name}.npy", mmap_mode="r")

    on_disk = mapped("X", X) if layout == "dense" else X.copy()
    if layout == "csr":
        for name in ("data", "indices", "indptr"):
            setattr(on_disk, name, mapped(name, getattr(X, name)))
    problem = rs.Problem(on_disk, y)
    assert_shared(problem, on_disk)
    expected = rs.ProxRR(epochs=2).solve(rs.Problem(X, y)).x
    np.testing.assert_array_equal(rs.ProxRR(epochs=2).solve(problem).x, expected)


def test_a_stretch_of_a_larger_store_is_not_copied(make_data: MakeData) -> None:
    """A CSR matrix of views into longer arrays: scipy would "prune" it, and change the caller's."""
    X, y = make_data("csr")
    data, indices = np.tile(X.data, 9), np.tile(X.indices, 9)
    part = sp.csr_matrix(X.shape)
    part.data, part.indices, part.indptr = data[: X.nnz], indices[: X.nnz], X.indptr
    problem = rs.Problem(part, y)
    assert np.shares_memory(problem.rows.values, data)
    assert np.shares_memory(problem.rows.indices, indices)
    assert np.shares_memory(part.data, data)  # the caller's matrix is as it was


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_pickle(make_data: MakeData, loss: Loss, layout: str) -> None:
    """The copy gives the same bits."""
    X, y = make_data(layout, targets=loss.targets)
    psi = rs.penalties.L1(0.01)
    problem = rs.Problem(X, y, loss, psi, 0.1, np.arange(30.0), fit_intercept=True)
    x = np.random.default_rng(5).standard_normal(problem.shape)
    objective, bounded = problem.objective(x), loss.curvature < np.inf
    average = problem.smoothness.L_f if bounded else np.inf
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.objective(x) == objective
    assert not bounded or copy.smoothness.L_f == average
    np.testing.assert_array_equal(copy.gradient(x), problem.gradient(x))
    solver: Any = rs.ProxRR(epochs=2) if bounded else rs.ExactProxRR()
    np.testing.assert_array_equal(solver.solve(copy).x, solver.solve(problem).x)


# --- the same functions in other clothes -----------------------------------------------------------


def test_an_oracle_problem_is_the_same_sum(make_data: MakeData) -> None:
    X, y = make_data(targets="real")
    psi = rs.penalties.GroupLasso(0.05, groups=[0, 0, 1, 1, -1])
    problem = rs.Problem(X, y, Squared(), psi)
    oracle = rs.OracleProblem(
        n=30,
        dim=5,
        gradient=lambda i, x: X[i] * (X[i] @ x - y[i]),
        value=lambda x: float(np.mean((X @ x - y) ** 2) / 2),
        penalty=psi,
        smoothness=np.sum(X**2, axis=1),
    )
    x = np.random.default_rng(6).standard_normal(5)
    assert oracle.objective(x) == pytest.approx(problem.objective(x), rel=1e-13)
    np.testing.assert_allclose(oracle.gradient(x), problem.gradient(x), rtol=1e-12)
    np.testing.assert_allclose(oracle.smoothness.individual, problem.smoothness.individual)
    assert oracle.smoothness.L_f == oracle.smoothness.L_mean >= problem.smoothness.L_f
    assert oracle.strong_convexity == problem.strong_convexity == 0.0
    order = np.array([3, 3, 29, 0], dtype=np.uint32)
    np.testing.assert_allclose(
        oracle.take(order).gradient(x), problem.take(order).gradient(x), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", [[4, 4, 0, 29, 4], list(range(29, -1, -1)), [7]], ids=len)
def test_take(make_data: MakeData, layout: str, dtype: Any, order: list[int]) -> None:
    """Rows, targets and weights in the given order; the weights as they were, not normalised."""
    X, y = make_data(layout, dtype, targets="real")
    problem = rs.Problem(X, y, Squared(), None, 0.2, np.arange(30.0), fit_intercept=True)
    visits = np.array(order, dtype=np.uint32)
    taken, x = problem.take(visits), np.random.default_rng(7).standard_normal(6)
    assert taken.n == len(order)
    np.testing.assert_allclose(taken.margins(x), problem.margins(x)[order], rtol=1e-14)
    np.testing.assert_array_equal(taken.targets, y[order])
    np.testing.assert_array_equal(taken.weights, problem.weights[order])
    np.testing.assert_allclose(
        taken.smoothness.individual, problem.smoothness.individual[order], rtol=1e-14
    )
    residuals = problem.margins(x)[order] - y[order]
    A = np.hstack([dense(X), np.ones((30, 1))])[order]
    gradient = A.T @ (problem.weights[order] * residuals) / len(order) + 0.2 * np.append(x[:5], 0.0)
    np.testing.assert_allclose(taken.gradient(x), gradient, rtol=1e-12, atol=1e-14)
    assert not np.shares_memory(taken.rows.values, problem.rows.values)


def test_an_error_does_not_show_a_whole_table() -> None:
    table, long = np.zeros((500, 50)), list(range(1000))
    with pytest.raises(rs.InputError, match=r"got a ndarray of shape \(500, 50\)$"):
        rs.Problem(np.eye(2), [1, -1], penalty=table)
    with pytest.raises(rs.InputError, match=r"got a list$"):
        rs.ProxRR(seed=long)  # type: ignore[arg-type]
    with pytest.raises(rs.InputError, match=r"got array\(\[-1., {2}2.\]\)$"):
        rs.penalties.L1(np.array([-1.0, 2.0]))


def test_without_a_ridge_a_square_that_overflows_is_not_asked_for() -> None:
    problem = rs.Problem(np.array([[1e-200], [0.0]]), [1.0, -1.0])
    assert problem.value(np.array([1e200])) == pytest.approx(
        (np.log1p(np.exp(-1.0)) + np.log(2.0)) / 2
    )
