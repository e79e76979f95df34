"""Clients that hang, lie, overflow or disagree: each costs its own answer, and is named."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_engines import Recording, federation

import reshuffle as rs
from reshuffle.engines import Failure, Task, Threads
from reshuffle.engines.crew import Crew, Job

SOLVER = rs.FedRR(rounds=3, step=0.1, seed=2)


class Hanging(rs.FiniteSum):
    """A client's problem that waits for an event whenever its gradients are asked for."""

    def __init__(self, problem: rs.Problem, wait: Callable[[], object]) -> None:
        self.whole, self.wait = problem, wait
        self.n, self.shape, self.penalty = problem.n, problem.shape, problem.penalty

    @property
    def smoothness(self) -> Any:
        return self.whole.smoothness

    def value(self, x: Any) -> float:
        return self.whole.value(x)

    def component(self, i: int, x: Any) -> Any:
        self.wait()
        return self.whole.component(i, x)


def parts(count: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    X, penalty = rng.standard_normal((10 * count, 3)), rs.penalties.L2(0.1)
    y = np.where(np.arange(10 * count) % 2, 1.0, -1.0)
    return [
        rs.Problem(X[10 * m : 10 * m + 10], y[10 * m : 10 * m + 10], penalty=penalty)
        for m in range(count)
    ]


@pytest.mark.parametrize("hung", [[0], [0, 4, 5]])
def test_a_straggler_costs_its_own_reply_and_nobody_elses(hung: list[int], caplog: Any) -> None:
    """Also where more clients hang than there are workers."""
    release = threading.Event()
    clients = parts(10)
    for c in hung:
        clients[c] = Hanging(clients[c], lambda: release.wait(60))
    mixed = rs.federated.Federation(
        [Hanging(c, int) if isinstance(c, rs.Problem) else c for c in clients]
    )
    solver = replace(
        SOLVER, rounds=2, engine=Threads(2), round_timeout=2.0, on_missing="average", retries=0
    )
    with caplog.at_level("WARNING", logger="reshuffle"):
        result = solver.solve(mixed)
    release.set()
    assert result.epoch == 2
    assert caplog.text.count(f"{len(hung)} of 10 clients missing") == 2
    assert caplog.text.count(f"averaging the {10 - len(hung)} that answered") == 2


HERE = [str(folder) for folder in Path(__file__).parents[:2]]
"""The folders of this file and of the helpers, for other processes."""
SLEEPER = """
import sys, time
sys.path[:0] = sys.argv[1:]
from test_federated_faults import *
clients = parts(4)
clients[1] = Hanging(clients[1], lambda: time.sleep(600))
clients = rs.federated.Federation([Hanging(c, int) if isinstance(c, rs.Problem) else c for c in clients])
try:
    replace(SOLVER, round_timeout=0.2, retries=0).solve(clients)
except rs.ClientError as error:
    print(error.clients, flush=True)
"""


def test_exit_never_waits_for_a_sleeper() -> None:
    command = [sys.executable, "-c", SLEEPER, *HERE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[1]\n"


def test_a_late_answer_goes_nowhere_and_its_client_is_not_asked_twice_at_once() -> None:
    crew, release = Crew(1), threading.Event()
    slow = Job((7,), lambda: [Failure(7, str(release.wait(60)))])
    assert [job.late for job in crew.run([slow], 0.05)] == [True]
    again, other = Job((7,), lambda: [Failure(7, "second")]), Job((8,), lambda: [Failure(8, "x")])
    done = {job.clients: job for job in crew.run([again, other], 0.05)}
    assert done[8,].answers is not None
    assert done[7,].late
    release.set()
    third = Job((7,), lambda: [Failure(7, "third")])
    (last,) = crew.run([third], 60.0)
    assert [a.reason for a in last.answers or [] if isinstance(a, Failure)] == ["third"]
    crew.close()


def test_a_host_that_raises_is_asked_again() -> None:
    class Breaking(Threads):
        def open(self, sizes: Any, make_host: Any) -> Any:
            session = super().open(sizes, make_host)
            host: Any = session.hosts[0]
            work, seen = host.work, set()

            def once(task: Task) -> Any:
                if task.round not in seen:
                    seen.add(task.round)
                    raise MemoryError("no room")
                return work(task)

            host.work = once
            return session

    expected = SOLVER.solve(federation()).digest
    assert replace(SOLVER, engine=Breaking(2)).solve(federation()).digest == expected


def spoiled(change: Callable[[Any], Any], times: int = 99) -> Recording:
    """An engine whose client 3 answers with something else, so many times in all."""
    left = [times]

    def spoil(task: Task, answer: Any) -> Any:
        if answer.client != 3 or not left[0]:
            return answer
        left[0] -= 1
        return change(answer)

    return Recording(spoil)


BAD = {
    "NaN": (lambda a: replace(a, model=a.model * np.nan, check=None), "NaN or infinity"),
    "list": (lambda a: replace(a, model=a.model.tolist()), "must be an array, got a list"),
    "None": (lambda a: replace(a, model=None), "must be an array, got a NoneType"),
    "complex": (lambda a: replace(a, model=a.model + 0j), "got complex128"),
    "objects": (lambda a: replace(a, model=a.model.astype(object)), "got object"),
    "shape": (lambda a: replace(a, model=a.model[:2]), r"float64 of shape \(6,\), got"),
    "damaged": (lambda a: replace(a, model=a.model + 1e-9), "damaged on the way"),
    "round": (lambda a: replace(a, round=77), "another round: 77, not 0"),
    "run": (lambda a: replace(a, run="x"), "another run: 'x'"),
    "start": (lambda a: replace(a, digest="x"), "another digest of the model"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_reply_is_refused_with_the_true_reason_and_its_client_named(name: str) -> None:
    change, reason = BAD[name]
    with pytest.raises(rs.ClientError, match=f"client 3: .*{reason}") as caught:
        replace(SOLVER, engine=spoiled(change)).solve(federation())
    assert caught.value.clients == [3]
    once = replace(SOLVER, engine=spoiled(change, 2)).solve(federation())
    assert once.digest == SOLVER.solve(federation()).digest
    assert once.trace["refused"][-1] == 2


@pytest.mark.parametrize("sender", [-1, 6, 4, None, [1], "3", 3.5])
def test_a_reply_of_someone_who_was_not_asked_is_refused(sender: Any) -> None:
    engine = spoiled(lambda a: replace(a, client=sender))
    words = "no answer" if sender != 4 else "answered twice, with different models"
    with pytest.raises(rs.ClientError, match=words):
        replace(SOLVER, engine=engine).solve(federation())


class Doubling(Recording):
    def open(self, sizes: Any, make_host: Any) -> Any:
        session = super().open(sizes, make_host)
        run_round = session.run_round
        session.run_round = lambda task, timeout: 2 * run_round(task, timeout)  # type: ignore[method-assign]
        return session


def test_an_answer_that_comes_twice_counts_once() -> None:
    result = replace(SOLVER, engine=Doubling()).solve(federation())
    assert result.digest == SOLVER.solve(federation()).digest
    assert result.trace["refused"][-1] == 3 * 6


def test_a_client_that_overflows_is_named_with_a_better_step() -> None:
    clients = parts(4)
    clients[1] = rs.Problem(
        1e200 * clients[1].rows.values, clients[1].targets, penalty=clients[1].penalty
    )
    with pytest.raises(rs.DivergenceError, match=r"client 1: .*not finite.*try step=") as caught:
        rs.FedRR(rounds=3, step=1e200).solve(rs.federated.Federation(clients))
    assert np.isfinite(caught.value.result.x).all()


# --- clients that disagree ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"penalty": rs.penalties.L1(0.1)}, r"penalty of client 1 is L1\(l1=0.1\), of client 0 L2"),
        ({"loss": rs.losses.Squared()}, r"loss of client 1 is Squared\(\), of client 0 Logistic"),
        ({"ridge": 0.5}, "ridge of client 1 is 0.5, of client 0 0"),
        ({"fit_intercept": True}, r"shape of the unknown of client 1 is \(4,\), of client 0 \(3,\)"),
    ],
)  # fmt: skip
def test_clients_that_disagree_are_refused(other: dict[str, Any], words: str) -> None:
    one = parts(1)[0]
    X, y = one.rows.values, one.targets
    settings: dict[str, Any] = {"penalty": rs.penalties.L2(0.1)} | other
    with pytest.raises(rs.InputError, match=words):
        rs.federated.Federation([one, rs.Problem(X, y, **settings)])


def test_an_intercept_is_not_a_feature() -> None:
    X, y = np.ones((4, 3)), np.array([1.0, -1, 1, -1])
    with pytest.raises(rs.InputError, match="features of client 1 is 3, of client 0 4"):
        rs.federated.Federation(
            [rs.Problem(np.ones((4, 4)), y), rs.Problem(X, y, fit_intercept=True)]
        )


def test_sample_weights_are_normalised_over_the_federation() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    w = rng.random(30) * np.repeat([1.0, 7.0], [10, 20])
    pooled = rs.Problem(X, y, sample_weight=w)
    sides = [slice(0, 10), slice(10, 30)]
    apart = rs.federated.Federation([rs.Problem(X[s], y[s], sample_weight=w[s]) for s in sides])
    x = rng.standard_normal(3)
    assert np.isclose(apart.objective(x), pooled.objective(x), rtol=1e-14)
    np.testing.assert_allclose(apart.gradient(x), pooled.gradient(x), atol=1e-15)
    some = rs.federated.Federation(
        [rs.Problem(X[:10], y[:10]), rs.Problem(X[10:], y[10:], sample_weight=np.full(20, 2.0))]
    )
    ones = rs.Problem(X, y, sample_weight=np.repeat([1.0, 2.0], [10, 20]))
    assert np.isclose(some.objective(x), ones.objective(x), rtol=1e-14)


def test_checkpoints_every_so_many_seconds(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    SOLVER.solve(federation(), callbacks=[rs.Checkpoint(path, seconds=3600.0)])
    assert rs.Result.load(path).epoch == 1  # the first, and none since
    with pytest.raises(rs.InputError, match="seconds"):
        rs.Checkpoint(path, seconds=0.0)
