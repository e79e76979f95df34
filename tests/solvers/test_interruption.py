"""Ctrl-C, time limits and SIGTERM are heard soon, whatever the method, the penalty and the dimension.

'Soon' is tested by counting, not by a clock: how much work a call of a kernel may do, and how often a run listens.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle import datafit, interruption, samples
from reshuffle.engines import Threads
from reshuffle.interruption import CALL, OutOfTime, listen, until
from reshuffle.solvers import slope_table
from reshuffle.solvers.exact import PHASES, Newton

STEP_BY_STEP = [Newton(at_once=False), *PHASES[1:]]
D = 300_000


@cache
def drawn(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = sp.random(n, d, density=20 / d, format="csr", random_state=rng)
    return X, np.sign(rng.standard_normal(n))


def wide(n: int = 40, d: int = D, **options: Any) -> rs.Problem:
    return rs.Problem(*drawn(n, d), **options)


@contextmanager
def calls_of(work: int, visits: int | None = None) -> Iterator[None]:
    """Calls of this size in the block, in all threads."""
    before = CALL.work, CALL.visits
    CALL.work, CALL.visits = work, visits
    try:
        yield
    finally:
        CALL.work, CALL.visits = before


class Halves:
    """Shrinks by half: a penalty that the kernels do not know."""

    def value(self, x: Any) -> float:
        return 0.0

    def prox(self, x: Any, step: float) -> Any:
        return 0.5 * x


METHODS = {
    "prox each step": (rs.ProxRR(prox="step", epochs=2, step=1e-3), rs.penalties.L1(1e-6)),
    "groups, each step": (rs.ProxSGD(epochs=2, step=1e-3), rs.penalties.GroupLasso(1e-6, np.arange(D) // 10)),
    "a prox in Python": (rs.ProxRR(prox="step", epochs=2, step=1e-3), Halves()),
    "exact, each step": (rs.ExactProxRR(epochs=2, steps_per_prox=1, finish=False), rs.penalties.L1(1e-6)),
    "exact, in Python": (rs.ExactProxRR(epochs=2, steps_per_prox=1, finish=False), Halves()),
    "one prox": (rs.ProxRR(epochs=2, step=1e-3), rs.penalties.L1(1e-9)),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_left_in_the_middle_of_an_epoch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is up at the fourth look: the result is that of the last whole epoch."""
    solver, penalty = METHODS[name]
    heard = 0

    def now() -> None:
        nonlocal heard
        heard += interruption._DEADLINE.get() < np.inf  # before the first epoch nothing is limited
        if heard == 4:
            raise OutOfTime

    for module in (samples, datafit, slope_table):
        monkeypatch.setattr(module, "listen", now)
    problem = wide(n=400 if name == "one prox" else 200, penalty=penalty)
    with calls_of(2000 if name == "one prox" else CALL.work):
        result = replace(solver, time_limit=1e6).solve(problem)
    assert heard == 4
    assert result.message == "time limit of 1e+06 s reached"
    assert result.epoch == 0
    assert not result.x.any()


@pytest.mark.parametrize(("n", "limit"), [(60, 1), (60, 37), (2500, 15_000), (60, 1 << 24)])
def test_where_calls_end_changes_no_bit(n: int, limit: int) -> None:
    """Shorter calls than the blocks in which losses are added up change the last bits alone."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 12)) * (rng.random((n, 12)) < 0.4)
    X[7] = rng.standard_normal(12)
    y = np.sign(rng.standard_normal(n))

    def runs() -> list[Any]:
        found = []
        for rows in (X, sp.csr_matrix(X)):
            for options in ({"ridge": 0.1}, {"penalty": rs.penalties.ElasticNet(1e-3, 1e-2)}):
                problem = rs.Problem(rows, y, fit_intercept=True, **options)
                solvers: list[Any] = [
                    rs.ProxRR(epochs=3, step=0.05),
                    rs.ProxRR(epochs=3, step=0.05, prox="step", batch_size=7),
                    rs.ProxSGD(epochs=3, step=0.05, importance=True),
                    rs.ExactProxRR(epochs=3, finish=False, tol=0.0, importance=True),
                    rs.ExactProxRR(epochs=3, finish=False, tol=0.0, steps_per_prox=7),
                    rs.ExactProxRR(epochs=6, tol=1e-9, phases=STEP_BY_STEP),
                ]
                found += [solver.solve(problem).x for solver in solvers]
        return found

    whole_calls = runs()
    with calls_of(limit, visits=8):  # few visits: the lengths of rows are looked at
        cut_calls = runs()
    for found, expected in zip(cut_calls, whole_calls, strict=True):
        if limit < samples.SUMMED:
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        else:
            np.testing.assert_array_equal(found, expected)


def test_calls_do_bounded_work_and_miss_no_visit() -> None:
    rng = np.random.default_rng(0)
    lengths = np.r_[np.ones(5000, dtype=int), 20_000, np.ones(3000, dtype=int), 50_000]
    indices = np.concatenate([np.sort(rng.choice(60_000, k, replace=False)) for k in lengths])
    X = sp.csr_matrix(
        (np.ones(indices.size), indices, np.r_[0, np.cumsum(lengths)]), shape=(lengths.size, 60_000)
    )
    fit = rs.Problem(X, np.sign(rng.standard_normal(lengths.size))).datafit
    visits = rng.integers(0, lengths.size, 20_000).astype(np.uint32)
    visits[::50] = lengths.size - 1  # the longest row, four hundred times
    for batch, besides in ((1, 0.0), (32, 0.0), (1, 3e5), (7, 1e9)):
        ends = list(fit.calls(visits.size, lambda: visits, besides, batch))
        assert [e[0] for e in ends[1:]] == [e[1] for e in ends[:-1]]
        assert (ends[0][0], ends[-1][1]) == (0, visits.size)
        for start, stop in ends:
            work = lengths[visits[start:stop]].sum() + (stop - start) * besides
            assert start % batch == 0
            assert work <= CALL.work or stop - start <= batch
    assert list(fit.calls(0, lambda: visits, 0.0)) == [(0, 0)]


def test_whole_passes_do_bounded_work_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that a call reads, of every function of the core that passes over all rows: counted, not timed."""
    from reshuffle.core import native

    limit, rng, read = 5000, np.random.default_rng(0), []
    X = rng.standard_normal((3000, 12)) * (rng.random((3000, 12)) < 0.5)
    X[7:9] = 1.0
    y = np.sign(X[:, 0] + rng.standard_normal(3000))
    before = np.arange(3001) * 12  # values before each row, as the layout has them

    def counted(function: Any) -> Any:
        def call(core: Any, other: Any, begin: int, end: int, *more: Any) -> Any:
            if core.features:  # without features no value of a row is read
                read.append(int(before[end] - before[begin]))
            return function(core, other, begin, end, *more)

        return call

    for name in ("value", "tabulate", "margins", "combine", "bent_product"):
        monkeypatch.setattr(native, name, counted(getattr(native, name)))
    rows: Any
    for rows in (X, sp.csr_matrix(X)):
        before = before if rows is X else rows.indptr.astype(np.int64)
        problem = rs.Problem(rows, y, penalty=rs.penalties.L1(1e-3), fit_intercept=True)
        read.clear()
        with calls_of(limit):
            for solver in (rs.ExactProxRR(epochs=20, phases=STEP_BY_STEP), rs.FISTA(epochs=3)):
                solver.solve(problem)
        fit = problem.datafit
        assert len(read) > 100
        assert max(read) <= limit
        assert [s.begin for s in fit.stretches[1:]] == [s.end for s in fit.stretches[:-1]]
        assert (fit.stretches[0].begin, fit.stretches[-1].end) == (0, 3000)


def test_cuts_of_long_and_of_endless_passes() -> None:
    parts = interruption.cuts(10**9, lambda i: 100 * i, 1024)
    assert all((p.stop - p.start) * 100 <= CALL.work for p in parts)
    assert all((p.stop - p.start) % 1024 == 0 for p in parts[:-1])
    assert (parts[0].start, parts[-1].stop) == (0, 10**9)
    rows = interruption.cuts(3, lambda i: 10**12 * i, 1024)  # each is more than a call should do
    assert [(p.start, p.stop) for p in rows] == [(0, 1), (1, 2), (2, 3)]
    assert interruption.cuts(5, lambda i: i) == [slice(0, 5)]
    assert interruption.cuts(0, lambda i: i) == []


def test_many_clients_are_trained_in_calls_of_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    clients = rs.federated.split(rs.Problem(X, np.sign(X[:, 0])), clients=20, seed=0)
    solver = rs.FedRR(rounds=3, step=0.01, engine=Threads(1))
    plain, heard = solver.solve(clients).digest, []
    monkeypatch.setattr(datafit, "listen", lambda: heard.append(1))
    with calls_of(100):
        assert solver.solve(clients).digest == plain
    assert len(heard) >= 30


def test_a_time_limit_holds_inside_one_long_epoch() -> None:
    """n = 20,000 visits with a prox of d = 3e5 each would take half a minute."""
    problem = wide(n=20_000, penalty=rs.penalties.L1(1e-6))
    result = rs.ProxRR(prox="step", step=1e-3, epochs=1, time_limit=0.2).solve(problem)
    assert result.message.startswith("time limit of 0.2 s reached")
    assert result.epoch == 0


def test_deadlines_are_of_one_thread_and_end_with_their_block() -> None:
    with pytest.raises(OutOfTime), until(time.perf_counter() - 1.0):
        listen()
    listen()


def test_an_interrupted_check_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a certificate is computed: the row of the trace has none, not that of the epoch before."""
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((30, 4)), np.sign(rng.standard_normal(30)))
    from reshuffle.solvers.method import Method

    plain, calls = Method.certify, 0

    def certify(self: Method, state: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return plain(self, state)

    monkeypatch.setattr(Method, "certify", certify)
    result = rs.ProxRR(epochs=50, tol=1e-12).solve(problem)
    assert result.message.startswith("interrupted after 3 epochs")
    assert result.interrupted
    assert np.isnan(
        result.trace.last()[next(k for k in result.trace if "mapping" in k or k == "gap")]
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_and_what_there_is_is_saved(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{1 if k % 2 else -1} 1:{rng.random():.3f} 2:{rng.random():.3f}" for k in range(200)]
    (tmp_path / "data").write_text("\n".join(lines) + "\n")
    command = [
        sys.executable, "-c",
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from reshuffle.cli import main; main()",
        "federate", str(tmp_path / "data"), "--method", "fedrr", "--rounds", "100000000",
        "--out", str(tmp_path / "out"), "--no-progress", "--clients", "2",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        checkpoint = tmp_path / "out" / "checkpoint.npz"
        while not checkpoint.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        said, wrong = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "interrupted after" in said, wrong
    assert "Traceback" not in wrong
    assert process.returncode == 128 + number
    assert rs.Result.load(tmp_path / "out" / "result.npz").interrupted
    assert sorted(os.listdir(tmp_path / "out")) == [
        "checkpoint.npz", "federation.png", "model.npz", "report.html", "result.npz", "trace.csv",
    ]  # fmt: skip
