"""What federated methods call converged: a bound from sums over the clients, never below the true gap."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from oracles import LOSSES, penalty, random_data, unknown

import reshuffle as rs
from benchmarks import adversary
from reshuffle.federated.certificate import FederatedGap, RoundedMapping, certificate_for

P, L = rs.penalties, rs.losses
PENALTIES = ("l1", "elastic_net", "group_lasso", "zero")


def data(loss: Any, n: int = 60) -> tuple[Any, Any, Any]:
    X, y = random_data(loss, n=n)
    return X, y, np.linspace(0.5, 1.5, n)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("psi", PENALTIES)
@pytest.mark.parametrize("name", [n for n, loss in LOSSES.items() if loss.conjugate is not None])
def test_the_gap_is_never_below_the_true_one(name: str, psi: str, intercept: bool) -> None:
    """At random points near and far, with weights; and it is as good as zero at the minimiser."""
    X, y, w = data(LOSSES[name])
    shape = unknown(name)
    ridge = 0.02 if psi == "zero" else 0.0
    whole = rs.Problem(X, y, LOSSES[name], penalty(psi, shape), ridge, w, intercept)
    clients = rs.federated.split(whole, clients=4, by="iid", seed=1)
    measure = certificate_for(clients)
    assert isinstance(measure, FederatedGap)
    best = rs.theory.solve(whole)
    at_zero, rng = whole.value(np.zeros(whole.shape)), np.random.default_rng(0)
    for length in (0.0, 1e-8, 1e-4, 1e-2, 1.0, 30.0):
        x = best + length * rng.standard_normal(whole.shape)
        true = (whole.objective(x) - whole.objective(best)) / at_zero
        assert measure.at(x) >= true
    assert measure.at(best) <= 1e-6


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [L.Poisson(), L.Squared()])
def test_counts_and_rows_of_targets_too(loss: Any, intercept: bool) -> None:
    """Losses whose infimum is not zero, and several outputs."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 4)) + 1.0
    y: Any = rng.poisson(3.0, 60).astype(float)
    y = np.stack([y, 5.0 * rng.standard_normal(60)], axis=1) if loss.quadratic else y
    whole = rs.Problem(X, y, loss, P.L1(0.1), fit_intercept=intercept)
    measure = certificate_for(rs.federated.split(whole, clients=3, by="iid"))
    best = rs.ExactProxRR(tol=1e-12).solve(whole).x
    assert isinstance(measure, FederatedGap)
    for length in (0.0, 1e-8, 1e-4, 1e-2, 0.3):
        x = best + length * rng.standard_normal(whole.shape)
        true = whole.objective(x) - whole.objective(best)
        assert measure.at(x) >= (true - 1e-12) / whole.value(np.zeros(whole.shape))
    assert measure.at(best) <= 1e-6


@pytest.mark.parametrize("name", ["quantile", "multinomial", "squared"])
def test_sites_and_sums_give_the_same_gap(name: str) -> None:
    """The column of the trace: by the data in one process, by messages, by sums with state at the clients."""
    X, y, _ = data(LOSSES[name])
    parts = np.array_split(np.arange(60), 3)
    settings: Any = {"loss": LOSSES[name], "penalty": P.L1(0.05), "fit_intercept": True}
    here = rs.federated.Federation([rs.Problem(X[p], y[p], **settings) for p in parts])
    there = rs.federated.Sites([(X[p], y[p]) for p in parts], **settings)
    for state in ("server", "clients"):
        solver = rs.ExactFedRR(rounds=5, tol=1e-12, step=1e-3, state=state)
        with pytest.warns(UserWarning, match="tol=1e-12 was not reached"):
            one, two = solver.solve(here).trace, solver.solve(there).trace
        np.testing.assert_allclose(one["gap"][1:], two["gap"][1:], rtol=1e-9)


def flat(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Residuals far from the kinks of the loss, sorted by the target."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 200)), int(rng.integers(1, 8))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    y = X @ rng.standard_normal(d) * 10 + rng.uniform(-100, 100) + rng.standard_normal(n)
    kind = seed % 3
    loss = (L.Quantile(0.1, 1.0), L.Huber(0.01), L.SquaredHinge())[kind]
    y = np.where(y > np.median(y), 1.0, -1.0) if kind == 2 else y
    order = np.argsort(y, kind="stable")
    psi = (P.L1(1e-3), None, P.L2(1e-4))[seed // 3 % 3]
    return X[order], y[order], {"loss": loss, "penalty": psi, "fit_intercept": seed % 2 == 0}


@pytest.mark.parametrize("seed", range(12))
def test_flat_slopes_are_no_proof(seed: int) -> None:
    """FedNewton's first steps lead far out, where x - τg is x: what is certified there is not the start."""
    X, y, settings = flat(seed)
    whole = rs.Problem(X, y, **settings)
    best = whole.objective(rs.theory.solve(whole))
    sites = [(X[part], y[part]) for part in np.array_split(np.arange(len(y)), 4)]
    solver = rs.FedNewton(rounds=100, tol=1e-5)
    result = solver.solve(rs.federated.Sites(sites, **settings))
    assert result.reached, result.message
    assert whole.objective(result.x) - best <= 1e-5 * whole.objective(np.zeros(whole.shape))


def test_a_point_far_out_is_not_certified_by_rounding() -> None:
    X, y, _ = data(L.Huber(0.1))
    clients = rs.federated.split(rs.Problem(X, y, L.Huber(0.1)), clients=3)
    measure = certificate_for(clients)
    assert isinstance(measure, RoundedMapping)
    assert measure.at(np.full(clients.shape, 1e18)) > 1.0


def test_without_values_the_mapping_is_what_is_left() -> None:
    X, y, _ = data(L.Logistic())
    sites = rs.federated.Sites(
        [(X[:30], y[:30]), (X[30:], y[30:])], penalty=P.L2(0.1), objective=False
    )
    assert "relative_mapping" in rs.FedNewton(rounds=9, tol=1e-6).solve(sites).trace


def test_columns_of_very_different_size_are_no_end_at_zero() -> None:
    """The gradient mapping at zero was 4e-10, as the one huge gradient pointed out of the orthant, and P 140 times its minimum."""
    hostile = adversary.attack(289)
    found = rs.FedNewton(rounds=100, tol=1e-3).solve(adversary.federation(hostile))
    best = rs.ExactProxRR(tol=1e-9).solve(adversary.problem(hostile))
    assert best.converged
    assert not found.converged
    assert hostile.objective(found.x) - hostile.objective(best.x) <= 1e-6 * hostile.at_zero


def test_a_trial_point_that_overflows_has_an_infinite_gap() -> None:
    """Slopes of Poisson's loss that are no numbers ended the run with an exception, in the norms of the groups."""
    found = rs.FedNewton(rounds=60, tol=1e-6).solve(adversary.federation(adversary.attack(442)))
    assert found.converged, found.message


@pytest.mark.parametrize("seed", [144, 230, 335])
def test_extrapolation_along_flat_slopes_is_bounded(seed: int) -> None:
    """A round is a translation there; extrapolations of 10⁵ rounds ended in a DivergenceError."""
    hostile = adversary.attack(seed)
    federation = adversary.federation(hostile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = rs.ExactFedRR(rounds=240, tol=1e-3).solve(federation)
    assert hostile.objective(found.x) <= hostile.at_zero
