"""The first epoch of the exact method from zero, warm starts, and runs that stand still."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sparse_cases import (
    answers,
    case,
    csr,
    minimum,
    rows,
    shuffled,
    sizes,
    watched,
)

import reshuffle as rs
from reshuffle.solvers.exact.working_sets import SMALL


def test_a_start_at_zero_needs_no_pass_and_any_other_one() -> None:
    problem, _ = case("csr")
    for x0, passes in ((None, 1), (np.full(problem.shape, 0.01), 2)):
        result = shuffled(tol=0.0, epochs=1, importance=False).solve(problem, x0)
        assert result.trace["gradients"].tolist() == [(passes - 1) * 1500, passes * 1500]


def test_a_wide_problem_starts_with_a_pass() -> None:
    result = shuffled(tol=0.0, epochs=1, importance=False).solve(case("wide")[0])
    assert result.trace["gradients"].tolist() == [1200, 2400]


def test_the_first_two_epochs_by_hand() -> None:
    """From zero: ProxRR with steps that fall tenfold; then with the slopes that it saw, h their mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    y = X @ np.array([1.0, -2.0, 0.0, 0.0, 3.0])
    penalty = rs.penalties.ElasticNet(0.05, 0.1)
    problem = rs.Problem(X, y, rs.losses.Squared(), penalty)
    step = 0.5 / problem.smoothness.L_max
    x, slopes = np.zeros(5), np.empty(40)
    expected = []
    for b, each in enumerate(step / np.linspace(1.0, 10.0, 5)):
        for i in range(8 * b, 8 * b + 8):
            slopes[i] = X[i] @ x - y[i]
            x = x - each * slopes[i] * X[i]
        x = penalty.prox(x, each * 8)
    expected.append(x)
    h = X.T @ slopes / 40
    for b in range(5):
        g = X.T @ slopes / 40
        for i in range(8 * b, 8 * b + 8):
            new = X[i] @ x - y[i]
            x = x - step * ((new - slopes[i]) * X[i] + g - h)
            slopes[i] = new
        tau = step * 8
        before, x = x, penalty.prox(x - tau * h, tau)
        h = h + (x - before) / tau
    expected.append(x)
    settings: Any = {"order": rs.orders.Cyclic(), "importance": False, "steps_per_prox": 8}
    _, past = watched(problem, tol=0.0, epochs=2, **settings)
    for found, wanted in zip(past, expected, strict=True):
        np.testing.assert_allclose(found.x, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["csr", "wide", "intercept", "dense", "unit"])
def test_a_warm_start_is_not_destroyed(name: str) -> None:
    problem, settings = case(name)
    x0 = rs.FISTA(tol=1e-7, eval_every=1000).solve(problem).x
    _, past = watched(problem, x0, tol=0.0, epochs=1, **settings)
    assert not np.array_equal(past[0].x, x0)  # before a run that ends higher gives up for its start
    assert problem.objective(past[0].x) <= minimum(problem) + 1e-8


@pytest.mark.parametrize("name", ["csr", "multinomial", "dense", "intercept"])
def test_where_no_feature_is_left(name: str) -> None:
    """x* = 0 and no tolerance: the run goes on with nothing but the intercept, if there is one."""
    problem, settings = case(name)
    strong = rs.Problem(
        case(name)[0].rows.values if name == "dense" else csr(problem), problem.targets,
        problem.loss, rs.penalties.L1(10.0), fit_intercept=problem.fit_intercept,
    )  # fmt: skip
    result, past = watched(strong, tol=0.0, epochs=12, **settings)
    assert sizes(past)[-1] == 0
    assert not result.x[: strong.features].any()
    assert strong.gradient_mapping(result.x) < 1e-3


def test_an_iterate_that_does_not_move_is_no_accident() -> None:
    """‖x_{t+1} - x_t‖ = 0, epoch after epoch, at a minimiser that is reached exactly."""
    X = np.random.default_rng(0).standard_normal((50, 5))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    for penalty in (rs.penalties.L1(10.0), rs.penalties.Box(-1e-3, 1e-3)):
        problem = rs.Problem(X, y, penalty=penalty)
        result = shuffled(tol=0.0, epochs=40).solve(problem)
        assert result.epoch == 40
        assert problem.gradient_mapping(result.x) < 1e-12


@pytest.mark.parametrize("n", [60, 1700])  # below and above SMALL
@pytest.mark.filterwarnings("error")
def test_a_start_outside_the_constraint(n: int) -> None:
    """Zero has ψ = inf here: it must not pass for a start with P = f(0)."""
    X = np.random.default_rng(0).standard_normal((n, 20))
    box = rs.Problem(X, answers(X, "signs"), penalty=rs.penalties.Box(0.5, 1.0))
    assert (box.rows.stored >= SMALL) == (n == 1700)
    result = shuffled(tol=1e-8).solve(box)
    assert result.trace["objective"][0] == np.inf
    assert result.converged, result.message
    assert result.x.min() >= 0.5
    assert box.objective(result.x) - minimum(box) <= 1e-8 * box.value(np.zeros(20))


def test_the_step_does_not_run_away_inside_a_box() -> None:
    """Where x cannot go far and P(x0) = inf, an iterate that circles must not pass for one that converges."""
    X = rows(300)
    box = rs.Problem(X, answers(X, "signs"), penalty=rs.penalties.Box(0.5, 1.0))
    for seed in range(3):
        solver = shuffled(tol=1e-3, epochs=2000, importance=False, seed=seed)
        result = solver.solve(box)
        assert result.converged, result.message
        assert result.trace["step"].max() < 1e3 * result.trace["step"][0]
