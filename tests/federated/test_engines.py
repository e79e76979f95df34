"""Engines: the same bits everywhere, whatever fails on the way."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles import random_data, sparse

import reshuffle as rs
from reshuffle.engines import Failure, Reply, Task, Threads, balanced, digest
from reshuffle.engines.threads import ThreadSession


def federation(clients: int = 6) -> rs.federated.Federation:
    X, y = random_data(rs.losses.Logistic(), n=120)
    whole = rs.Problem(sparse(X), y, penalty=rs.penalties.ElasticNet(0.01, 0.05))
    return rs.federated.split(whole, clients=clients, by="quantity", seed=1)


SOLVERS: dict[str, Any] = {
    "FedRR": rs.FedRR(rounds=5, step=0.1, seed=2, batch_size=2),
    "FedSO": rs.FedRR(rounds=5, step=0.1, seed=2, order=rs.orders.ShuffleOnce()),
    "LocalSGD": rs.LocalSGD(rounds=5, step=0.01, seed=2),
    "ExactFedRR": rs.ExactFedRR(rounds=5, seed=2),
    "FedNewton": rs.FedNewton(rounds=5, seed=2),
    "participation": rs.FedRR(rounds=5, step=0.1, seed=2, participation=0.4),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_the_model_does_not_depend_on_the_number_of_workers(name: str) -> None:
    digests = {
        replace(SOLVERS[name], engine=Threads(workers)).solve(federation()).digest
        for workers in (1, 2, 5)
    }
    assert len(digests) == 1


@pytest.mark.parametrize("name", SOLVERS)
def test_the_model_does_not_depend_on_a_resume(name: str, tmp_path: Path) -> None:
    solver = SOLVERS[name]
    whole = solver.solve(federation())
    path = tmp_path / "run.npz"
    solver.solve(federation(), callbacks=[rs.Checkpoint(path), lambda r: r.epoch == 2])
    resumed = replace(solver, engine=Threads(2)).solve(federation(), resume=path)
    assert resumed.digest == whole.digest
    for column in ("objective", "bytes_up", "bytes_down"):
        assert resumed.trace[column].tolist() == whole.trace[column].tolist()


def test_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    SOLVERS["FedRR"].solve(federation()).save(tmp_path / "run.npz")
    with pytest.raises(rs.InputError, match="different: clients"):
        SOLVERS["FedRR"].solve(federation(5), resume=tmp_path / "run.npz")
    with pytest.raises(rs.InputError, match="seed = 2, this one 3"):
        replace(SOLVERS["FedRR"], seed=3).solve(federation(), resume=tmp_path / "run.npz")


@pytest.mark.parametrize("layout", [sparse, np.array])
@pytest.mark.parametrize("batch", [1, 3])
def test_small_clients_trained_together_have_the_same_bits(
    layout: Any, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel call for many clients, against one for each; also when some are asked again."""
    X, y = random_data(rs.losses.Logistic(), n=200)
    kwargs: Any = {"ridge": 0.1, "fit_intercept": True, "sample_weight": np.arange(1.0, 201.0)}
    whole = rs.Problem(layout(X), y, penalty=rs.penalties.L1(0.01), **kwargs)
    many = rs.federated.split(whole, clients=40, by="quantity", seed=3)
    solver = rs.FedRR(rounds=4, step=0.02, seed=1, batch_size=batch)
    together = {replace(solver, engine=Threads(k)).solve(many).digest for k in (1, 2)}
    failed: set[int] = set()

    def once(task: Task, answer: Any) -> Any:
        if answer.client == 17 and task.round not in failed:
            failed.add(task.round)
            return Failure(17, "power cut")
        return answer

    together.add(replace(solver, engine=Recording(once)).solve(many).digest)
    monkeypatch.setattr("reshuffle.federated.host.SMALL", 0)
    one_by_one = replace(solver, engine=Threads(2)).solve(many).digest
    assert together == {one_by_one}


def test_an_engine_is_not_opened_for_another_problem() -> None:
    """Data of the same shape, but not the same."""
    saved = SOLVERS["FedRR"].solve(federation())
    X, y = random_data(rs.losses.Logistic(), n=120, seed=9)
    other = rs.Problem(sparse(X), y, penalty=rs.penalties.ElasticNet(0.01, 0.05))
    engine = Recording()
    with pytest.raises(rs.InputError, match="different: clients"):
        replace(SOLVERS["FedRR"], engine=engine).solve(
            rs.federated.split(other, clients=6, by="quantity", seed=1), resume=saved
        )
    assert engine.sessions == []


def test_another_split_of_the_same_data_is_another_problem() -> None:
    """P(x) is equal on both, so that the objective cannot tell them apart."""
    X, y = random_data(rs.losses.Logistic(), n=120)
    whole = rs.Problem(sparse(X), y, penalty=rs.penalties.ElasticNet(0.01, 0.05))
    first, other = (rs.federated.split(whole, clients=6, by=by) for by in ("label", "iid"))
    saved = SOLVERS["ExactFedRR"].solve(first)
    with pytest.raises(rs.InputError, match="different: clients"):
        SOLVERS["ExactFedRR"].solve(other, resume=saved)


def test_a_session_is_closed_when_clients_report_other_sizes() -> None:
    engine = Recording()
    engine.report = lambda sizes: {c: n + 1 for c, n in sizes.items()}
    with pytest.raises(rs.InputError, match="client 0 reports"):
        replace(SOLVERS["FedRR"], engine=engine).solve(federation())
    assert [session.crew for session in engine.sessions] == [None]


def test_a_session_is_closed_when_the_run_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Any, x0: Any) -> Any:
        raise RuntimeError("no start")

    monkeypatch.setattr("reshuffle.federated.rounds.Rounds.start", start)
    engine = Recording()
    with pytest.raises(RuntimeError, match="no start"):
        replace(SOLVERS["FedRR"], engine=engine).solve(federation())
    assert [session.crew for session in engine.sessions] == [None]


def test_one_engine_serves_two_runs_at_once() -> None:
    """Each has hosts of its own: the same models as one after the other."""
    engine, clients = Threads(2), federation()
    solvers = [rs.ExactFedRR(rounds=150, seed=seed, engine=engine) for seed in (0, 1, 2)]
    expected = [solver.solve(clients).digest for solver in solvers]
    assert len(set(expected)) == 3
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda solver: solver.solve(clients).digest, solvers))
        assert found == expected


def test_an_engine_must_open_a_session() -> None:
    """Version 0.1.0 took engines whose ``open`` returned sizes."""

    class Sizes:
        def open(self, sizes: Any, make_host: Any) -> dict[int, int]:
            return dict(enumerate(sizes))

    with pytest.raises(rs.InputError, match=r"engine Sizes: open\(\) must return a Session"):
        replace(SOLVERS["FedRR"], engine=Sizes()).solve(federation())


def test_clients_are_spread_evenly() -> None:
    parts = balanced([10] * 100, 3)
    assert sum(parts, []) == list(range(100))  # neighbours stay together  # noqa: RUF017
    assert max(map(len, parts)) - min(map(len, parts)) <= 2
    assert balanced([5, 100, 1, 1, 100], 2) == [[0, 1], [2, 3, 4]]
    assert balanced([1, 1], 5) == [[0], [1]]


# --- what travels -------------------------------------------------------------------------------


class Recording:
    """Threads that remember every message, and may spoil some."""

    def __init__(self, spoil: Callable[[Task, Any], Any] | None = None) -> None:
        self.tasks: list[Task] = []
        self.answers: list[Any] = []
        self.sessions: list[ThreadSession] = []
        self.spoil = spoil or (lambda task, answer: answer)
        self.report: Callable[[dict[int, int]], dict[int, int]] = lambda sizes: sizes

    def open(self, sizes: Any, make_host: Any) -> ThreadSession:
        session: Any = Threads(2).open(sizes, make_host)
        run_round = session.run_round

        def recorded(task: Task, timeout: float | None) -> list[Reply | Failure]:
            answers = [self.spoil(task, a) for a in run_round(task, timeout)]
            self.tasks.append(task)
            self.answers += answers
            return answers

        session.run_round, session.sizes = recorded, self.report(session.sizes)
        session.stream = lambda task, timeout: iter(recorded(task, timeout))
        self.sessions.append(session)
        opened: ThreadSession = session
        return opened


@pytest.mark.parametrize("name", ["FedRR", "LocalSGD", "ExactFedRR"])
def test_only_the_model_leaves_a_client(name: str) -> None:
    engine = Recording()
    replace(SOLVERS[name], engine=engine).solve(federation())
    assert len(engine.answers) == 5 * 6
    allowed = {"run": str, "round": int, "client": int, "digest": str, "model": np.ndarray}
    allowed |= {"check": int, "more": dict}
    for answer in engine.answers:
        assert {f.name: type(getattr(answer, f.name)) for f in fields(answer)} == allowed
        assert answer.model.shape == (6,)
        assert answer.more == {}
    assert {type(size) for session in engine.sessions for size in session.sizes.values()} == {int}


def test_a_host_of_sites_is_described_by_where_its_data_comes_from() -> None:
    """What travels is the source; the data is loaded where the host is first asked, and not before."""
    calls: list[int] = []

    def source(c: int) -> tuple[Any, Any]:
        calls.append(c)
        return random_data(rs.losses.Logistic(), 20, 3, seed=c)

    host = rs.federated.Sites([partial(source, c) for c in range(2)]).make_host(range(2))
    assert calls == []
    x = np.empty(0)
    answers = host.work(Task("run", 0, 0.0, x, digest(x), (0, 1), kind="hello"))
    assert [answer.more["samples"] for answer in answers if isinstance(answer, Reply)] == [20, 20]
    assert calls == [0, 1]


# --- failures -----------------------------------------------------------------------------------


def test_a_failed_client_is_asked_again_and_nothing_changes() -> None:
    failed: set[tuple[int, int]] = set()

    def once(task: Task, answer: Any) -> Any:
        key = (task.round, answer.client)
        if answer.client == 3 and key not in failed:
            failed.add(key)
            return Failure(3, "power cut")
        return answer

    expected = SOLVERS["ExactFedRR"].solve(federation())
    result = replace(SOLVERS["ExactFedRR"], engine=Recording(once)).solve(federation())
    assert result.digest == expected.digest
    assert result.trace["retries"][-1] == 5
    assert result.trace["refused"][-1] == 0


@pytest.mark.parametrize("field", ["run", "round", "digest", "model"])
def test_replies_that_belong_elsewhere_are_refused_and_counted(field: str) -> None:
    wrong = {"run": "another", "round": 99, "digest": "0" * 64, "model": np.zeros(5)}
    seen: set[int] = set()

    def stale(task: Task, answer: Any) -> Any:
        if answer.client == 1 and task.round not in seen:
            seen.add(task.round)
            return replace(answer, **{field: wrong[field]})
        return answer

    expected = SOLVERS["FedRR"].solve(federation())
    result = replace(SOLVERS["FedRR"], engine=Recording(stale)).solve(federation())
    assert result.digest == expected.digest
    assert result.trace["refused"][-1] == 5


def test_a_client_that_stays_away_is_named_and_the_checkpoint_kept(tmp_path: Path) -> None:
    def gone(task: Task, answer: Any) -> Any:
        away = answer.client == 4 and task.round >= 3
        return Failure(4, "connection refused") if away else answer

    path = tmp_path / "run.npz"
    solver = replace(SOLVERS["FedRR"], engine=Recording(gone))
    with pytest.raises(rs.ClientError, match=r"round 3.*client 4: connection refused") as caught:
        solver.solve(federation(), callbacks=[rs.Checkpoint(path)])
    assert caught.value.clients == [4]
    assert rs.Result.load(path).epoch == 3
    resumed = SOLVERS["FedRR"].solve(federation(), resume=path)
    assert resumed.digest == SOLVERS["FedRR"].solve(federation()).digest


def test_averaging_those_that_answered_is_opt_in_and_logged(caplog: Any) -> None:
    def gone(task: Task, answer: Any) -> Any:
        return Failure(4, "away") if answer.client == 4 else answer

    solver = replace(SOLVERS["FedRR"], engine=Recording(gone), on_missing="average")
    with caplog.at_level("WARNING", logger="reshuffle"):
        result = solver.solve(federation())
    assert result.epoch == 5
    assert "client 4: away" in caplog.text
    assert "averaging the 5 that answered" in caplog.text
    with pytest.raises(rs.InputError, match="on_missing"):
        rs.ExactFedRR(on_missing="average")


def test_a_round_that_takes_too_long() -> None:
    release = threading.Event()

    class Stuck(Threads):
        def open(self, sizes: Any, make_host: Any) -> ThreadSession:
            session = super().open(sizes, make_host)
            host: Any = session.hosts[0]
            work = host.work
            host.work = lambda task: (release.wait(), work(task))[1]
            return session

    solver = replace(SOLVERS["FedRR"], engine=Stuck(2), round_timeout=0.2, retries=0)
    with pytest.raises(rs.ClientError, match=r"no answer within 0.2 s"):
        solver.solve(federation())
    assert not release.is_set()  # the run ended while the host was still at work
    release.set()


HERE = [str(folder) for folder in Path(__file__).parents[:2]]
"""The folders of this file and of the helpers, for other processes."""
KILLED = """
import sys
sys.path[:0] = sys.argv[3:]
from test_engines import SOLVERS, federation
import reshuffle as rs
from dataclasses import replace
import os
solver = replace(SOLVERS["ExactFedRR"], rounds=int(sys.argv[2]))
resume = sys.argv[1] if os.path.exists(sys.argv[1]) else None
said = []
say = lambda r: None if said else (said.append(1), print("go", flush=True))[0]
callbacks = [rs.Checkpoint(sys.argv[1]), say]
print(solver.solve(federation(), callbacks=callbacks, resume=resume).digest)
"""


@pytest.mark.parametrize("most", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_driver_killed_many_times_ends_in_the_same_digest(most: int, tmp_path: Path) -> None:
    rounds = 100 * most
    expected = replace(SOLVERS["ExactFedRR"], rounds=rounds).solve(federation()).digest
    path, rng = tmp_path / "run.npz", np.random.default_rng(0)
    command = [sys.executable, "-c", KILLED, str(path), str(rounds), *HERE]
    kills, reached = 0, 0
    while kills < most:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(float(rng.uniform(0.0, 0.02)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        if path.exists():
            epoch = rs.Result.load(path).epoch  # whole, whenever it was killed
            assert epoch >= reached
            reached = epoch
    assert most <= reached < rounds  # every life got on, and none was the last
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == expected


# --- Ray ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched(rs.engines.Ray):
    """Ray, whose actors a test can reach."""

    sessions: list[Any] = field(default_factory=list)

    def open(self, sizes: Any, make_host: Any) -> Any:
        self.sessions.append(super().open(sizes, make_host))
        return self.sessions[-1]


def test_two_runs_on_ray_share_the_cluster_until_the_last_ends(cluster: Any) -> None:
    """The one that ends first leaves the other its actors."""
    clients, short = federation(), rs.FedRR(rounds=2, step=0.1, engine="ray")
    long = replace(short, rounds=60)
    expected = replace(long, engine="threads").solve(clients).digest
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(long.solve, clients)
        short.solve(clients)
        assert other.result(timeout=60).digest == expected


def test_an_address_of_another_cluster_is_not_ignored(cluster: Any) -> None:
    with pytest.raises(rs.InputError, match=r"10.0.0.1:6379.*is connected to the Ray cluster at"):
        replace(SOLVERS["FedRR"], engine=rs.engines.Ray(address="10.0.0.1:6379")).solve(
            federation()
        )


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("name", ["FedRR", "ExactFedRR"])
def test_ray_gives_the_same_bits_as_threads(cluster: Any, name: str, hosts: int) -> None:
    expected = SOLVERS[name].solve(federation()).digest
    result = replace(SOLVERS[name], engine=rs.engines.Ray(hosts=hosts)).solve(federation())
    assert result.digest == expected


def test_a_killed_actor_is_restarted_and_nothing_changes(cluster: Any) -> None:
    expected = SOLVERS["ExactFedRR"].solve(federation()).digest
    engine = Watched(hosts=2)

    def kill(result: rs.Result) -> None:
        if result.epoch == 2:
            cluster.kill(engine.sessions[0].actors[0][0], no_restart=False)

    solver = replace(SOLVERS["ExactFedRR"], engine=engine)
    assert solver.solve(federation(), callbacks=[kill]).digest == expected


def test_an_actor_that_stays_dead_is_named(cluster: Any) -> None:
    engine = Watched(hosts=2)

    def kill(result: rs.Result) -> None:
        if result.epoch == 2:
            cluster.kill(engine.sessions[0].actors[0][0], no_restart=True)

    with pytest.raises(rs.ClientError, match=r"round \d: \d of 6 clients missing \(client"):
        replace(SOLVERS["FedRR"], engine=engine).solve(federation(), callbacks=[kill])


def on_loopback(ip: str) -> bool:
    address = ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def test_the_local_cluster_listens_on_loopback_only(cluster: Any) -> None:
    """Every listening TCP socket of this process's Ray children is bound to 127.0.0.1 or ::1."""
    psutil = pytest.importorskip("psutil")
    offenders = []
    for process in psutil.process_iter(["name", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if not any(word in line for word in ("raylet", "gcs_server", "ray::")):
            continue
        listening = [c for c in process.net_connections(kind="tcp") if c.status == "LISTEN"]
        offenders += [(line[:60], c.laddr) for c in listening if not on_loopback(c.laddr.ip)]
    assert offenders == []
