"""x in fewer bytes: the same limit, the same bits everywhere, and changes of models whose mean is right."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_steps import LongSteps
from test_engines import Recording
from test_sites import both

import reshuffle as rs
from reshuffle.engines import Reply, Task, digest
from reshuffle.engines.number_bytes import LEAST, WHOLE, read, rounded, rounding, width_of, written
from reshuffle.federated import RandomK, TopK
from reshuffle.federated.downlink import MARGIN, in_fewer_bytes
from reshuffle.federated.replies import Unusable
from reshuffle.federated.server import Averaging
from reshuffle.federated.transport import VALUES, Digits, dither, transport_of

numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5)


def data(outputs: int = 1, features: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, features))
    score = X @ rng.normal(size=(features, outputs)) + 0.5 * rng.normal(size=(80, outputs))
    return X, (score.argmax(axis=1) if outputs > 1 else np.sign(score[:, 0]))


def federation(clients: int = 4, penalty: Any = None, **more: Any) -> tuple[Any, float]:
    """Clients that differ, and the minimum of P."""
    penalty = penalty or rs.penalties.L1(0.02)
    whole = rs.Problem(*data(), penalty=penalty, ridge=0.05, **more)
    best = whole.objective(rs.theory.solve(whole))
    return rs.federated.split(whole, clients=clients, by="label", seed=0), best


# --- the bytes of a number ---------------------------------------------------------------------


@given(numbers, st.integers(LEAST, WHOLE))
@settings(max_examples=200, deadline=None)
def test_rounded_numbers_are_near_and_survive_their_bytes(values: list[float], width: int) -> None:
    x = np.array(values)
    found = rounded(x, width)
    normal = (np.abs(x) > 2.0**-1022) & (found != x)
    assert np.all(np.abs(found - x)[normal] <= rounding(width) * np.abs(x)[normal])
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[x == 0], 0.0)
    w = width_of(found)
    sent = written(found, w)
    assert sent.nbytes == w * x.size
    assert read(sent).tobytes() == found.tobytes()
    assert np.array_equal(found, x) or w <= width or np.abs(x).max() > 1e308


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (4, 1)])
def test_tasks_travel_in_the_bytes_of_their_numbers(shape: tuple[int, ...]) -> None:
    x = rounded(np.random.default_rng(0).normal(size=shape), 3)
    wide = Task("run", 1, 0.5, x, digest(x), (0, 1))
    task = replace(wide, width=3)
    again = pickle.loads(pickle.dumps(task))
    assert again.x.tobytes() == x.tobytes()
    assert again.x.dtype == np.float64
    assert again.x.shape == shape
    assert digest(again.x) == task.digest
    assert task.nbytes([0, 1]) == 2 * 3 * x.size
    assert wide.nbytes([0, 1]) == 2 * 8 * x.size


def test_the_rounding_is_a_small_part_of_the_change() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    widths = []
    for size in 10.0 ** -np.arange(0, 18, 2.0):
        before = x + size * rng.normal(size=50)
        found = in_fewer_bytes(x, before, lambda u: True)
        assert np.linalg.norm(found - x) <= MARGIN * np.linalg.norm(x - before)
        widths.append(width_of(found))
    assert widths == sorted(widths)
    assert widths[0] <= 3
    assert widths[-1] == WHOLE
    assert in_fewer_bytes(x, x, lambda u: True) is x
    assert in_fewer_bytes(x, 0 * x, lambda u: False) is x


# --- runs --------------------------------------------------------------------------------------

EXACT: dict[str, Any] = {
    "server": rs.ExactFedRR(rounds=60),
    "clients": rs.ExactFedRR(rounds=60, state="clients"),
    "clients, bfloat16": rs.ExactFedRR(rounds=60, state="clients", transport="bfloat16"),
    "FedNewton": rs.FedNewton(rounds=15),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_a_rounded_x_leads_to_the_exact_solution_in_fewer_bytes(name: str, intercept: bool) -> None:
    clients, best = federation(fit_intercept=intercept)
    plain = EXACT[name].solve(clients)
    result = replace(EXACT[name], downlink="rounded").solve(clients)
    values = result.trace["objective"]
    assert (values[-1] - best) / (values[0] - best) <= 1e-12
    np.testing.assert_array_equal(result.x == 0, plain.x == 0)
    sent = [run.trace["bytes_down"][5] for run in (plain, result)]
    assert sent[1] < 0.9 * sent[0]


def test_columns_of_different_size_are_rounded_in_their_own_units() -> None:
    X, y = data()
    X = X * np.logspace(0, 4, 6)
    whole = rs.Problem(X, y, penalty=rs.penalties.L1(1e-3), fit_intercept=True)
    best = rs.ExactProxRR(tol=1e-12).solve(whole).trace["objective"][-1]
    clients = rs.federated.split(whole, clients=4, by="label", seed=0)
    solver = rs.ExactFedRR(rounds=150, state="clients", downlink="rounded")
    assert solver.solve(clients).trace["objective"][-1] - best <= 1e-9


def test_a_step_that_is_halved_leaves_the_mean_of_the_clients_where_it_is() -> None:
    """x travels whole then: z_m ← x - ½(x - z_m) is made of it by the server and by every client."""
    clients, best = federation()
    solver = LongSteps(rounds=240, state="clients", share=6.0, downlink="rounded", eval_every=20)
    result = solver.solve(clients)
    assert min(result.trace["step"][1:]) < result.trace["step"][1]
    assert result.trace["objective"][-1] - best <= 1e-14  # 2e-13 where x was rounded then


@pytest.mark.parametrize("solver", [rs.FedRR(rounds=30), rs.ExactFedRR(rounds=30), rs.FedNewton()])
def test_x_stays_within_its_bounds(solver: Any) -> None:
    clients, _ = federation(penalty=rs.penalties.Box(-0.1, 0.3))
    result = replace(solver, downlink="rounded").solve(clients)
    assert np.isfinite(result.trace["objective"]).all()
    assert result.x.min() >= -0.1
    assert result.x.max() <= 0.3


RUNS: dict[str, Any] = {
    "FedRR": rs.FedRR(rounds=4, transport="bfloat16", downlink="rounded"),
    "LocalSGD": rs.LocalSGD(rounds=4, transport="float32", downlink="rounded"),
    "participation": rs.FedRR(
        rounds=4, participation=0.4, transport="bfloat16", downlink="rounded"
    ),
    "ExactFedRR": rs.ExactFedRR(
        rounds=6, step=0.1, state="clients", transport="bfloat16", downlink="rounded"
    ),
    "FedNewton": rs.FedNewton(rounds=5, transport="bfloat16", downlink="rounded"),
    "FedNewton, TopK": rs.FedNewton(
        rounds=5, transport=TopK(0.3, digits="bfloat16"), downlink="rounded"
    ),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("more", [{}, {"ridge": 0.1, "fit_intercept": True}])
def test_sites_give_the_same_bits_as_the_data_in_the_driver(name: str, more: Any) -> None:
    clients, sites = both(**more)
    assert RUNS[name].solve(clients).digest == RUNS[name].solve(sites).digest


@pytest.mark.parametrize("name", ["FedRR", "FedNewton"])
def test_ray_gives_the_same_bits_as_threads(cluster: Any, name: str) -> None:
    clients, _ = both()
    on_ray = replace(RUNS[name], engine=rs.engines.Ray(hosts=2))
    assert on_ray.solve(clients).digest == RUNS[name].solve(clients).digest


@pytest.mark.parametrize("name", ["FedRR", "LocalSGD"])
def test_a_resumed_run_has_the_bits_of_one_without_a_pause(name: str) -> None:
    clients, _ = federation()
    first = replace(RUNS[name], rounds=2).solve(clients)
    assert RUNS[name].solve(clients, resume=first).digest == RUNS[name].solve(clients).digest
    for other in ({"transport": "float64"}, {"downlink": "float64"}):
        with pytest.raises(rs.InputError, match=next(iter(other))):
            replace(RUNS[name], **other).solve(clients, resume=first)
    plain = replace(RUNS[name], transport="float64", downlink="float64").solve(clients)
    assert not {"transport", "downlink"} & plain.config.keys()


# --- changes of models -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_the_mean_of_rounded_changes_is_right(kind: str) -> None:
    values = np.array([1.0 + 2.0**-10, -3.3, 1e-20, 0.0])
    found = np.array([dither(values, kind, number) for number in range(4000)])
    digit = 2.0 ** (-7 if kind == "bfloat16" else -23)
    assert np.all(np.abs(found - values) < 2 * digit * np.abs(values) + 1e-300)
    error = np.abs(found.mean(axis=0) - values)
    assert np.all(error <= 0.05 * digit * np.abs(values))
    nearest = transport_of(kind)
    assert nearest is not None
    plain = nearest.unpack(nearest.pack(values, 1), values.shape, 1)
    assert np.abs(plain - values)[1] > 0.05 * digit  # where rounding to the nearest is biased


@pytest.mark.parametrize("transport", ["float32", "bfloat16"])
def test_fedrr_is_as_accurate_in_fewer_digits(transport: str) -> None:
    clients, best = federation()
    solver = rs.FedRR(rounds=150, step=rs.steps.InverseTime())
    plain = solver.solve(clients)
    result = replace(solver, transport=transport, downlink="rounded").solve(clients)
    gaps = [run.trace["objective"][-1] - best for run in (plain, result)]
    assert gaps[1] <= 1.05 * gaps[0]
    up = [int(run.trace["bytes_up"][-1]) for run in (plain, result)]
    assert up[0] == up[1] * (2 if transport == "float32" else 4)


def test_small_clients_that_are_trained_together_send_the_same() -> None:
    """Groups of many small clients have a path of their own in the host."""
    whole = rs.Problem(*data(), penalty=rs.penalties.L1(0.02))
    clients = rs.federated.split(whole, clients=20, seed=0)
    engine = Recording()
    solver = rs.FedRR(rounds=2, transport="bfloat16", engine=engine)
    solver.solve(clients)
    assert {answer.more[VALUES].dtype for answer in engine.answers} == {np.dtype(np.uint16)}
    assert {answer.model.size for answer in engine.answers} == {0}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {VALUES: np.zeros(6)},
        {VALUES: np.zeros(5, np.float32)},
        {VALUES: np.full(6, np.nan, np.float32)},
        {VALUES: "text"},
    ],
)
def test_a_packed_change_that_is_none_is_not_taken(parts: Any) -> None:
    server = Averaging(lambda x, step: x, np.ones(2), Digits("float32", dithered=True))
    task = Task("run", 0, 1.0, np.zeros(6), "digest", (0, 1))
    take = server.takes(task)
    assert take is not None
    with pytest.raises(Unusable, match="its pa"):
        take(Reply("run", 0, 1, "digest", np.empty(0), more=parts))


def test_a_client_that_sends_something_else_is_asked_again_and_named() -> None:
    clients, _ = federation()

    def spoil(task: Task, answer: Any) -> Any:
        wrong = {VALUES: np.zeros(99, np.uint16)}
        return replace(answer, more=wrong, check=None) if answer.client == 2 else answer

    solver = replace(RUNS["FedRR"], engine=Recording(spoil))
    with pytest.raises(
        rs.ClientError, match=r"client 2: its part 'packed' must be uint16 of length 6"
    ):
        solver.solve(clients)


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [rs.FedRR, rs.LocalSGD])
@pytest.mark.parametrize("transport", [TopK(0.5), RandomK(0.5), "TopK 0.5"])
def test_changes_that_do_not_vanish_are_sent_whole(kind: Any, transport: Any) -> None:
    with pytest.raises(rs.InputError, match="does not vanish"):
        kind(transport=transport)


@pytest.mark.parametrize("kind", [rs.FedRR, rs.LocalSGD, rs.ExactFedRR, rs.FedNewton])
@pytest.mark.parametrize("downlink", ["float32", None, True, 3, np.zeros(2)])
def test_downlinks_that_are_none(kind: Any, downlink: Any) -> None:
    with pytest.raises(rs.InputError, match="downlink must be"):
        kind(downlink=downlink)


def test_a_clip_is_not_exceeded_by_rounding() -> None:
    level: Any = {"clip": 1.0, "noise": 1.0, "delta": 1e-3}
    with pytest.raises(rs.InputError, match="longer than its clip"):
        rs.FedRR(
            step=0.1,
            transport="bfloat16",
            privacy=rs.privacy.ClientLevel(**level, noise_at="driver"),
        )
    private = rs.FedRR(
        rounds=2, step=0.1, transport="bfloat16", downlink="rounded",
        privacy=rs.privacy.ClientLevel(**level, noise_at="sites"),
    )  # fmt: skip
    clients, _ = federation()
    assert private.solve(clients).privacy is not None


@pytest.mark.parametrize("kind", [rs.FedRR, rs.LocalSGD, rs.FedNewton])
def test_what_is_packed_cannot_be_part_of_a_secure_sum(kind: Any) -> None:
    with pytest.raises(rs.InputError, match=r'transport must be "float64" with secure sums'):
        kind(transport="float32").check_sums()


def test_a_server_of_ones_own_says_whether_its_x_may_be_rounded() -> None:
    class Own(Averaging):
        pass

    class Mine(rs.FedRR):
        server_class = Own

    clients, _ = federation()
    with pytest.raises(rs.InputError, match=r"with Own, which does not say .*may_round"):
        Mine(rounds=1, downlink="rounded").solve(clients)
    with pytest.raises(rs.InputError, match="with Own, which is given whole models"):
        Mine(rounds=1, transport="float32").solve(clients)
