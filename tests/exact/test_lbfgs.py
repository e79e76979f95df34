"""Softmax with a ridge on more than a small set: quasi-Newton steps, and Newton's where these take too long."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reshuffle as rs
from reshuffle.core import native
from reshuffle.datafit import Datafit
from reshuffle.losses import Multinomial
from reshuffle.solvers.exact.quasi_newton import QuasiNewton, is_smooth
from reshuffle.solvers.second_order import SecondOrder


@pytest.fixture(scope="module", params=["standardised", "raw"])
def digits(request: Any) -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    if request.param == "standardised":
        X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
    return np.ascontiguousarray(X[:600]), y[:600]


def test_the_minimiser_is_that_of_scikit_learn(digits: tuple[Any, Any]) -> None:
    X, y = digits
    problem = rs.Problem(X, y, rs.losses.Multinomial(), ridge=1 / 600, fit_intercept=True)
    assert is_smooth(problem)
    result = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert result.trace["gap"][-1] <= 1e-11
    peer = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(result.x[:-1].T, peer.coef_, atol=1e-5)
    for tol in (1e-3, 1e-6):
        loose = rs.ExactProxRR(tol=tol).solve(problem)
        assert loose.converged
        best, at_zero = problem.objective(result.x), problem.value(np.zeros(problem.shape))
        assert (problem.objective(loose.x) - best) / at_zero <= loose.trace["gap"][-1] + 1e-13


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def test_the_same_bits_after_a_resume(digits: tuple[Any, Any]) -> None:
    X, y = digits
    problem = rs.Problem(X, y, rs.losses.Multinomial(), ridge=1 / 600, fit_intercept=True)
    solver = rs.ExactProxRR(tol=1e-9, eval_every=1)
    whole = solver.solve(problem)
    for at in (3, 6, 7):
        part = solver.solve(problem, callbacks=[partial(stands_at, at)])
        assert solver.solve(problem, resume=part).x.tobytes() == whole.x.tobytes()


def test_who_is_smooth() -> None:
    X, y = load_digits(return_X_y=True)
    penalties = {rs.penalties.Zero(): True, rs.penalties.L2(0.1): True, rs.penalties.L1(0.1): False}
    for penalty, smooth in penalties.items():
        problem = rs.Problem(X, y, rs.losses.Multinomial(), penalty)
        assert is_smooth(problem) == smooth
    assert is_smooth(rs.Problem(X, np.sign(y - 4.5), penalty=rs.penalties.L2(0.1)))


LAYOUTS: dict[str, Any] = {
    "dense": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "CSR": csr_array,
    "ones": lambda X: csr_array((X > X.mean()).astype(np.float64)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_layout_comes_to_the_same_minimum_as_scipy(
    layout: str, intercept: bool, weighted: bool
) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 30)) * np.exp(rng.standard_normal(30))
    X[:, 7], X[:, 8] = X[:, 6], 0.0  # columns that depend on each other, and one without a value
    y = np.argmax(X @ rng.standard_normal((30, 6)) + rng.gumbel(size=(300, 6)), axis=1)
    weights = rng.random(300) if weighted else None
    problem = rs.Problem(
        LAYOUTS[layout](X), y, Multinomial(), rs.penalties.L2(1e-3), fit_intercept=intercept,
        sample_weight=weights,
    )  # fmt: skip
    assert QuasiNewton(problem).has_metric

    def both(x: Any) -> tuple[float, Any]:
        x = x.reshape(problem.shape)
        slope = problem.gradient(x)
        slope[: problem.features] += 1e-3 * x[: problem.features]
        return problem.objective(x), slope.ravel()

    found = minimize(
        both, np.zeros(np.prod(problem.shape)), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 0.0, "gtol": 1e-10},
    )  # fmt: skip
    at_zero = problem.value(np.zeros(problem.shape))
    for tol in (1e-3, 1e-6, 1e-11):
        result = rs.ExactProxRR(tol=tol).solve(problem)
        assert result.converged
        assert result.trace["gap"][-1] <= tol
        assert problem.objective(result.x) - found.fun <= tol * at_zero


def test_no_epoch_is_made_where_the_blocks_are_small(digits: tuple[Any, Any]) -> None:
    X, y = digits
    problem = rs.Problem(X, y, Multinomial(), ridge=1 / 600, fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-6).solve(problem)
    assert result.trace["prox_evals"][-1] == 0
    assert 5 <= result.trace["lbfgs"][-1] <= 60
    assert result.trace["newton"][-1] == 0
    assert f"{result.trace['lbfgs'][-1]:.0f} L-BFGS" in result.summary()
    near = rs.ExactProxRR(tol=1e-6).solve(problem, x0=result.x)
    assert near.converged
    assert near.trace["lbfgs"][-1] == 0


def test_wide_sets_do_without_a_metric() -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((40, 900))
    problem = rs.Problem(X, np.arange(40) % 8, Multinomial(), rs.penalties.L2(1e-2))
    assert not QuasiNewton(problem).has_metric
    assert rs.ExactProxRR(tol=1e-7).solve(problem).converged


def test_the_same_bits_twice_and_on_threads(digits: tuple[Any, Any]) -> None:
    X, y = np.tile(digits[0], (15, 1)), np.tile(digits[1], 15)
    problem = rs.Problem(X, y, Multinomial(), rs.penalties.L2(1e-3), fit_intercept=True)
    one, two, again = (rs.ExactProxRR(tol=1e-4, threads=k).solve(problem).x for k in (1, 2, 2))
    assert one.tobytes() == two.tobytes() == again.tobytes()


def expansion(z: Any, y: Any, weights: Any, slopes: Any, p: Any) -> float:
    """Slopes and the p of the curvatures of softmax at these margins, by the core; Σ_i w_i l_i."""
    nothing, loss = np.empty(0, dtype=np.uint32), native.built_in_loss("multinomial", [])
    rows, classes = np.zeros((len(z), 1)), y.astype(np.int32)
    samples = native.Samples(
        rows, nothing, nothing, classes, weights, np.empty(0), loss, False, 1, z.shape[1]
    )
    return native.expand(samples, z, 0, len(z), slopes, p, 0.0)


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.booleans())
def test_an_expansion_is_value_slope_and_curvature(seed: int, classes: int, far: bool) -> None:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((7, classes)) * (300.0 if far else 2.0)
    y, w = rng.integers(0, classes, 7), rng.random(7)
    slopes, p = np.empty(z.shape), np.empty(z.shape)
    for weights in (w, w[:0]):
        total = expansion(z, y, weights, slopes, p)
        each = weights if weights.size else np.ones(7)
        losses = [Multinomial.value(z[i], y[i]) for i in range(7)]
        np.testing.assert_allclose(total, each @ losses, rtol=1e-13)
        for i in range(7):
            np.testing.assert_allclose(
                slopes[i], Multinomial.derivative(z[i].copy(), y[i]), atol=1e-14
            )
            np.testing.assert_allclose(p[i], Multinomial.second(z[i].copy(), y[i]), atol=1e-15)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from([0.01, 1.0, 50.0]))
def test_balanced_slopes_are_slopes_and_add_up_to_zero(
    seed: int, classes: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    z, w = spread * rng.standard_normal((30, classes)), rng.random(30)
    y = rng.integers(0, max(classes - 1, 1), 30)  # of the last class there may be none
    slopes, p = np.empty(z.shape), np.empty(z.shape)
    expansion(z, y, w, slopes, p)
    for weights in (w, w[:0]):
        moved = Multinomial.balanced(slopes, y, weights)
        each = weights if weights.size else np.ones(30)
        np.testing.assert_allclose(each @ moved, 0.0, atol=1e-12)
        thought = moved.copy()
        thought[np.arange(30), y] += 1.0
        assert thought.min() >= -1e-15
        np.testing.assert_allclose(thought.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_a_gram_matrix_of_dense_rows_is_that_of_sparse_ones(bias: bool) -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((50, 9)) + 3.0
    X[:, 4] = 2.0
    scales, active = (
        rng.random(50) * (rng.random(50) > 0.3),
        np.array([0, 2, 4, 8], dtype=np.uint32),
    )

    def gram(X: Any) -> Any:
        fit: Datafit = rs.Problem(X, np.ones(50), rs.losses.Squared(), fit_intercept=bias).datafit
        curves = SecondOrder(fit)
        return curves.gram(scales, active), curves.constant

    dense, constant = gram(X)
    assert dense.tobytes() == dense.T.copy().tobytes()
    for other in (csr_array(X), X.astype(np.float32)):
        found, same = gram(other)
        np.testing.assert_allclose(found, dense, atol=1e-4 if other.dtype == np.float32 else 1e-12)
        assert np.array_equal(constant, same)
    assert constant.tolist() == [bias and j == 4 for j in range(9)]


@pytest.mark.parametrize("kind", ["scales", "offset", "zero weights", "rare", "separable", "far"])
@pytest.mark.parametrize("intercept", [False, True])
def test_data_that_it_was_not_made_with(kind: str, intercept: bool) -> None:
    rng = np.random.default_rng(9)
    X, weights, x0 = rng.standard_normal((700, 60)), None, None
    y = np.append(np.arange(9), rng.integers(0, 9, 691))
    l2 = 1e-3
    if kind == "scales":
        X[:, 3], X[:, 4] = 1e8 * X[:, 3], 1e-8 * X[:, 4]
    elif kind == "offset":
        X[:, 3] += 1e6
    elif kind == "zero weights":
        weights = np.append(np.ones(30), np.zeros(670))
    elif kind == "rare":
        y[9:] = 0
    elif kind == "separable":
        X, y, l2 = 100.0 * X, np.argmax(X[:, :9], axis=1), 1e-6
    problem = rs.Problem(
        X, y, Multinomial(), rs.penalties.L2(l2), fit_intercept=intercept, sample_weight=weights
    )
    if kind == "far":
        x0 = 10.0 * rng.standard_normal(problem.shape)
    best = rs.ExactProxRR(tol=1e-10).solve(problem)
    result = rs.ExactProxRR(tol=1e-5).solve(problem, x0=x0)
    assert best.converged
    assert result.converged
    at_zero = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - problem.objective(best.x) <= 1e-5 * at_zero
