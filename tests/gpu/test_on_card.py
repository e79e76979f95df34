"""The kernels on a graphics card, against threads. The command for a computer that has one and CuPy:

pytest -n 0 tests/gpu
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gpu_cases import LOSSES, missing_card

import reshuffle as rs
from reshuffle.engines import Cuda

pytestmark = pytest.mark.skipif(bool(missing_card()), reason=missing_card() or "there is a card")


def clients_of(
    d: int = 200, stored: int = 20, loss: Any = None, n: int = 3000, parts: int = 200, **more: Any
) -> rs.federated.Federation:
    rng = np.random.default_rng(d + stored)
    X: Any = sp.random(n, d, density=min(stored / d, 1.0), format="csr", rng=rng)
    if stored == d:
        X = X.toarray()
    y = np.sign(X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)) + 0.0
    y[y == 0] = 1.0
    if loss is not None and loss.targets == "counts":
        y = rng.poisson(2.0, n).astype(float)
    problem = rs.Problem(X, y, loss=loss, penalty=rs.penalties.L1(1e-4), **more)
    return rs.federated.split(problem, clients=parts, by="quantity", seed=1)


def difference(solver: Any, clients: rs.federated.Federation, engine: Any = None) -> float:
    wanted = solver.solve(clients).x
    found = replace(solver, engine=engine or Cuda()).solve(clients).x
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


SOLVERS: dict[str, Any] = {
    "FedRR": rs.FedRR(rounds=5, step=0.05, seed=2),
    "batches": rs.FedRR(rounds=5, step=0.05, seed=2, batch_size=4),
    "FedSO": rs.FedRR(rounds=5, step=0.05, seed=2, order=rs.orders.ShuffleOnce()),
    "cyclic": rs.FedRR(rounds=5, step=0.05, seed=2, order=rs.orders.Cyclic()),
    "LocalSGD": rs.LocalSGD(rounds=5, step=0.01, seed=2),
    "participation": rs.FedRR(rounds=5, step=0.05, seed=2, participation=0.3),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_the_model_is_that_of_threads(name: str) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 3000)
    clients = clients_of(ridge=0.01, fit_intercept=True, sample_weight=weights)
    assert difference(SOLVERS[name], clients) < 1e-12


@pytest.mark.parametrize(
    ("d", "stored"),
    [(5, 2), (30, 30), (200, 50), (300, 120), (500, 500), (2000, 1000), (20_000, 20), (60_000, 20)],
)
def test_rows_of_every_length_and_models_of_every_size(d: int, stored: int) -> None:
    """Two to 32 entries for each thread and more; models in shared memory, and (from 30,000 numbers on) not."""
    clients = clients_of(d, stored, n=1000, parts=70, ridge=0.01)
    for batch in (1, 3):
        assert difference(rs.FedRR(rounds=3, step=0.02, batch_size=batch), clients) < 1e-12


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss_of_one_output(loss: Any) -> None:
    assert difference(rs.FedRR(rounds=3, step=0.01), clients_of(loss=loss)) < 1e-12


@pytest.mark.parametrize("largest", [4000, 70_000])
def test_large_clients_are_shuffled_outside_shared_memory(largest: int) -> None:
    clients = clients_of(n=largest, parts=2)
    assert difference(rs.FedRR(rounds=2, step=0.02), clients) < 1e-12


def test_a_strong_ridge_folds_the_scale_in() -> None:
    clients = clients_of(ridge=30.0, fit_intercept=True)
    for batch in (1, 3):
        solver = rs.FedRR(rounds=3, step=0.03, seed=1, batch_size=batch)
        assert difference(solver, clients) < 1e-12


def test_single_precision() -> None:
    found = difference(SOLVERS["FedRR"], clients_of(), Cuda(number="float32"))
    assert 1e-9 < found < 1e-5


@pytest.mark.parametrize("number", ["float64", "float32"])
def test_two_runs_have_the_same_bits(number: Any) -> None:
    solver = replace(SOLVERS["FedRR"], engine=Cuda(number=number))
    assert len({solver.solve(clients_of(n=20_000, parts=3000)).digest for _ in range(3)}) == 1


def test_a_run_that_diverges_says_so() -> None:
    clients = clients_of(loss=rs.losses.Squared())
    with pytest.raises(rs.DivergenceError):
        rs.FedRR(rounds=50, step=1e6, engine="cuda").solve(clients)
