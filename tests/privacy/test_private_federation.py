"""Federated runs: clients are clipped, noise is whole whoever adds it, and turns and retries are accounted for."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.federated.local import Shuffled, Turn, described, local_of
from reshuffle.federated.private_rounds import Clipped, NoisyShuffled
from reshuffle.federated.replies import Policy
from reshuffle.privacy import ClientLevel, SampleLevel, epsilon_of_releases
from reshuffle.privacy.noise import RepeatedNoise
from reshuffle.randomness import Stream

pytest.importorskip("dp_accounting")
SILENT = 1e-15


def clients_of(count: int = 6, n: int = 90, d: int = 4, **settings: Any) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=n))
    return rs.federated.split(rs.Problem(X, y, **settings), clients=count, seed=0)


@pytest.mark.parametrize("noise_at", ["sites", "driver"])
@pytest.mark.parametrize("kind", [rs.FedRR, rs.LocalSGD])
def test_without_noise_and_clip_it_is_the_same_run(noise_at: Any, kind: Any) -> None:
    level = ClientLevel(clip=1e6, noise=1e-20, delta=1e-3, noise_at=noise_at)
    common: dict[str, Any] = {"step": 0.05, "rounds": 4, "seed": 1}
    clients = clients_of(penalty=rs.penalties.L1(0.01))
    private = kind(privacy=level, **common).solve(clients)
    np.testing.assert_allclose(private.x, kind(**common).solve(clients).x, atol=1e-9)
    assert np.isnan(private.trace["objective"]).all()


@pytest.mark.parametrize("noise_at", ["sites", "driver"])
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_noise_of_a_sum_is_whole(noise_at: Any, participation: float) -> None:
    """Clients without influence: what is left is the noise z·C on a sum, over their number."""
    X = np.zeros((40, 3000))
    X[:, 0] = 1e-12
    clients = rs.federated.split(rs.Problem(X, np.arange(40) % 2), clients=10, by="iid", seed=0)
    level = ClientLevel(clip=2.0, noise=3.0, delta=1e-3, noise_at=noise_at)
    solver = rs.FedRR(step=0.1, rounds=1, participation=participation, privacy=level)
    moved = solver.solve(clients).x
    assert moved.std() == pytest.approx(3.0 * 2.0 / (10 * participation), rel=0.1)


def test_no_client_moves_the_sum_by_more_than_the_clip() -> None:
    """Huge rows and one sample per client."""
    rng = np.random.default_rng(0)
    X, y = 1e8 * rng.normal(size=(5, 3)), rng.normal(size=5) * 1e8
    problem = rs.Problem(X, y, loss=rs.losses.Squared(), fit_intercept=True)
    clients = rs.federated.split(problem, clients=5, by=[[k] for k in range(5)])
    level = ClientLevel(clip=0.5, noise=SILENT, delta=1e-3)
    found = rs.FedRR(step=1.0, rounds=3, privacy=level).solve(clients)
    assert np.linalg.norm(found.x) <= 3 * 0.5 * (1 + 1e-9)


def test_a_client_whose_passes_diverge_counts_with_its_clip() -> None:
    """An error that names it would tell of its data."""
    problem = rs.Problem(np.full((4, 2), 1e200), np.ones(4), loss=rs.losses.Squared())
    clients = rs.federated.split(problem, clients=2, by=[[0, 1], [2, 3]])
    level = ClientLevel(clip=0.5, noise=SILENT, delta=1e-3)
    with np.errstate(all="ignore"):
        found = rs.FedRR(step=1e150, rounds=2, privacy=level).solve(clients)
    assert np.isfinite(found.x).all()
    assert np.linalg.norm(found.x) <= 1.0 + 1e-9


@pytest.mark.parametrize("clients", [1, 2, 7, 10])
@pytest.mark.parametrize("participation", [0.1, 0.3, 0.5, 1.0])
def test_turns_are_those_of_the_rounds(clients: int, participation: float) -> None:
    policy = Policy(participation)
    turns, fewest = policy.turns(clients), policy.fewest(clients)
    few = max(1, round(participation * clients))
    sizes = [len(range(clients)[k * few : (k + 1) * few]) for k in range(turns)]
    assert sum(sizes) == clients
    assert min(sizes) == fewest


def test_partial_participation_is_counted_by_turns_and_not_as_sampling() -> None:
    level = ClientLevel(clip=1.0, noise=1.0, delta=1e-3)
    solver = rs.FedRR(step=0.1, rounds=7, participation=0.5, privacy=level)
    spent = solver.solve(clients_of()).privacy
    assert spent is not None
    assert spent.releases == 4
    assert spent.epsilon == epsilon_of_releases(1.0, 4, 1e-3)


def test_samples_of_all_clients_are_protected_alike() -> None:
    level = SampleLevel(clip=1.0, noise=2.0, delta=1e-3)
    spent = rs.FedRR(step=0.1, rounds=6, batch_size=4, privacy=level).solve(clients_of()).privacy
    assert spent is not None
    assert (spent.unit, spent.releases) == ("sample", 6)
    assert spent.epsilon == epsilon_of_releases(2.0, 6, 1e-3)


def test_sample_level_without_noise_is_the_same_run() -> None:
    common: dict[str, Any] = {"step": 0.05, "rounds": 3, "batch_size": 4, "seed": 2}
    clients = clients_of(5, 100, ridge=0.1, fit_intercept=True)  # batches of equal length
    level = SampleLevel(clip=1e6, noise=1e-20, delta=1e-3)
    private = rs.FedRR(privacy=level, **common).solve(clients)
    np.testing.assert_allclose(private.x, rs.FedRR(**common).solve(clients).x, atol=1e-9)


def test_epsilon_accumulates_over_resumed_rounds() -> None:
    common: dict[str, Any] = {"step": 0.1, "privacy": ClientLevel(clip=1.0, noise=2.0, delta=1e-3)}
    clients = clients_of()
    first = rs.FedRR(rounds=3, **common).solve(clients)
    longer = rs.FedRR(rounds=5, **common).solve(clients, resume=first)
    assert longer.privacy is not None
    assert longer.privacy.releases == 5


def test_a_question_that_is_repeated_gets_the_same_answer() -> None:
    """A reply that was lost and is sent again has the same noise; every other question has other noise."""
    client = clients_of().clients[0]
    for work in (
        Clipped(Shuffled(rs.orders.Reshuffle(), 1, False, 0), 1.0, 1.0),
        NoisyShuffled(rs.orders.Reshuffle(), 4, 0, 1.0, 1.0),
        NoisyShuffled(rs.orders.Allocation(), 4, 0, 1.0, 1.0),
    ):
        epoch, x = work.bind(client, 0, 1.0), np.zeros(client.shape)
        turn = Turn(x, 0.1, 3, Stream(0, 3), noise=RepeatedNoise())
        first = epoch(turn)
        assert np.array_equal(first, epoch(turn))
        assert not np.array_equal(first, epoch(turn._replace(number=4)))
        assert not np.array_equal(first, epoch(turn._replace(step=0.2)))
        assert not np.array_equal(first, epoch(turn._replace(x=x + 1e-9)))
        assert not np.array_equal(first, epoch(turn._replace(noise=RepeatedNoise())))
        assert not np.array_equal(first, epoch(turn._replace(noise=None)))


def test_keys_of_noise_do_not_travel() -> None:
    noise = RepeatedNoise()
    copy = pickle.loads(pickle.dumps(noise))
    assert noise.generator(b"x").random() == noise.generator(b"x").random()
    assert noise.generator(b"x").random() != copy.generator(b"x").random()


def test_private_work_travels_as_a_record() -> None:
    plain = Shuffled(rs.orders.Reshuffle(), 3, False, 5)
    for work in (
        Clipped(plain, 0.5, 0.25),
        NoisyShuffled(rs.orders.Allocation(), 4, 7, 1.0, 2.0),
    ):
        assert local_of(described(work)) == work
    with pytest.raises(rs.InputError, match="no local work"):
        local_of(described(plain) | {"around": "Unknown"})


def test_sites_tell_no_constants_and_models_carry_the_guarantee(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = {name: (rng.normal(size=(30, 3)), rng.integers(2, size=30)) for name in "abc"}
    sites = rs.federated.Sites(data)
    for level in (
        ClientLevel(clip=1.0, noise=2.0, delta=1e-2, noise_at="sites"),
        SampleLevel(clip=1.0, noise=2.0, delta=1e-3),
    ):
        result = rs.FedRR(step=0.1, rounds=3, batch_size=5, privacy=level).solve(sites)
        assert np.isnan(result.trace["objective"]).all()
        model = rs.estimators.from_federation(result)
        model.save(tmp_path / "model.npz")
        assert rs.estimators.load(tmp_path / "model.npz").privacy_ == result.privacy
