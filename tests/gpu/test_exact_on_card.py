"""ExactFedRR on a graphics card, against threads: see test_on_card.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from exact_cases import CANCELLED, SOLVERS, by_label, cancelling
from gpu_cases import missing_card

import reshuffle as rs
from reshuffle.engines import Cuda

pytestmark = pytest.mark.skipif(bool(missing_card()), reason=missing_card() or "there is a card")


def clients_of(
    d: int = 200, stored: int = 20, n: int = 3000, parts: int = 200, **more: Any
) -> rs.federated.Federation:
    rng = np.random.default_rng(d + stored)
    X: Any = sp.random(n, d, density=min(stored / d, 1.0), format="csr", rng=rng)
    if stored == d:
        X = X.toarray()
    y = np.where(X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(1e-4), **more)
    return rs.federated.split(problem, clients=parts, by="quantity", seed=1)


def difference(solver: Any, clients: rs.federated.Federation, engine: Any = None) -> float:
    wanted = solver.solve(clients).x
    found = replace(solver, engine=engine or Cuda()).solve(clients).x
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", SOLVERS)
def test_the_model_is_that_of_threads(name: str) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 3000)
    clients = clients_of(ridge=0.01, fit_intercept=True, sample_weight=weights)
    assert difference(SOLVERS[name], clients) < 1e-12


@pytest.mark.parametrize(
    ("d", "stored"), [(5, 2), (30, 30), (300, 120), (500, 500), (20_000, 20), (60_000, 20)]
)
def test_rows_of_every_length_and_models_of_every_size(d: int, stored: int) -> None:
    clients = clients_of(d, stored, n=600, parts=40, ridge=0.01)
    for name in ("no acceleration", "cyclic"):
        assert difference(SOLVERS[name], clients) < 1e-12


def test_many_clients_of_one_label_and_of_one_row() -> None:
    assert difference(rs.ExactFedRR(rounds=8, seed=1), by_label()) < 1e-12


def test_passes_that_cancel_each_other() -> None:
    assert difference(CANCELLED, cancelling()) < 1e-12


def test_single_precision() -> None:
    found = difference(SOLVERS["no acceleration"], clients_of(), Cuda(number="float32"))
    assert 1e-9 < found < 1e-4


@pytest.mark.parametrize("number", ["float64", "float32"])
@pytest.mark.parametrize("name", ["default", "no acceleration"])
def test_two_runs_and_a_resumed_one_have_the_same_bits(
    name: str, number: Any, tmp_path: Path
) -> None:
    clients = clients_of(n=20_000, parts=3000)
    solver = replace(SOLVERS[name], engine=Cuda(number=number))
    whole = solver.solve(clients)
    assert solver.solve(clients).digest == whole.digest
    replace(solver, rounds=3).solve(clients).save(tmp_path / "part.npz")
    assert np.array_equal(solver.solve(clients, resume=tmp_path / "part.npz").x, whole.x)


def test_the_certificate_is_reached() -> None:
    found = rs.ExactFedRR(rounds=300, seed=1, tol=1e-9, engine="cuda").solve(by_label())
    assert found.converged
