"""Attacks on the account of a private run: what is told beside the models, repeated questions, resumed runs."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.engines import Failure, Reply, Task, Threads
from reshuffle.federated.private_rounds import MASKED
from reshuffle.privacy import ClientLevel, SampleLevel, epsilon_of_releases
from reshuffle.privacy.noise import RepeatedNoise

pytest.importorskip("dp_accounting")
SAMPLES = SampleLevel(clip=1.0, noise=2.0, delta=1e-3)
LEVELS = [ClientLevel(clip=1.0, noise=2.0, delta=1e-2, noise_at="sites"), SAMPLES]
NAMES = ("a", "b", "c")


def sites_of(**settings: Any) -> Any:
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], size=30)) for _ in NAMES]
    described = [rs.federated.Site(part, n) for n, part in zip(NAMES, rows, strict=True)]
    return rs.federated.Sites(described, penalty=rs.penalties.L2(0.01), **settings)


@dataclass(eq=False)
class Listening:
    """Threads, whose driver writes down what it hears, and loses the first answer of some clients of each round."""

    loses: tuple[int, ...] = ()
    heard: list[tuple[Task, Reply]] = field(default_factory=list)

    def open(self, sizes: Sequence[int], make_host: Any) -> Any:
        session, outer = Threads(1).open(sizes, make_host), self
        lost: set[tuple[int, int]] = set()

        class Session:
            sizes = session.sizes

            def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
                found: list[Reply | Failure] = []
                for answer in session.run_round(task, timeout):
                    if isinstance(answer, Reply):
                        outer.heard.append((task, answer))
                    first = (task.round, answer.client) not in lost
                    if task.kind == "train" and answer.client in outer.loses and first:
                        lost.add((task.round, answer.client))
                        answer = Failure(answer.client, "lost")
                    found.append(answer)
                return found

            def close(self) -> None:
                session.close()

        return Session()


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.unit)
def test_a_site_that_is_asked_again_alone_repeats_its_noise(level: Any) -> None:
    """At first all sites of a host are asked together; then the ones whose answer was lost, one by one."""
    engine = Listening(loses=(0, 2))
    rs.FedRR(step=0.1, rounds=3, batch_size=5, privacy=level, engine=engine).solve(sites_of())
    answers: dict[tuple[int, int], set[bytes]] = {}
    for task, reply in engine.heard:
        if task.kind == "train":
            answers.setdefault((task.round, reply.client), set()).add(reply.model.tobytes())
    assert len([1 for task, _ in engine.heard if task.kind == "train"]) == 3 * 5
    assert [len(found) for found in answers.values()] == [1] * 9
    assert len(set.union(*answers.values())) == 9


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.unit)
@pytest.mark.parametrize("settings", [{}, {"power_rounds": 3}, {"objective": False}])
def test_sites_are_asked_for_nothing_but_sizes_and_noised_models(
    level: Any, settings: dict[str, Any]
) -> None:
    engine = Listening()
    rs.FedRR(step=0.1, rounds=2, privacy=level, engine=engine).solve(sites_of(**settings))
    told = {name for task, reply in engine.heard if task.kind == "train" for name in reply.more}
    assert {task.kind for task, _ in engine.heard} == {"hello", "load", "train"}
    assert not told
    for task, reply in engine.heard:
        if task.kind == "load":  # constants of the data are zeros
            sizes = {"visits", "steps"}
            assert not any(value for name, value in reply.more.items() if name not in sizes)


def test_an_epsilon_of_secure_sums_names_what_the_driver_sees(tmp_path: Path) -> None:
    pytest.importorskip("Crypto")
    from reshuffle.federated.secure.keys import make_keys

    make_keys(tmp_path / "keys", NAMES)
    secure = rs.federated.Secure(keys=tmp_path / "keys")
    solver = rs.FedRR(step=0.1, rounds=3, batch_size=5, privacy=LEVELS[0])
    masked = solver.solve(sites_of(secure=secure)).privacy
    plain = solver.solve(sites_of()).privacy
    assert masked is not None
    assert plain is not None
    assert MASKED in masked.assumed
    assert MASKED not in plain.assumed
    assert masked.epsilon == plain.epsilon


def test_the_driver_of_secure_sums_holds_no_sum_without_noise(tmp_path: Path) -> None:
    """Silent sites: the mean of the models is the noise z·C of the sum, over their number, and each reply is masked."""
    pytest.importorskip("Crypto")
    from reshuffle.federated.secure.keys import make_keys

    make_keys(tmp_path / "keys", NAMES)
    X, y = np.full((4, 2000), 1e-12), np.array([-1.0, 1.0, -1.0, 1.0])
    sites = rs.federated.Sites(
        [rs.federated.Site((X, y), name) for name in NAMES],
        penalty=rs.penalties.L2(1e-12), secure=rs.federated.Secure(keys=tmp_path / "keys"),
    )  # fmt: skip
    engine = Listening()
    found = rs.FedRR(step=0.1, rounds=1, privacy=LEVELS[0], engine=engine).solve(sites)
    assert found.x.std() == pytest.approx(2.0 / 3, rel=0.1)
    assert not any(task.kind == "train" for task, _ in engine.heard)
    words = [part for _, reply in engine.heard for part in reply.more.values()]
    masked = [part for part in words if isinstance(part, np.ndarray) and part.dtype == np.uint64]
    assert [part.size for part in masked] == [2000] * 3


def stopping(epoch: int) -> Any:
    def stop(result: rs.Result) -> None:
        if result.epoch == epoch:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.unit)
def test_a_round_that_was_interrupted_is_counted_twice(level: Any, tmp_path: Path) -> None:
    """Its answers may have been heard; a resumed run asks for them again, with other noise."""
    common: dict[str, Any] = {"step": 0.1, "privacy": level, "batch_size": 5}
    saved = tmp_path / "run.npz"
    sites, save = sites_of(), rs.Checkpoint(saved)
    first = rs.FedRR(rounds=4, **common).solve(sites, callbacks=[save, stopping(2)])
    assert first.interrupted
    for resumed in (first, saved):
        spent = rs.FedRR(rounds=4, **common).solve(sites, resume=resumed).privacy
        assert spent is not None
        assert spent.releases == 5
        assert spent.epsilon == epsilon_of_releases(2.0, 5, level.delta)
        assert any("counted twice" in text for text in spent.assumed)


def test_interruptions_add_up_and_may_exceed_the_epsilon_that_was_planned(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.normal(size=(40, 3)), np.arange(40) % 2)
    level = SampleLevel(clip=1.0, epsilon=1.0, delta=1e-3)
    solver = rs.ProxRR(step=0.1, epochs=4, privacy=level)
    result = solver.solve(problem, callbacks=[stopping(1)])
    for epoch in (2, 3):
        result = solver.solve(problem, resume=result, callbacks=[stopping(epoch)])
    result = solver.solve(problem, resume=result)
    assert result.privacy is not None
    assert result.privacy.releases == 4 + 3
    assert result.privacy.epsilon > 1.0
    result.trace.header["repeated"] = "none"
    with pytest.raises(rs.InputError, match="repeated"):
        rs.ProxRR(step=0.1, epochs=4, privacy=level).solve(problem, resume=result)


def test_a_resumed_run_has_other_noise() -> None:
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.normal(size=(40, 3)), np.arange(40) % 2)
    solver = rs.ProxRR(step=0.1, epochs=2, privacy=SAMPLES)
    half = rs.ProxRR(step=0.1, epochs=1, privacy=SAMPLES).solve(problem)
    found = [solver.solve(problem, resume=half).x.tobytes() for _ in range(3)]
    assert len(set(found)) == 3


def test_keys_of_noise_are_not_in_what_travels() -> None:
    noise = RepeatedNoise(bytes(range(32)))
    assert bytes(range(32)) not in pickle.dumps(noise)
    assert noise.of("1").generator(b"x").random() != noise.of("2").generator(b"x").random()
    same = RepeatedNoise(bytes(range(32))).of("1").generator(b"x").random()
    assert noise.of("1").generator(b"x").random() == same
    with pytest.raises(rs.InputError, match="32 bytes"):
        RepeatedNoise(b"short")


class TestEstimators:
    X, y = np.eye(60), np.arange(60) % 2
    solver = rs.ProxRR(step=0.1, epochs=2, privacy=SampleLevel(clip=1.0, noise=1.0, delta=1e-3))

    def test_intervals_would_look_at_the_rows_again(self) -> None:
        model = rs.RRClassifier(solver=self.solver).fit(self.X, self.y)
        with pytest.raises(rs.InputError):
            model.inference()

    def test_the_file_and_the_copy_have_the_guarantee_and_no_rows(self, tmp_path: Path) -> None:
        model = rs.RRClassifier(solver=self.solver).fit(self.X, self.y)
        assert model.data_ is None
        copy = pickle.loads(pickle.dumps(model))
        assert copy.privacy_ == model.privacy_


def test_private_runs_on_ray(cluster: Any) -> None:
    """The same account, noise from the hosts, and a host that is killed."""
    level = ClientLevel(clip=1.0, noise=1e-15, delta=1e-2, noise_at="sites")
    common: dict[str, Any] = {"step": 0.1, "rounds": 3, "batch_size": 5, "seed": 1}
    sites = sites_of()
    plain = rs.FedRR(privacy=level, **common).solve(sites)
    found = rs.FedRR(privacy=level, engine=rs.engines.Ray(hosts=2), **common).solve(sites)
    np.testing.assert_allclose(found.x, plain.x, atol=1e-12)
    assert found.privacy == plain.privacy
    noisy = rs.FedRR(privacy=SAMPLES, engine=rs.engines.Ray(hosts=2), **common).solve(sites)
    assert noisy.privacy is not None
    assert noisy.privacy.releases == 3
    assert np.linalg.norm(noisy.x - plain.x) > 1e-3
