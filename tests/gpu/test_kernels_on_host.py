"""The kernels of the engine "cuda", compiled for the processor, against the core."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gpu_cases import LOSSES
from host_device import COMPILER, HostDevice, OnHost
from oracles import random_data, sparse

import reshuffle as rs
from reshuffle.federated.local import Local
from reshuffle.federated.private_rounds import Clipped, NoisyShuffled
from reshuffle.gpu import DeviceClients, DeviceRounds, LocalPasses
from reshuffle.gpu.stream import jumps, stream_state
from reshuffle.randomness import Stream
from reshuffle.rows import Rows

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not there")


def federation(loss: Any = None, layout: Any = sparse, **settings: Any) -> rs.federated.Federation:
    loss = loss or rs.losses.Logistic()
    X, y = random_data(loss, n=150)
    problem = rs.Problem(layout(X), y, loss=loss, penalty=rs.penalties.L1(0.01), **settings)
    return rs.federated.split(problem, clients=9, by="quantity", seed=1)


def agree(solver: Any, clients: rs.federated.Federation, device: HostDevice) -> None:
    wanted = solver.solve(clients)
    found = replace(solver, engine=OnHost(where=device)).solve(clients)
    scale = np.abs(wanted.x).max()
    assert scale > 1e-3
    np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-13 * scale)
    for column in ("bytes_up", "bytes_down", "gradients"):
        assert found.trace[column].tolist() == wanted.trace[column].tolist()


SOLVERS: dict[str, Any] = {
    "FedRR": rs.FedRR(rounds=4, step=0.1, seed=2),
    "batches": rs.FedRR(rounds=4, step=0.1, seed=2, batch_size=4),
    "FedSO": rs.FedRR(rounds=4, step=0.1, seed=2, order=rs.orders.ShuffleOnce()),
    "cyclic": rs.FedRR(rounds=4, step=0.1, seed=2, order=rs.orders.Cyclic()),
    "LocalSGD": rs.LocalSGD(rounds=4, step=0.01, seed=2),
    "batches of LocalSGD": rs.LocalSGD(rounds=4, step=0.01, seed=2, batch_size=3),
    "participation": rs.FedRR(rounds=4, step=0.1, seed=2, participation=0.4),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_the_model_is_that_of_threads(name: str) -> None:
    """With an intercept, a ridge, weights and rows of different lengths, some of them empty."""
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    clients = federation(ridge=0.1, fit_intercept=True, sample_weight=weights)
    agree(SOLVERS[name], clients, HostDevice())


def ones(X: Any) -> Any:
    return sparse((X > 0.5).astype(float))


def single(X: Any) -> Any:
    return sparse(X).astype(np.float32)


@pytest.mark.parametrize("layout", [np.array, ones, single])
def test_every_layout_of_rows(layout: Any) -> None:
    agree(SOLVERS["FedRR"], federation(layout=layout), HostDevice())


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss_of_one_output(loss: Any) -> None:
    solver = replace(SOLVERS["FedRR"], step=0.01)
    agree(solver, federation(loss), HostDevice())


def test_models_that_do_not_fit_into_shared_memory() -> None:
    agree(SOLVERS["FedRR"], federation(ridge=0.1), HostDevice(block_memory=64))


def test_a_strong_ridge_folds_the_scale_in() -> None:
    """The scale of the iterate falls below its limit many times in a round."""
    clients = federation(ridge=30.0, fit_intercept=True)
    for batch in (1, 3):
        agree(rs.FedRR(rounds=3, step=0.03, seed=1, batch_size=batch), clients, HostDevice())


def test_single_precision_is_single() -> None:
    clients, solver = federation(ridge=0.1), SOLVERS["FedRR"]
    wanted = solver.solve(clients).x
    engine = OnHost(number="float32", where=HostDevice())
    found = replace(solver, engine=engine).solve(clients).x
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-9 < error < 1e-5


def test_a_run_that_diverges_says_so() -> None:
    clients = federation(rs.losses.Squared())
    solver = rs.FedRR(rounds=50, step=1e6, seed=0, engine=OnHost(where=HostDevice()))
    with pytest.raises(rs.DivergenceError, match="diverged in epoch"):
        solver.solve(clients)


def test_the_device_jumps_to_any_number_of_a_stream() -> None:
    table = jumps()
    s1, s0, c1, c0 = map(int, stream_state(3, 5))
    for position in (0, 1, 255, 256, 70_000, 2**33 + 12_345):
        state, rest, place = (s1 << 64) | s0, position, 0
        while rest:
            a1, a0, b1, b0 = map(int, table[256 * place + rest % 256])
            state = ((a1 << 64 | a0) * state + (b1 << 64 | b0) * (c1 << 64 | c0)) % 2**128
            rest, place = rest // 256, place + 1
        wanted = Stream(3, 5).at(position).bit_generator.state["state"]["state"]
        assert state == wanted


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        (rs.FedNewton(rounds=2), "does the local work of FedRR"),
        (rs.FedRR(rounds=2, importance=True), "without importance"),
        (rs.FedRR(rounds=2, round_timeout=5.0), "round_timeout must be None"),
    ],
    ids=str,
)
def test_what_the_device_does_not_do_is_refused(solver: Any, said: str) -> None:
    engine = OnHost(where=HostDevice())
    with pytest.raises(rs.InputError, match=said):
        replace(solver, engine=engine).solve(federation())


def test_losses_without_a_kernel_are_refused() -> None:
    engine = OnHost(where=HostDevice())
    X, y = random_data(rs.losses.Logistic(), n=60)
    classes = np.arange(60) % 3
    problem = rs.Problem(X, classes, loss=rs.losses.Multinomial())
    with pytest.raises(rs.InputError, match="has no kernel on the device"):
        rs.FedRR(rounds=2, engine=engine).solve(rs.federated.split(problem, clients=3))

    class Own(rs.losses.Squared):
        @staticmethod
        def derivative(z: float, y: float) -> float:
            return 2.0 * (z - y)

    problem = rs.Problem(X, y, loss=Own())
    with pytest.raises(rs.InputError, match="has no kernel on the device"):
        rs.FedRR(rounds=2, engine=engine).solve(rs.federated.split(problem, clients=3))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"indices": [0, 1, 0, 9]}, "column indices must lie in 0 … 2"),
        ({"indices": [0, 0, 0, 2]}, "must rise within each row"),
        ({"indices": [1, 0, 0, 2]}, "must rise within each row"),
        ({"indptr": [0, 2, 1, 4]}, "indptr must rise"),
        ({"indptr": [0, 2, 3, 5]}, "indptr must lie in 0 … 4"),
        ({"first": [0, 2, 2, 3]}, "first must rise"),
        ({"first": [0, 2]}, "first must rise"),
        ({"weights": [1.0]}, "weights must be 3 numbers"),
        ({"number": "float16"}, "number must be"),
    ],
    ids=str,
)
def test_arrays_that_kernels_would_misread_are_refused(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "indices": [0, 1, 0, 2], "indptr": [0, 2, 2, 4], "first": [0, 2, 3], "weights": [], "number": "float64",
    } | change  # fmt: skip
    rows = Rows(
        np.ones(4), np.array(given["indices"], dtype=np.uint32), np.array(given["indptr"], dtype=np.uint32)
    )  # fmt: skip
    with pytest.raises(rs.InputError, match=said):
        DeviceClients(
            HostDevice(), rows, np.ones(3), np.array(given["weights"]), rs.losses.Logistic(),
            np.array(given["first"]), 3, number=given["number"],
        )  # fmt: skip


def test_passes_that_do_not_fit_the_clients_are_refused() -> None:
    first = np.array([0, 2, 3])
    clients = DeviceClients(
        HostDevice(), Rows(np.ones((3, 2)), *2 * [np.empty(0, dtype=np.uint32)]), np.ones(3),
        np.empty(0), rs.losses.Logistic(), first, 2,
    )  # fmt: skip
    good = LocalPasses("shuffle", False, 1, np.array([2, 1]), np.ones(2))
    for wrong, said in (
        (good._replace(order="sorted"), "order must be one of"),
        (good._replace(batch=0), "at least 1"),
        (good._replace(visits=np.array([2, 2])), "visits each sample once"),
        (good._replace(averages=np.ones(3)), "one entry for each of 2 clients"),
    ):
        with pytest.raises(rs.InputError, match=said):
            DeviceRounds(clients, wrong, 0, first[:-1])
    with pytest.raises(rs.InputError, match="positions must be"):
        DeviceRounds(clients, good, 0, np.array([0, -1]))


def test_rows_that_are_all_empty() -> None:
    problem = rs.Problem(sp.csr_matrix((30, 4)), np.sign(np.arange(30) - 9.5), fit_intercept=True)
    agree(SOLVERS["FedRR"], rs.federated.split(problem, clients=4), HostDevice())


def test_without_cupy_a_sentence_comes_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    solver = rs.FedRR(engine="cuda")
    monkeypatch.setattr(type(solver), "plan", None)  # nothing is planned
    with pytest.raises(rs.InputError, match=r'engine="cuda" needs cupy: pip install'):
        solver.solve(federation())


def test_without_a_card_a_sentence_comes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCard(Exception):
        pass

    def count() -> int:
        raise NoCard("cudaErrorNoDevice")

    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=NoCard)
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(rs.InputError, match="needs an NVIDIA graphics card; CUDA found none"):
        rs.FedRR(engine="cuda").solve(federation())


def test_sites_are_refused() -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    sites = rs.federated.Sites([(X[:30], y[:30]), (X[30:], y[30:])])
    with pytest.raises(rs.InputError, match="sites need"):
        rs.FedRR(rounds=2, engine=OnHost(where=HostDevice())).solve(sites)


def test_rows_on_disk_are_refused(tmp_path: Path) -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    whole = rs.Problem(sparse(X), y)

    class Elsewhere(type(whole.datafit)):  # type: ignore[misc]
        on_disk = True

    fit = whole.datafit
    other = whole.with_datafit(
        Elsewhere(*(getattr(fit, name) for name in fit.__dataclass_fields__))
    )
    clients = rs.federated.Federation([other, other])
    solver = rs.LocalSGD(rounds=2, step=0.1, engine=OnHost(where=HostDevice()))
    with pytest.raises(rs.InputError, match="with rows in memory"):
        solver.solve(clients)


def test_private_work_has_no_kernels() -> None:
    """Clipping and noise are not done on a device, and so such work must be refused there."""
    for kind in (Clipped, NoisyShuffled):
        assert kind.device_passes is Local.device_passes
