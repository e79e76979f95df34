"""Newton steps by the kernel of the rows: where they act, and that they are Newton's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

import reshuffle as rs
from reshuffle.solvers.exact.newton_kernel import KernelSteps, NewtonKernel

ROWS, FEATURES = 30, 200
CLASSES = rs.losses.Logistic, rs.losses.SquaredHinge


def wide(loss: Any, **given: Any) -> rs.Problem:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((ROWS, FEATURES)) * 10.0 ** rng.uniform(-1, 1, FEATURES) + 1.0
    y = X[:, :5].sum(axis=1) + rng.standard_normal(ROWS)
    y = np.where(y > np.median(y), 1.0, -1.0) if isinstance(loss, CLASSES) else y
    return rs.Problem(X, y, loss, **given)


def weights() -> Any:
    found = np.random.default_rng(4).random(ROWS)
    found[:3] = 0.0
    return found


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("given", [None, "weights"])
@pytest.mark.parametrize("strengths", ["one", "each"])
def test_the_direction_solves_the_newton_equation(
    intercept: bool, given: str | None, strengths: str
) -> None:
    l2 = 0.3 if strengths == "one" else np.linspace(0.1, 1.0, FEATURES)
    sample_weight = weights() if given else None
    problem = wide(
        rs.losses.Logistic(), penalty=rs.penalties.L2(l2), fit_intercept=intercept, sample_weight=sample_weight
    )  # fmt: skip
    steps = KernelSteps(problem)
    x = 0.01 * np.random.default_rng(5).standard_normal(problem.shape)
    at = steps.second_order.linearise(x)
    ridge = np.append(np.broadcast_to(l2, FEATURES), np.zeros(int(intercept)))
    r = -(at.gradient + ridge * x)
    d, change = steps.direction(at, r)
    values = np.asarray(problem.datafit.rows.values)
    A = np.column_stack([values, np.ones(ROWS)]) if intercept else values
    own = problem.datafit.weights if given else np.ones(ROWS)
    H = (A.T * (own * at.curvatures)) @ A / ROWS + np.diag(ridge)
    assert np.allclose(d, np.linalg.solve(H, r), rtol=1e-7, atol=1e-10)
    assert np.allclose(change, A @ d, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "loss", [rs.losses.Logistic(), rs.losses.Squared(), rs.losses.Huber(0.5), rs.losses.SquaredHinge()]
)  # fmt: skip
def test_the_minimum_is_that_of_another_solver(loss: Any) -> None:
    problem = wide(loss, penalty=rs.penalties.L2(0.1), fit_intercept=True)
    result = rs.ExactProxRR(tol=1e-9, phases=["newton_kernel"]).solve(problem)
    assert result.converged, result.message
    assert result.trace["newton_kernel"][-1] > 0

    def slope(x: Any) -> Any:
        ridge = np.append(0.1 * x[:-1], 0.0)
        return problem.datafit.slopes(x)[1] + ridge

    other = minimize(
        problem.objective, result.x + 0.01, jac=slope, method="BFGS", options={"gtol": 1e-9}
    )
    assert problem.objective(result.x) <= other.fun + 1e-8 * problem.datafit.at_zero


def test_a_wide_ridge_is_that_of_scikit_learn_in_one_step() -> None:
    problem = wide(rs.losses.Squared(), penalty=rs.penalties.L2(1.0 / ROWS))
    result = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert result.trace["newton_kernel"][-1] == 1.0
    values, y = np.asarray(problem.datafit.rows.values), problem.datafit.targets
    other = Ridge(alpha=1.0, fit_intercept=False, solver="svd").fit(values, y)
    assert np.allclose(result.x, other.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "given",
    [
        {"penalty": rs.penalties.ElasticNet(0.1, 0.1)},
        {"penalty": rs.penalties.L2(np.append(0.0, np.ones(FEATURES - 1)))},
        {"penalty": rs.penalties.L2(0.1) + rs.penalties.Box(-1.0, 1.0)},
        {},
    ],
)
def test_it_asks_for_a_ridge_on_every_feature_and_nothing_else(given: Any) -> None:
    solver = rs.ExactProxRR()
    assert NewtonKernel().able(wide(rs.losses.Logistic(), penalty=rs.penalties.L2(0.1)), solver)
    assert not NewtonKernel().able(wide(rs.losses.Logistic(), **given), solver)


def test_a_run_resumes_where_it_was() -> None:
    problem = wide(rs.losses.Logistic(), penalty=rs.penalties.L2(0.01))
    whole = rs.ExactProxRR(tol=1e-9).solve(problem)
    first = rs.ExactProxRR(tol=1e-9, epochs=1).solve(problem)
    again = rs.ExactProxRR(tol=1e-9).solve(problem, resume=first)
    assert again.converged
    assert np.array_equal(whole.x, again.x)


def test_rows_too_long_for_their_ridge_are_left_to_other_phases() -> None:
    """B is then no longer positive definite in floating-point numbers, in particular where a row occurs twice."""
    rng = np.random.default_rng(0)
    X = 1e8 * rng.standard_normal((5, 12))
    X[1] = X[0]
    problem = rs.Problem(X, rng.standard_normal(5), rs.losses.Squared(), rs.penalties.L2(1e-9))
    assert not NewtonKernel().able(problem, rs.ExactProxRR())
    found = KernelSteps(problem).descend(np.zeros(12), lambda at: False, 0.0)
    assert np.isfinite(found.at.x).all()
    assert rs.ExactProxRR(tol=1e-6).solve(problem).converged
