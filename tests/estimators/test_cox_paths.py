"""Paths of Cox's model in the core: the same minimisers as ``ProxNewton``, and proofs that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.core import native
from reshuffle.estimators import cox_paths as module


def rows(n: int = 80, d: int = 6, seed: int = 0) -> tuple[Any, Any]:
    """Times with ties, a third of them censored."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(0.1, 10.0, d) + 5.0
    times = np.ceil(8.0 * rng.exponential(np.exp(-X[:, 0] * 5.0 + X[:, -1] * 0.03)))
    return X, rs.survival.outcome(np.minimum(times, 60.0), rng.random(n) < 0.7)


STRATA = np.arange(80) % 3
WEIGHTS = np.random.default_rng(1).integers(0, 4, 80).astype(float)
SETTINGS: dict[str, dict[str, Any]] = {
    "efron": {},
    "breslow": {"ties": "breslow"},
    "strata": {"strata": STRATA},
    "weights": {"sample_weight": WEIGHTS, "strata": STRATA},
    "weights, breslow": {"sample_weight": WEIGHTS, "ties": "breslow"},
    "elastic net": {"penalty": "elasticnet", "l1_ratio": 0.3},
    "positive": {"positive": True},
    "factors": {"penalty_factors": [1.0, 2.0, 0.5, 1.0, 3.0, 1.0]},
    "one feature free": {"penalty_factors": [0.0, 1.0, 1.0, 1.0, 1.0, 1.0], "lambdas": [0.1, 0.01]},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_path_has_the_minimisers_of_proxnewton(name: str) -> None:
    X, y = rows()
    given = {"lambdas": 15} | SETTINGS[name]
    path = rs.cox_path(X, y, tol=1e-11, **given)
    other = rs.cox_path(
        X, y, **(given | {"lambdas": path.lambdas, "solver": rs.ProxNewton(tol=1e-12)})
    )
    assert path.converged.all()
    assert other.converged.all()
    scales = X.std(axis=0)
    assert np.abs((path.coefs - other.coefs) * scales).max() < 1e-5
    assert np.allclose(path.objectives, other.objectives, rtol=0.0, atol=1e-11)
    assert np.array_equal(path.coefs != 0.0, other.coefs != 0.0)


def test_a_bound_is_never_below_the_gap() -> None:
    """Few steps leave a gap that the bound of each strength must cover."""
    X, y = rows()
    problem = rs.CoxProblem(X, y["time"], y["event"], penalty=rs.penalties.L1(1.0))
    strengths = problem.lambda_max() * 0.01 ** np.linspace(0.0, 1.0, 8)
    best = rs.cox_path(X, y, lambdas=strengths, tol=1e-12).objectives
    for most in range(3):
        found = module.in_the_core(
            problem, strengths, "newton", rs.ProxNewton(tol=1e-12, epochs=max(most, 1))
        )
        assert found is not None
        bounds = np.array([certificate.value for certificate in found.certificates])
        assert np.all(found.objectives - best <= bounds * problem.reference + 1e-14)


def test_strengths_in_any_order_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    whole = rs.cox_path(X, y, lambdas=[0.01, 0.3, 0.1, 0.1])
    monkeypatch.setattr(module, "A_CALL", 1)  # one strength a call
    pieces = rs.cox_path(X, y, lambdas=[0.3, 0.1, 0.1, 0.01])
    assert whole.lambdas.tolist() == [0.3, 0.1, 0.1, 0.01]
    assert np.array_equal(whole.coefs, pieces.coefs)


def test_sparse_rows_have_the_same_path() -> None:
    X, y = rows()
    dense, sparse = (rs.cox_path(rows, y, lambdas=6, tol=1e-11) for rows in (X, sp.csr_matrix(X)))
    assert np.allclose(dense.coefs, sparse.coefs, rtol=1e-4, atol=1e-6)


def test_what_the_core_does_not_prove_is_left_to_proxnewton() -> None:
    """Beyond the rounding of a duality gap there is still the Newton decrement; one step is too few for either."""
    X, y = rows()
    problem = rs.CoxProblem(X, y["time"], y["event"], penalty=rs.penalties.L1(1.0))
    strengths = np.array([0.3, 0.01])
    found = module.in_the_core(problem, strengths, "newton", rs.ProxNewton(tol=1e-17))
    assert found is not None
    assert not found.converged.any()
    path = rs.cox_path(X, y, lambdas=strengths, tol=1e-17)
    assert path.converged.all()
    assert "decrement" in path.certificates[1].proof
    with pytest.warns(Warning, match="at 2 of 2 strengths"):
        short = rs.cox_path(X, y, lambdas=[0.3, 0.0001], tol=1e-14, max_iter=1)
    assert not short.converged[1]
    assert short.certificates[1].value > 1e-14


def test_a_constant_column_stays_at_zero() -> None:
    X, y = rows()
    path = rs.cox_path(np.column_stack([X, np.full(80, 3.0)]), y, lambdas=10)
    assert path.converged.all()
    assert not path.coefs[:, -1].any()


def test_rows_in_no_risk_set_do_not_count() -> None:
    """A row that is censored before the first event may have any margin, one that overflows too."""
    X, y = rows()
    X, y = np.vstack([X, X[:1]]), np.append(y, y[:1])
    y["time"][-1], y["event"][-1] = 0.0, False
    X[-1, 0] = 5e4
    at = rs.CoxProblem(X, y["time"], y["event"]).expand(np.full(6, 0.1))
    X[-1] = 0.0
    other = rs.CoxProblem(X, y["time"], y["event"]).expand(np.full(6, 0.1))
    assert np.isclose(at.value, other.value, rtol=1e-9)
    assert np.isfinite(at.gradient).all()
    assert np.allclose(at.gradient, other.gradient, atol=1e-8)


BAD = {
    "falling": ([3, 1], [4, 2], [1, 1]),
    "beyond the rows": ([1, 4], [2, 6], [1, 1]),
    "empty": ([1, 2], [1, 3], [1, 1]),
    "more terms than events": ([1, 3], [2, 4], [1, 2]),
}


@pytest.mark.parametrize("name", BAD)
def test_the_core_reads_no_events_beyond_the_rows(name: str) -> None:
    begins, ends, terms = (np.array(each, dtype=np.int64) for each in BAD[name])
    with pytest.raises(ValueError, match="events must rise"):
        native.RiskSets(np.ones(5), begins, ends, terms, np.ones(2))


def test_the_core_refuses_arrays_of_other_lengths() -> None:
    one, two = np.array([1], dtype=np.int64), np.array([2], dtype=np.int64)
    sets = native.RiskSets(np.ones(4), one, two, one, np.ones(1))
    with pytest.raises(ValueError, match="one entry per row"):
        sets.at(np.zeros(3), np.zeros(4), np.zeros(1), np.zeros(4))
    with pytest.raises(ValueError, match="as many rows"):
        native.CoxRows(np.zeros((2, 5)), [sets], 4.0, 0.0)
    rows = native.CoxRows(np.zeros((2, 4)), [sets], 4.0, 0.0)
    form = native.coordinates(*(np.zeros(2),) * 2, np.full(2, -np.inf), np.full(2, np.inf))
    with pytest.raises(ValueError, match="among the strengths"):
        rows.follow(form, np.ones(2), np.zeros((2, 2)), np.zeros((2, 4)), 0, 3, 1e-6, 5)
