"""Newton steps on many rows begin near the minimiser of a sample of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.solvers.exact import newton_alone
from reshuffle.solvers.exact.newton_on_sample import can_begin_at_sample, minimiser_of_sample

ROWS, COLUMNS = 20_000, 40


def rows_of(share: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of which a share is of the class 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    margins = X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS)
    return X, np.where(margins > np.quantile(margins, 1.0 - share), 1.0, -1.0)


@pytest.mark.parametrize("share", [0.5, 0.01])
@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.SquaredHinge()])
def test_the_minimum_is_the_same_and_the_steps_are_fewer(share: float, loss: Any) -> None:
    X, y = rows_of(share)
    problem = rs.Problem(X, y, loss, penalty=rs.penalties.L1(1e-3), fit_intercept=True)
    zero = np.zeros(problem.shape)
    assert can_begin_at_sample(problem, zero)
    found = rs.ExactProxRR(tol=1e-8).solve(problem)
    epochs = rs.ExactProxRR(tol=1e-8, phases=["newton_cg", "shuffled"]).solve(problem)
    assert found.converged
    assert epochs.converged
    values = [problem.objective(each.x) for each in (found, epochs)]
    assert abs(values[0] - values[1]) <= 2e-8 * problem.value(zero)
    assert found.epoch <= 5 + (share < 0.1) * 3


def test_the_start_depends_on_the_seed_alone() -> None:
    X, y = rows_of(0.5)
    problem = rs.Problem(X, y)
    first, again, other = (minimiser_of_sample(problem, seed, 1e-6) for seed in (0, 0, 1))
    assert np.array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)
    assert first.visits < 2 * ROWS


def test_a_sample_without_a_minimum_does_no_harm() -> None:
    X, y = rows_of(0.5)
    y = np.full(ROWS, -1.0)
    y[:30] = 1.0  # few rows of the sample, or none, are of this class
    problem = rs.Problem(X, y, fit_intercept=True, ridge=1e-6)
    result = rs.ExactProxRR(tol=1e-8).solve(problem)
    assert result.converged
    from_elsewhere = rs.ExactProxRR(tol=1e-8).solve(problem, np.full(problem.shape, 0.01))
    assert abs(problem.objective(result.x) - problem.objective(from_elsewhere.x)) <= 2e-8


def test_where_nothing_is_spared_steps_begin_at_zero() -> None:
    X, y = rows_of(0.5)
    for problem in (
        rs.Problem(X, y, rs.losses.Squared()),
        rs.Problem(X[:2000], y[:2000]),
        rs.Problem(X, np.abs(y), rs.losses.Poisson()),
    ):
        assert not can_begin_at_sample(problem, np.zeros(problem.shape))
    assert not can_begin_at_sample(rs.Problem(X, y), np.ones(COLUMNS))


def hostile(kind: str) -> rs.Problem:
    """Rows that a sample may misread, each with a minimum."""
    rng = np.random.default_rng(1)
    n, d = 8_000, 24
    X = rng.normal(size=(n, d))
    loss: Any = rs.losses.Logistic()
    given: dict[str, Any] = {}
    if kind == "duplicated rows":
        X = X[rng.integers(0, 100, n)]
    if kind == "nearly the same columns":
        X[:, 0] = X[:, 1] * (1.0 + 1e-7 * rng.normal(size=n))
    if kind == "a constant and an empty column":
        X[:, 0], X[:, 1] = 1e6, 0.0
    if kind == "scales":
        X *= 10.0 ** rng.uniform(-8, 8, d)
    if kind == "outliers":
        X[rng.integers(0, n, 3)] *= 1e6
    margins = X @ (rng.normal(size=d) / np.maximum(X.std(axis=0), 1e-9)) / 5 + rng.normal(size=n)
    rare = kind == "one in a thousand"
    y: Any = np.where(margins > np.quantile(margins, 0.999 if rare else 0.5), 1.0, -1.0)
    if kind == "sorted":
        order = np.argsort(margins)
        X, y = X[order], y[order]
    if kind == "weights":
        given["sample_weight"] = rng.random(n) * (rng.random(n) < 0.3)
    if kind == "offsets":
        given["offset"] = 10.0 * rng.normal(size=n)
    if kind == "targets far out":
        y, loss = np.where(rng.random(n) < 1e-3, 1e9, margins), rs.losses.Huber(1.0)
    held = rs.Problem(X, y, loss, fit_intercept=True, **given)
    largest = np.abs(held.gradient(np.zeros(held.shape))[:d]).max()
    penalty = rs.penalties.L1(1e-3 * largest)
    return rs.Problem(X, y, loss, penalty, fit_intercept=True, **given)


@pytest.mark.parametrize("kind", ["duplicated rows", "nearly the same columns", "a constant and an empty column", "scales",
    "outliers", "one in a thousand", "sorted", "weights", "offsets", "targets far out"])  # fmt: skip
def test_no_hostile_rows_lead_to_another_minimum(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, tol = hostile(kind), 1e-7
    assert can_begin_at_sample(problem, np.zeros(problem.shape))
    found = rs.ExactProxRR(tol=tol).solve(problem)
    monkeypatch.setattr(newton_alone, "can_begin_at_sample", lambda problem, x: False)
    from_zero = rs.ExactProxRR(tol=tol).solve(problem)
    assert found.converged, found.message
    assert from_zero.converged, from_zero.message
    apart = problem.objective(found.x) - problem.objective(from_zero.x)
    assert abs(apart) <= tol * problem.value(np.zeros(problem.shape))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_resumed_and_watched_runs_have_the_same_bits() -> None:
    problem, solver = hostile("one in a thousand"), rs.ExactProxRR(tol=1e-9, seed=3)
    whole = solver.solve(problem)
    assert np.array_equal(solver.solve(problem, callbacks=[lambda so_far: False]).x, whole.x)
    for stop in (1, 2):
        part = replace(solver, epochs=stop).solve(problem)
        assert part.epoch == stop
        assert np.array_equal(solver.solve(problem, resume=part).x, whole.x)
