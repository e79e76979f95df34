"""Standard errors over clients and sites: those of the pooled data, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import reshuffle as rs
from reshuffle.federated.secure.keys import make_keys

A, B = load_breast_cancer(return_X_y=True)
A = np.ascontiguousarray(A[:, [0, 1, 4]])


def clients_of(X: Any, y: Any, loss: Any, **settings: Any) -> Any:
    problem = rs.Problem(X, y, loss=loss, fit_intercept=True, **settings)
    return rs.federated.split(problem, clients=3, seed=0)


def same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one.std_error, other.std_error, rtol=1e-5)
    assert one.df == other.df


def test_clients_have_the_errors_of_the_pooled_data() -> None:
    X, y = load_diabetes(return_X_y=True)
    W, _ = load_wine(return_X_y=True)
    W, counts = np.ascontiguousarray(W[:, [0, 1]]), W[:, 12]
    for data, target, loss, model in (
        (A, B, rs.losses.Logistic(), rs.RRClassifier(penalty="none")),
        (X, y, rs.losses.Squared(), rs.RRRegressor(penalty="none")),
        (W, counts, rs.losses.Poisson(), rs.RRRegressor(loss="poisson", penalty="none")),
    ):
        clients = clients_of(data, target, loss)
        result = rs.FedNewton(tol=1e-10).solve(clients)
        same(rs.federated.inference(clients, result), model.fit(data, target).inference())


def test_sites_in_the_units_of_their_columns() -> None:
    X = A * [1.0, 100.0, 0.01] + [5.0, 0.0, 2.0]
    X = np.ascontiguousarray(X)
    parts = {"north": (X[:300], B[:300]), "south": (X[300:], B[300:])}
    sites = rs.federated.Sites(parts, fit_intercept=True, standardise=True)
    found = rs.federated.inference(sites, rs.FedNewton(tol=1e-10).solve(sites))
    same(found, rs.RRClassifier(penalty="none").fit(X, B).inference())


def test_what_is_refused() -> None:
    clients = clients_of(A, B, rs.losses.Logistic(), penalty=rs.penalties.L2(0.1))
    result = rs.FedNewton(tol=1e-8).solve(clients)
    with pytest.raises(rs.InputError, match="without a penalty"):
        rs.federated.inference(clients, result)
    with pytest.raises(rs.InputError, match="result must be"):
        rs.federated.inference(clients, cast(Any, result.x))
    hinge = clients_of(A, B, rs.losses.SquaredHinge())
    with pytest.raises(rs.InputError, match="is for the logistic"):
        rs.federated.inference(hinge, rs.FedNewton(tol=1e-8).solve(hinge))
    early = clients_of(A, B, rs.losses.Logistic())
    with pytest.warns(UserWarning, match="tol="):
        short = rs.FedNewton(tol=1e-12, rounds=1).solve(early)
    with pytest.raises(rs.InputError, match="did not converge"):
        rs.federated.inference(early, short)


def test_a_ridge_of_the_problem_is_a_penalty_too() -> None:
    clients = clients_of(A, B, rs.losses.Logistic(), ridge=0.1)
    result = rs.FedNewton(tol=1e-8).solve(clients)
    with pytest.raises(rs.InputError, match=r"ridge=0\.1 over clients are not valid"):
        rs.federated.inference(clients, result)


def test_secure_sites_have_the_errors_of_the_pooled_data(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", ["north", "south"])
    X, y = load_diabetes(return_X_y=True)
    parts = {"north": (X[:100], y[:100]), "south": (X[100:], y[100:])}
    secure = rs.federated.Secure(keys=tmp_path / "keys")
    sites = rs.federated.Sites(parts, rs.losses.Squared(), fit_intercept=True, secure=secure)
    found = rs.federated.inference(sites, rs.FedNewton(tol=1e-9).solve(sites))
    same(found, rs.RRRegressor(penalty="none").fit(X, y).inference())


def test_a_result_of_other_clients_is_refused() -> None:
    clients = clients_of(A, B, rs.losses.Logistic())
    others = clients_of(A[::2].copy(), B[::2], rs.losses.Logistic())
    result = rs.FedNewton(tol=1e-9).solve(clients)
    with pytest.raises(rs.InputError, match="standard errors away"):
        rs.federated.inference(others, result)
