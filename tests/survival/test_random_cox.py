"""Small random sets: no likelihood without a maximum is called converged, and no path claims what is not so."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

import reshuffle as rs


class Drawn(NamedTuple):
    """Rows with times, events, weights and strata."""

    X: Any
    times: Any
    events: Any
    weights: Any
    strata: Any
    ties: str


def drawn(seed: int, rows: int, columns: int) -> Drawn:
    """Ties, strata, weights of zero, constant and repeated columns, scales far apart, few events."""
    rng = np.random.default_rng([seed, 5])
    n, d = int(rng.integers(3, rows)), int(rng.integers(1, columns))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3.0, 3.0, d)
    if rng.random() < 0.3:
        X[:, 0] = rng.choice([0.0, 3.0, 1e6])
    if rng.random() < 0.2:
        X[:, -1] = 2.0 * X[:, 0]
    X = np.sign(X) if rng.random() < 0.3 else X
    times = np.ceil(3.0 * rng.exponential(1.0, n)) * 10.0 ** rng.choice([0.0, -250.0, 250.0])
    events = rng.random(n) < rng.choice([0.1, 0.5, 1.0])
    events[rng.integers(n)] = True
    weights = rng.integers(0, 3, n).astype(float) if rng.random() < 0.4 else np.ones(n)
    weights[events] = np.maximum(weights[events], 1.0)
    strata = rng.integers(0, 3, n) if rng.random() < 0.4 else np.zeros(n, dtype=np.int64)
    return Drawn(X, times, events, weights, strata, str(rng.choice(["efron", "breslow"])))


def is_monotone(data: Drawn) -> bool:
    """Whether along some direction every event has the largest margin of its risk set, and a larger one than some other row."""
    differences = [
        data.X[i] - data.X[j]
        for i in np.flatnonzero(data.events & (data.weights > 0.0))
        for j in np.flatnonzero(
            (data.strata == data.strata[i]) & (data.times >= data.times[i]) & (data.weights > 0.0)
        )
    ]
    D = np.array(differences) / np.where(
        np.abs(data.X).max(axis=0) > 0.0, np.abs(data.X).max(axis=0), 1.0
    )
    solve: Any = linprog
    found = solve(-D.sum(axis=0), A_ub=-D, b_ub=np.zeros(len(D)), bounds=(-1.0, 1.0))
    return bool(found.status == 0 and -found.fun > 1e-7)


@pytest.mark.filterwarnings("ignore")
def test_converged_means_that_there_is_a_maximum() -> None:
    endings = set()
    for seed in range(60):
        data = drawn(seed, 25, 4)
        problem = rs.CoxProblem(
            data.X, data.times, data.events, data.ties, data.strata, sample_weight=data.weights
        )
        result = rs.ProxNewton(tol=1e-9).solve(problem)
        assert result.converged != is_monotone(data), seed
        endings.add(result.converged)
    assert endings == {True, False}


def test_paths_claim_what_proxnewton_finds() -> None:
    claimed = 0
    for seed in range(25):
        data = drawn(seed, 60, 12 if seed % 4 else 120)
        given = {"ties": data.ties, "strata": data.strata, "sample_weight": data.weights}
        y = rs.survival.outcome(data.times, data.events)
        problem = rs.CoxProblem(
            data.X, data.times, data.events, penalty=rs.penalties.L1(1.0), **given
        )
        if not problem.lambda_max() > 0.0:
            continue
        path = rs.cox_path(data.X, y, lambdas=5, tol=1e-9, **given)
        other = rs.cox_path(
            data.X, y, lambdas=path.lambdas, solver=rs.ProxNewton(tol=1e-12), **given
        )
        above = (path.objectives - other.objectives) / problem.reference
        assert path.converged.all(), seed
        assert np.all(above <= 1e-9), seed
        claimed += len(path)
    assert claimed > 80


@pytest.mark.parametrize("n", [255, 256, 257, 513])
@pytest.mark.parametrize("tied", [1, 300])
def test_hessians_of_more_rows_than_a_chunk(n: int, tied: int) -> None:
    """Against differences of gradients; a time may have more events than the core multiplies together."""
    rng = np.random.default_rng(n)
    X, times = rng.standard_normal((n, 5)), np.floor(rng.permutation(n) / tied)
    problem = rs.CoxProblem(X, times, rng.random(n) < 0.9)
    x, step = 0.3 * rng.standard_normal(5), 1e-5
    H = problem.hessian(x, np.arange(5, dtype=np.uint32))
    for j in range(5):
        along = step * np.eye(5)[j]
        difference = (problem.gradient(x + along) - problem.gradient(x - along)) / (2.0 * step)
        assert np.allclose(H[j], difference, atol=1e-8)


def test_a_path_with_more_features_than_a_first_model_has() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 700))
    X[:, 1:] += 3.0 * X[:, :1]  # features that all press at once
    y = rs.survival.outcome(rng.exponential(np.exp(-X[:, 0])), np.ones(60, dtype=bool))
    path = rs.cox_path(X, y, lambdas=[0.5, 0.1, 0.02], tol=1e-9)
    other = rs.cox_path(X, y, lambdas=[0.5, 0.1, 0.02], solver=rs.ProxNewton(tol=1e-11))
    assert path.converged.all()
    assert np.all(np.abs(path.objectives - other.objectives) < 1e-9 * problem_reference(X, y))


def problem_reference(X: Any, y: Any) -> float:
    return rs.CoxProblem(X, y["time"], y["event"]).reference
