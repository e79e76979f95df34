"""ExactFedRR on the kernels of the engine "cuda", compiled for the processor, against threads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact_cases import CANCELLED, SOLVERS, by_label, cancelling
from gpu_cases import LOSSES
from host_device import COMPILER, HostDevice, OnHost
from oracles import random_data, sparse

import reshuffle as rs
from reshuffle.federated.aboard import rounds_aboard
from reshuffle.federated.local import ClientGroup, Corrected, Turn
from reshuffle.federated.plan import plan
from reshuffle.gpu import DeviceClients, DeviceExactRounds, LocalPasses
from reshuffle.randomness import Stream
from reshuffle.rows import Rows

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not there")


def federation(loss: Any = None, layout: Any = sparse, **settings: Any) -> rs.federated.Federation:
    loss = loss or rs.losses.Logistic()
    X, y = random_data(loss, n=150)
    problem = rs.Problem(layout(X), y, loss=loss, penalty=rs.penalties.L1(0.01), **settings)
    return rs.federated.split(problem, clients=9, by="quantity", seed=1)


def weighted(layout: Any = sparse) -> rs.federated.Federation:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    return federation(layout=layout, ridge=0.1, fit_intercept=True, sample_weight=weights)


def agree(
    solver: Any, clients: rs.federated.Federation, device: HostDevice, close: float = 1e-12
) -> None:
    wanted = solver.solve(clients)
    found = replace(solver, engine=OnHost(where=device)).solve(clients)
    scale = np.abs(wanted.x).max()
    assert scale > 1e-3
    np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=close * scale)
    for column in ("bytes_up", "bytes_down", "gradients", "step"):
        assert found.trace[column].tolist() == wanted.trace[column].tolist()


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("layout", [sparse, np.array])
def test_the_model_is_that_of_threads(name: str, layout: Any) -> None:
    """With an intercept, a ridge, weights and rows of different lengths, some of them empty."""
    agree(SOLVERS[name], weighted(layout), HostDevice())


def in_other_units(X: Any) -> Any:
    return sparse(X * np.geomspace(1e-3, 1e3, X.shape[1]))


def far_from_zero(X: Any) -> Any:
    return X + 30.0


@pytest.mark.parametrize("layout", [in_other_units, far_from_zero])
def test_scales_that_clients_agree_on(layout: Any) -> None:
    clients = federation(layout=layout, fit_intercept=True)
    agree(SOLVERS["default"], clients, HostDevice(), 1e-11)


def ones(X: Any) -> Any:
    return sparse((X > 0.5).astype(float))


def single(X: Any) -> Any:
    return sparse(X).astype(np.float32)


@pytest.mark.parametrize("layout", [ones, single])
def test_every_layout_of_rows(layout: Any) -> None:
    agree(SOLVERS["default"], federation(layout=layout), HostDevice())


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.targets != "counts"], ids=str)
def test_losses(loss: Any) -> None:
    agree(SOLVERS["default"], federation(loss), HostDevice())


def test_vectors_that_do_not_fit_into_shared_memory() -> None:
    agree(SOLVERS["default"], weighted(), HostDevice(block_memory=64))


def test_many_clients_of_one_label_and_of_one_row() -> None:
    agree(rs.ExactFedRR(rounds=8, seed=1), by_label(), HostDevice())


def test_the_certificate_is_that_of_the_pooled_solution() -> None:
    clients = by_label(parts=40)
    solver = rs.ExactFedRR(rounds=300, seed=1, tol=1e-10, engine=OnHost(where=HostDevice()))
    found = solver.solve(clients)
    assert found.converged
    pooled = replace(solver, engine="threads", rounds=600, tol=1e-13).solve(clients)
    assert clients.objective(found.x) - clients.objective(pooled.x) < 1e-10
    np.testing.assert_allclose(found.x, pooled.x, atol=1e-4)


def test_rounds_from_one_matrix_reach_the_pooled_solution() -> None:
    """The example of docs/gpu.md, against the exact method on the pooled rows."""
    X, y = random_data(rs.losses.Logistic(), n=120)
    problem = rs.Problem(sparse(X), y, penalty=rs.penalties.ElasticNet(0.01, 0.05))
    fit, first = problem.datafit, np.arange(31) * 4
    clients = DeviceClients(
        HostDevice(), fit.rows, y, np.empty(0), rs.losses.Logistic(), first, X.shape[1], unit="exact"
    )  # fmt: skip
    passes = LocalPasses("shuffle", False, 1, np.full(30, 4), np.ones(30))
    rounds = DeviceExactRounds(clients, passes, 0, first[:-1])
    step = 0.5 / problem.smoothness.L_max
    x = mean = np.zeros(X.shape[1])
    z = rounds.start(x)
    for t in range(1500):
        found = rounds.residuals(z, x, step, t)
        z, mean = found.image, mean + found.residual.total / 30
        x = problem.penalty.prox(mean, step * 4)
    wanted = rs.ExactProxRR(tol=1e-13, epochs=2000).solve(problem).x
    np.testing.assert_allclose(x, wanted, atol=1e-9)


def test_passes_that_cancel_each_other() -> None:
    agree(CANCELLED, cancelling(), HostDevice())


@pytest.mark.parametrize("passes", [1, 2])
def test_every_client_ends_where_it_ends_on_threads(passes: int) -> None:
    """Single clients, of which some stay away and one makes a plain step."""
    clients, step = cancelling(), 2.0 if passes == 1 else 0.3
    local = Corrected(rs.orders.Reshuffle(), passes, False, 2)
    work = plan(clients, local)
    group = ClientGroup(clients.clients, work.positions, work.factors)
    rounds = rounds_aboard(local, group, HostDevice(), "float64")
    assert isinstance(rounds, DeviceExactRounds)
    x, wanted = np.zeros(2), [np.zeros(2), np.zeros(2)]
    z, plain = rounds.start(x), 0
    for number, chosen in enumerate(([0, 1], [0], [1], [0, 1])):
        asked = None if len(chosen) == 2 else np.array(chosen)
        found = rounds.residuals(z, x, step, number, asked)
        plain += len(found.image.anchors) - 1
        for m in chosen:
            tau, before = step * work.totals[m], wanted[m]
            epoch = local.bind(clients.clients[m], work.positions[m], work.factors[m])
            h = (x - before) / tau
            wanted[m] = epoch(Turn(x, step, number, Stream(2, number), h)) - tau * h
        z, x = found.image, x + 0.1
        for m in range(2):
            image = z.anchors[z.rows(2)[m]] + rounds.spread(m, z.coefs)
            np.testing.assert_allclose(image, wanted[m], rtol=1e-12, atol=1e-12)
    assert plain


@pytest.mark.parametrize("name", ["default", "no acceleration", "participation"])
def test_a_run_resumes_to_the_same_bits(name: str, tmp_path: Path) -> None:
    clients = weighted()
    solver = replace(SOLVERS[name], engine=OnHost(where=HostDevice()))
    whole = solver.solve(clients)
    assert solver.solve(clients).digest == whole.digest
    part = replace(solver, rounds=3).solve(clients)
    part.save(tmp_path / "part.npz")
    for saved in (part, tmp_path / "part.npz"):
        assert np.array_equal(solver.solve(clients, resume=saved).x, whole.x)


def test_a_saved_state_with_wrong_anchors_is_refused() -> None:
    clients = weighted()
    solver = replace(SOLVERS["participation"], engine=OnHost(where=HostDevice()))
    part = replace(solver, rounds=3).solve(clients)
    part.state["image_rows0"] = part.state["image_rows0"] + np.int32(1000)
    with pytest.raises(rs.InputError, match="anchors of the saved image 0"):
        solver.solve(clients, resume=part)


def test_single_precision_is_single() -> None:
    clients, solver = weighted(), SOLVERS["no acceleration"]
    wanted = solver.solve(clients).x
    engine = OnHost(number="float32", where=HostDevice())
    found = replace(solver, engine=engine).solve(clients).x
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-9 < error < 1e-5


def test_a_run_that_diverges_says_so() -> None:
    clients = federation(rs.losses.Squared())
    solver = rs.ExactFedRR(rounds=50, step=1e6, engine=OnHost(where=HostDevice()))
    with pytest.raises(rs.DivergenceError, match="diverged in epoch"):
        solver.solve(clients)


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        (rs.ExactFedRR(rounds=2, state="clients", transport="float32"), "transport must be"),
        (rs.ExactFedRR(rounds=2, step=rs.steps.InverseTime()), "step must be constant"),
        (rs.ExactFedRR(rounds=2, order=rs.orders.Allocation()), "with the orders Reshuffle"),
        (rs.ExactFedRR(rounds=2, round_timeout=5.0), "round_timeout must be None"),
        (rs.ExactFedRR(rounds=2, downlink="rounded"), 'downlink must be "float64"'),
    ],
    ids=str,
)
def test_what_the_device_does_not_do_is_refused(solver: Any, said: str) -> None:
    with pytest.raises(rs.InputError, match=said):
        replace(solver, engine=OnHost(where=HostDevice())).solve(federation())


def test_rounds_that_do_not_fit_the_clients_are_refused() -> None:
    first = np.array([0, 2, 3])
    rows = Rows(np.ones((3, 2)), *2 * [np.empty(0, dtype=np.uint32)])

    def made(passes: LocalPasses, **settings: Any) -> DeviceExactRounds:
        given = {"unit": "exact"} | settings
        clients = DeviceClients(
            HostDevice(), rows, np.ones(3), np.empty(0), rs.losses.Logistic(), first, 2, **given
        )  # fmt: skip
        return DeviceExactRounds(clients, passes, 0, first[:-1])

    good = LocalPasses("shuffle", False, 1, np.array([2, 1]), np.ones(2))
    rounds, x = made(good), np.zeros(2)
    assert rounds.residuals(rounds.start(x), x, 0.1, 0).residual.points.coefs is None
    for passes, settings, said in (
        (good, {"unit": "round"}, r'DeviceClients\(unit="exact"\)'),
        (good, {"ridge": 0.1}, "without a ridge"),
        (good._replace(batch=2), {}, "batch 1, got 2"),
        (good._replace(order="draw"), {}, 'order "shuffle" or "cyclic"'),
        (good._replace(passes=0), {}, "at least 1 pass"),
    ):
        with pytest.raises(rs.InputError, match=said):
            made(passes, **settings)
