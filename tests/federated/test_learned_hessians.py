"""FedNewton with compressed changes of its derivatives: the same limit, fewer bytes, and nothing lost or forged unnoticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_downlink import data, federation
from test_engines import Recording

import reshuffle as rs
from reshuffle.engines import Failure, Reply, Task
from reshuffle.federated import RandomK, Site, Sites, TopK
from reshuffle.federated.client_state_server import Sums
from reshuffle.federated.curvature import HEAD, Answer, Curved
from reshuffle.federated.newton_learned import SLOPES, VALUES, WHOLE, carried
from reshuffle.federated.newton_packed import _lift, answer_of
from reshuffle.federated.replies import Unusable
from reshuffle.federated.transport import PLACES, Digits, transport_of
from reshuffle.federated.transport import VALUES as PACKED

TRANSPORTS: list[Any] = [
    "float32",
    "bfloat16",
    TopK(0.3),
    TopK(0.2, digits="bfloat16"),
]
PROBLEMS: dict[str, Any] = {
    "ridge": {"penalty": rs.penalties.Zero()},
    "sparse": {"penalty": rs.penalties.L1(0.05), "ridge": 0.0},
    "intercept": {"fit_intercept": True},
    "groups": {"penalty": rs.penalties.GroupLasso(0.05, [0, 0, 1, 1, 2, 2])},
    "box": {"penalty": rs.penalties.Box(-0.1, 0.3)},
}


def relative(result: Any, best: float) -> float:
    values = result.trace["objective"]
    return float((values[-1] - best) / (values[0] - best))


@pytest.mark.parametrize("transport", TRANSPORTS, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_solution_is_that_of_exact_derivatives(name: str, transport: Any) -> None:
    settings = {"ridge": 0.05, "penalty": rs.penalties.L1(0.02)} | PROBLEMS[name]
    whole = rs.Problem(*data(), **settings)
    best = rs.ExactProxRR(tol=1e-13).solve(whole).trace["objective"][-1]
    clients = rs.federated.split(whole, clients=4, by="label", seed=0)
    result = rs.FedNewton(rounds=80, transport=transport).solve(clients)
    assert relative(result, best) <= 1e-11
    both = rs.FedNewton(rounds=80, transport=transport, downlink="rounded").solve(clients)
    assert relative(both, best) <= 1e-11


@pytest.mark.parametrize("transport", TRANSPORTS, ids=str)
def test_several_outputs(transport: Any) -> None:
    X, y = data(outputs=3)
    whole = rs.Problem(X, y, loss=rs.losses.Multinomial(), ridge=0.02, fit_intercept=True)
    best = rs.FedNewton(rounds=30).solve(rs.federated.split(whole, 2)).trace["objective"][-1]
    clients = rs.federated.split(whole, clients=3, by="label", seed=0)
    assert relative(rs.FedNewton(rounds=120, transport=transport).solve(clients), best) <= 1e-11


@pytest.mark.parametrize("transport", TRANSPORTS, ids=str)
@pytest.mark.parametrize(("clients", "features"), [(1, 6), (5, 1), (1, 1), (80, 6)])
def test_one_client_one_feature_one_sample_each(
    clients: int, features: int, transport: Any
) -> None:
    whole = rs.Problem(*data(features=features), ridge=0.05)
    best = rs.ExactProxRR(tol=1e-13).solve(whole).trace["objective"][-1]
    result = rs.FedNewton(rounds=80, transport=transport).solve(rs.federated.split(whole, clients))
    assert relative(result, best) <= 1e-11


def test_counts_whose_first_step_is_far_out() -> None:
    """Derivatives at points where the mean overflows are not learned from."""
    X, _ = data()
    y = np.random.default_rng(1).poisson(np.exp(np.minimum(X.sum(axis=1), 6.0))).astype(float)
    whole = rs.Problem(X, y, loss=rs.losses.Poisson(), ridge=0.01, fit_intercept=True)
    clients = rs.federated.split(whole, clients=4, seed=0)
    exact = rs.FedNewton(rounds=100).solve(clients).trace["objective"][-1]
    for transport in ("float32", "bfloat16"):
        result = rs.FedNewton(rounds=100, transport=transport).solve(clients)
        assert result.trace["objective"][-1] <= exact + 1e-8 * abs(exact)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("transport", ["float64", "bfloat16"])
def test_columns_of_very_different_size(seed: int, transport: Any) -> None:
    """A trial point is rounded as far as the quadratic model allows, not as far as its length does."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 15)) * np.exp(3.0 * rng.normal(size=15))
    y = X @ (rng.normal(size=15) / np.abs(X).max(axis=0)) + 0.1 * rng.normal(size=100)
    whole = rs.Problem(
        X, y, loss=rs.losses.Huber(), ridge=1e-6, penalty=rs.penalties.Box(-0.5, 0.5)
    )
    clients = rs.federated.split(whole, clients=5, seed=0)
    exact = rs.FedNewton(rounds=60).solve(clients)
    result = rs.FedNewton(rounds=60, transport=transport, downlink="rounded").solve(clients)
    best = exact.trace["objective"][-1]
    assert result.trace["objective"][-1] - best <= 1e-9 * exact.trace["objective"][0]
    assert result.epoch <= exact.epoch + 8


def test_a_wide_problem_learns_the_features_that_come_and_go() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 620))
    y = X[:, :5].sum(axis=1) + 0.1 * rng.normal(size=60)
    whole = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=rs.penalties.L1(0.1), ridge=1e-3)
    clients = rs.federated.split(whole, clients=3, seed=0)
    exact = rs.FedNewton(rounds=30).solve(clients)
    engine = Recording()
    solver = rs.FedNewton(rounds=60, transport="bfloat16", downlink="rounded", engine=engine)
    result = solver.solve(clients)
    assert result.trace["objective"][-1] - exact.trace["objective"][-1] <= 1e-10
    np.testing.assert_array_equal(result.x != 0, exact.x != 0)
    assert len({answer.more[PACKED].size for answer in engine.answers}) > 2  # active sets


def test_all_is_learned_anew_before_a_run_ends_for_want_of_progress() -> None:
    clients, best = federation()
    engine = Recording()
    result = rs.FedNewton(rounds=60, transport=TopK(0.1), engine=engine).solve(clients)
    assert "no step lowers P(x) any further" in result.message
    whole = [answer.more[WHOLE] for answer in engine.answers if answer.client == 0]
    assert sum(whole) >= 2
    assert result.trace["objective"][-1] - best <= 1e-14


def test_no_false_claim_of_convergence() -> None:
    clients, best = federation(fit_intercept=True)
    for transport in TRANSPORTS:
        for rounds in (2, 4, 8, 30):
            result = rs.FedNewton(rounds=rounds, transport=transport, tol=1e-8).solve(clients)
            if result.converged:
                assert result.trace["objective"][-1] - best <= 1e-8
        assert result.converged


def test_bytes_are_those_of_the_transport() -> None:
    clients, _ = federation()
    up: dict[str, Any] = {}
    for transport in ("float64", "float32", "bfloat16", TopK(0.2, digits="bfloat16")):
        result = rs.FedNewton(rounds=3, transport=transport).solve(clients)
        up[str(transport)] = np.diff(result.trace["bytes_up"]).tolist()
    assert up["float64"] == [4 * 8 * (6 + 6 + 21)] * 3  # values and spread, gradient, triangle
    assert up["float32"] == [4 * (8 * 6 + 8 + 4 * 6 + 4 * 21)] * 3
    assert up["bfloat16"] == [4 * (8 * 6 + 8 + 4 * 6 + 2 * 21)] * 3
    sparse = up[str(TopK(0.2, digits="bfloat16"))]
    assert sparse == [up["bfloat16"][0]] + [4 * (8 * 6 + 8 + 4 * 6 + 4 * 5)] * 2  # 5 of 21


# --- states ------------------------------------------------------------------------------------


def homes(tmp_path: Path) -> Any:
    X, y = data()
    made = []
    for k in range(3):
        (tmp_path / str(k)).mkdir(parents=True, exist_ok=True)
        made.append(Site((X[k::3].copy(), y[k::3]), state=tmp_path / str(k)))
    return Sites(made, penalty=rs.penalties.L1(0.05), fit_intercept=True)


@pytest.mark.parametrize("transport", ["bfloat16", TopK(0.3)], ids=str)
def test_sites_that_keep_their_state_resume_to_the_same_bits(
    transport: Any, tmp_path: Path
) -> None:
    solver = rs.FedNewton(rounds=6, transport=transport, downlink="rounded")
    whole = solver.solve(homes(tmp_path / "a"))
    first = replace(solver, rounds=3).solve(homes(tmp_path / "b"))
    assert solver.solve(homes(tmp_path / "b"), resume=first).digest == whole.digest
    with pytest.raises(rs.InputError, match="transport"):
        replace(solver, transport="float32").solve(homes(tmp_path / "b"), resume=first)
    with pytest.raises(rs.InputError, match="downlink"):
        replace(solver, downlink="float64").solve(homes(tmp_path / "b"), resume=first)


def test_clients_that_have_forgotten_begin_anew_and_come_to_the_same_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clients, best = federation()
    solver = rs.FedNewton(rounds=20, transport="bfloat16")
    first = replace(solver, rounds=2).solve(clients)
    result = solver.solve(clients, resume=first)
    assert "it has lost what the server knew of it after round 1" in caplog.text
    assert relative(result, best) <= 1e-12


def test_a_damaged_state_is_refused() -> None:
    clients, _ = federation()
    first = rs.FedNewton(rounds=2, transport="float32").solve(clients)
    first.state["learned"] = first.state["learned"][:-1]
    with pytest.raises(rs.InputError, match="has learned 26 numbers, where 27 are wanted"):
        rs.FedNewton(rounds=4, transport="float32").solve(clients, resume=first)


@pytest.mark.parametrize("transport", ["bfloat16", TopK(0.3)], ids=str)
def test_a_client_that_is_asked_again_says_the_same(transport: Any) -> None:
    clients, _ = federation()
    solver = rs.FedNewton(rounds=5, transport=transport)
    lost = set[tuple[int, int]]()

    def lose(task: Task, answer: Any) -> Any:
        if answer.client == 1 and (task.round, 1) not in lost:
            lost.add((task.round, 1))
            return Failure(1, "its answer was lost")
        return answer

    engine = Recording(lose)
    assert replace(solver, engine=engine).solve(clients).digest == solver.solve(clients).digest
    assert len(lost) == 5


def test_what_is_known_moves_with_the_active_features() -> None:
    rng = np.random.default_rng(0)
    for shape in ((7,), (7, 3), (6,), (6, 2)):
        local = Curved(shape, 6, 0)
        size, outputs = int(np.prod(shape)), int(np.prod(shape[1:]))
        H = rng.normal(size=(size, size))
        H = H + H.T
        before, now = (rng.random(6) < 0.5 for _ in range(2))

        def part(active: Any, of: Any = H, local: Any = local, size: int = size) -> Any:
            at = local.coordinates(active)
            return np.concatenate([np.arange(size), of[np.ix_(at, at)][np.tril_indices(at.size)]])

        kept = np.zeros((size, size))
        both = np.ix_(local.coordinates(before & now), local.coordinates(before & now))
        kept[both] = H[both]
        np.testing.assert_array_equal(carried(local, part(before), before, now), part(now, of=kept))
        assert local.coordinates(now).size == local.width(now)
        assert outputs * shape[0] == size


def test_a_sum_of_hessians_without_a_sign_is_lifted() -> None:
    for H in (np.diag([1.0, -0.5, 2.0]), np.diag([1.0, 0.0, 2.0]), np.eye(3)):
        lower = H[np.tril_indices(3)]
        numbers = np.concatenate([np.arange(HEAD + 3.0), lower])
        _lift(numbers, H)
        lifted = Answer.of(numbers, (3,), 3).hessian
        least = np.linalg.eigvalsh(H)[0]
        np.testing.assert_allclose(lifted, H + max(0.0, -2.0 * least) * np.eye(3), atol=1e-15)
        np.testing.assert_array_equal(numbers[: HEAD + 3], np.arange(HEAD + 3.0))


# --- hostile replies ---------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    VALUES: np.zeros(HEAD),
    SLOPES: np.zeros(3, np.float32),
    WHOLE: 0,
    PACKED: np.ones(2, np.float32),
    PLACES: np.array([1, 4], np.uint16),
}


@pytest.mark.parametrize(
    "change",
    [
        {VALUES: None},
        {VALUES: np.zeros(HEAD + 1)},
        {VALUES: np.zeros(HEAD, np.float32)},
        {SLOPES: np.zeros(3)},
        {SLOPES: np.zeros((3, 1), np.float32)},
        {SLOPES: "text"},
        {WHOLE: 1},
        {PACKED: np.ones(3, np.float32)},
        {PACKED: np.array([np.inf, 1.0], np.float32)},
        {PLACES: np.array([4, 4], np.uint16)},
        {PLACES: np.array([4, 1], np.uint16)},
        {PLACES: np.array([1, 6], np.uint16)},
        {PLACES: np.array([-1, 1], np.int16)},
        {PLACES: None},
    ],
    ids=str,
)
def test_replies_that_cannot_be_read_are_refused_whole(change: dict[str, Any]) -> None:
    def read(reply: Reply) -> Reply:
        return answer_of(reply, TopK(0.3), 3, 6)

    sums = Sums((HEAD + 3 + 6,), np.ones(2) / 2, read)
    parts = {name: part for name, part in (GOOD | change).items() if part is not None}
    with pytest.raises(Unusable, match=r"its pa|its places"):
        sums.take(Reply("run", 4, 1, "digest", np.empty(0), more=parts))
    assert not sums.model.value().any()
    again = Sums((HEAD + 3 + 6,), np.ones(2) / 2, read)
    rest = again.take(Reply("run", 4, 1, "digest", np.empty(0), more=GOOD | {"value": 2.0})).more
    assert dict(rest) == {"value": 2.0}
    assert again.model.value().tolist() == [0.0] * (HEAD + 3) + [0, 1, 0, 0, 1, 0]


def test_a_site_that_forges_its_changes_is_named() -> None:
    clients, _ = federation()

    def spoil(task: Task, answer: Any) -> Any:
        if answer.client != 2 or task.round != 1:
            return answer
        return replace(
            answer, more={**answer.more, SLOPES: np.full(6, np.nan, np.float32)}, check=None
        )

    engine = Recording(spoil)
    with pytest.raises(rs.ClientError, match="client 2: its model or its numbers hold NaN"):
        rs.FedNewton(rounds=4, transport="float32", engine=engine).solve(clients)


@pytest.mark.parametrize("transport", TRANSPORTS, ids=str)
def test_names_of_transports_are_read_again(transport: Any) -> None:
    found = transport_of(transport)
    assert found is not None
    assert transport_of(found.name) == found


@pytest.mark.parametrize("digits", ["float64", "", 3, None])
def test_digits_that_are_none(digits: Any) -> None:
    with pytest.raises(rs.InputError, match="digits of TopK"):
        TopK(0.5, digits=digits)
    with pytest.raises(rs.InputError, match="digits of RandomK"):
        RandomK(0.5, digits=digits)
    with pytest.raises(rs.InputError, match="transport must be"):
        rs.FedNewton(transport="float16")
    with pytest.raises(rs.InputError, match="random entries"):
        rs.FedNewton(transport=RandomK(0.5))
    assert Digits("float32") == transport_of("float32")
