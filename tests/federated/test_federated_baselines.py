"""Methods of others on the same driver: they reach the pooled solution, whatever the split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles import random_data, sparse

import reshuffle as rs
from benchmarks.federated_baselines import Descent, Scaffnew, Scaffold
from reshuffle.engines import Threads


def federation(**kwargs: Any) -> rs.federated.Federation:
    X, y = random_data(rs.losses.Logistic(), n=61)
    X[y > 0] *= 3.0  # so that clients differ in curvature, too
    return rs.federated.split(rs.Problem(sparse(X), y, **kwargs), clients=4, by="label")


LIMITS: Any = {"tol": 1e-10, "check_every": 25, "eval_every": 10_000, "seed": 1}
PROBLEMS: dict[str, Any] = {
    "ridge": {"ridge": 0.1},
    "elastic net": {"penalty": rs.penalties.ElasticNet(0.01, 0.1)},
}


@pytest.mark.parametrize(
    ("solver", "problem"),
    [
        (Scaffnew(rounds=10_000, **LIMITS), "ridge"),
        (Scaffnew(rounds=10_000, **LIMITS), "elastic net"),
        (Scaffnew(rounds=10_000, communication=0.5, **LIMITS), "elastic net"),
        (Scaffold(rounds=10_000, local_steps=5, step=0.02, **LIMITS), "ridge"),
    ],
)
def test_the_pooled_solution_is_reached(solver: Any, problem: str) -> None:
    clients = federation(**PROBLEMS[problem])
    result = solver.solve(clients)
    assert result.reached, result.message
    pooled = rs.ExactFedRR(rounds=300).solve(clients).x
    beyond = replace(solver, tol=0.0, rounds=3 * result.epoch).solve(clients)
    np.testing.assert_allclose(beyond.x, pooled, rtol=0, atol=1e-8)
    alone = rs.theory.solve(clients.clients[0])
    assert np.linalg.norm(alone - pooled) > 0.1


def test_a_pass_of_scaffold_is_exact_where_the_samples_of_a_client_are_alike() -> None:
    """The controls take away what clients differ by; the noise of the samples is not theirs to take."""
    X, y = random_data(rs.losses.Logistic(), n=4)
    X[1] *= 3.0
    whole = rs.Problem(np.repeat(X, 10, axis=0), np.repeat(y, 10), ridge=0.1)
    clients = rs.federated.split(whole, by=np.repeat(np.arange(4), 10))
    pooled = rs.ExactFedRR(rounds=300).solve(clients).x
    common: Any = {"rounds": 2000, "step": 0.02, "eval_every": 10_000}
    np.testing.assert_allclose(Scaffold(**common).solve(clients).x, pooled, rtol=0, atol=1e-8)
    assert np.linalg.norm(rs.FedRR(**common).solve(clients).x - pooled) > 1e-3


@pytest.mark.parametrize(
    "solver", [Scaffnew(rounds=9, seed=2), Scaffold(rounds=9, seed=2), Scaffold(rounds=9, seed=2, local_steps=3)]
)  # fmt: skip
def test_same_bits_on_any_number_of_threads_and_after_a_resume(solver: Any) -> None:
    clients = federation(ridge=0.1)
    whole = replace(solver, engine=Threads(1)).solve(clients)
    half = solver.solve(clients, callbacks=[lambda r: r.epoch == 4])
    resumed = replace(solver, engine=Threads(2)).solve(clients, resume=half)
    assert resumed.digest == whole.digest


def test_all_clients_take_the_same_drawn_number_of_steps() -> None:
    local: Any = Descent(seed=3, steps=8.0, drawn=True)
    counts = np.array([local.count(t) for t in range(4000)])
    assert abs(counts.mean() - 8.0) < 0.4
    assert counts.min() == 1
    result = Scaffnew(rounds=5, seed=3, communication=1 / 8).solve(federation(ridge=0.1))
    assert result.trace["gradients"][-1] == 61 * counts[:5].sum()


def test_full_participation_only() -> None:
    with pytest.raises(rs.InputError, match="needs all clients"):
        Scaffnew(participation=0.5)
