"""How runs stop, what they leave behind, and how they go on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles import random_data, sparse

import reshuffle as rs
from reshuffle.callbacks import ProgressBar
from reshuffle.digests import digest

COLUMNS = ["epoch", "objective", "gradients", "prox_evals", "seconds", "step", "gap"]


def problem(**kwargs: Any) -> rs.Problem:
    X, y = random_data(rs.losses.Logistic(), n=40)
    kwargs = {"penalty": rs.penalties.ElasticNet(0.01, 0.1)} | kwargs
    return rs.Problem(sparse(X), y, **kwargs)


SOLVERS = {
    "ProxRR": rs.ProxRR(epochs=12, seed=5, step=rs.steps.InverseTime()),
    "ProxSO": rs.ProxRR(
        epochs=12, seed=5, order=rs.orders.ShuffleOnce(), importance=True, step=0.05
    ),
    "decreasing": rs.ProxRR(epochs=12, seed=5, step=rs.steps.Decreasing(), batch_size=3),
    "ProxSGD": rs.ProxSGD(epochs=12, seed=5, importance=True),
    "FISTA": rs.FISTA(epochs=12, eval_every=1, tol=0.0),
}


# --- traces ----------------------------------------------------------------------------------


def test_trace_has_equal_columns_that_count_the_work() -> None:
    task = problem()
    result = rs.ProxRR(epochs=6, eval_every=2, tol=1e-9, check_every=3).solve(task)
    trace = result.trace
    assert list(trace) == COLUMNS
    assert trace["epoch"].tolist() == [0, 2, 4, 6]
    # 40 gradients per epoch, and 40 + one prox for each check: at the start, after 3 and after 6
    assert trace["gradients"].tolist() == [40, 120, 240, 360]
    assert trace["prox_evals"].tolist() == [1, 3, 6, 9]
    assert np.all(np.diff(trace["seconds"]) > 0)
    assert np.isnan(trace["gap"]).tolist() == [False, True, True, False]
    assert trace["objective"][-1] == task.objective(result.x)
    assert not result.converged
    assert result.message == "all 6 epochs done"
    with pytest.raises(KeyError, match="this trace has epoch, objective"):
        trace["loss"]


class Clock:
    """``time.perf_counter``, by hand: a millisecond at each look, and as much as a test adds."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1e-3
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "perf_counter", made)
    return made


def test_seconds_leave_out_evaluation(clock: Clock) -> None:
    """An objective that takes 20 s does not show in 5 epochs that take milliseconds."""
    evaluations = 0

    class Slow(rs.penalties.Zero):
        def value(self, x: Any) -> float:
            nonlocal evaluations
            evaluations += 1
            clock.now += 20.0
            return 0.0

    result = rs.ProxRR(epochs=5).solve(problem(penalty=Slow()))
    assert evaluations >= 5
    assert 0.0 < result.trace["seconds"][-1] < 1.0


@pytest.mark.parametrize("kind", [partial(rs.ExactProxRR, finish=False), rs.ExactProxRR, rs.ProxRR])
def test_a_loss_of_ones_own_is_compiled_before_the_clock_runs(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled, is compiled by ``prepare``: once for a class, and not again by another run."""
    from reshuffle.losses import native as native_losses

    made: list[str] = []
    plain = native_losses._compiled

    def counted(function: Any, *more: Any) -> Any:
        made.append(function.__name__)
        return plain(function, *more)

    monkeypatch.setattr(native_losses, "_compiled", counted)

    class Own(rs.losses.Squared):
        @staticmethod
        def value(z: float, y: float) -> float:
            return 0.5 * (z - y) ** 2

    X, y = random_data(rs.losses.Squared(), n=40)
    task = rs.Problem(X, y, Own(), rs.penalties.ElasticNet(0.01, 0.1))
    task.prepare()
    assert made == ["value", "derivative", "second", "conjugate"]
    assert kind(epochs=3).solve(task).trace["objective"][-1] < task.objective(np.zeros(task.shape))
    kind(epochs=3).solve(rs.Problem(X, y, Own(), rs.penalties.ElasticNet(0.01, 0.1)))
    assert len(made) == 4


def test_csv(tmp_path: Path) -> None:
    result = rs.ProxRR(epochs=3).solve(problem())
    result.trace.to_csv(tmp_path / "trace.csv")
    table = np.genfromtxt(tmp_path / "trace.csv", delimiter=",", names=True)
    assert list(table.dtype.names or ()) == COLUMNS
    np.testing.assert_array_equal(table["objective"], result.trace["objective"])


# --- stopping --------------------------------------------------------------------------------


def test_tolerance_stops_the_run_and_is_true() -> None:
    task = problem()
    minimum = task.objective(rs.theory.solve(task))
    for solver in (
        rs.FISTA(tol=1e-6),
        rs.ExactProxRR(tol=1e-6),
        rs.ProxRR(tol=1e-2, epochs=10_000),
    ):
        result = solver.solve(task)
        assert result.converged, result.message
        assert result.trace.last()["gap"] <= solver.tol
        assert task.objective(result.x) - minimum <= solver.tol * np.log(2)  # f(0)
        again = solver.solve(task, x0=result.x)
        assert again.converged
        assert again.epoch == 0


def test_check_every_is_kept_by_every_solver() -> None:
    exact = rs.ExactProxRR(finish=False)
    for solver in (rs.ProxRR(step=0.01), rs.ProxSGD(step=0.01), exact, rs.FISTA()):
        watched = replace(solver, epochs=9, tol=1e-300, check_every=4, eval_every=1)
        checked = ~np.isnan(watched.solve(problem()).trace["gap"])
        assert np.flatnonzero(checked).tolist() == [0, 4, 8, 9], solver


def test_time_limit(clock: Clock) -> None:
    """Evaluation and callbacks are included."""
    result = rs.ProxRR(epochs=10**9, time_limit=0.05, eval_every=1000).solve(problem())
    assert 0.05 <= clock.now < 0.1
    # How many epochs fit is the machine's affair, and with few P(x) may be above its start.
    assert result.message.startswith("time limit of 0.05 s reached")
    assert result.trace["epoch"][-1] == result.epoch

    def slow(result: rs.Result) -> None:
        clock.now += 0.03

    started = clock.now
    result = rs.ProxRR(epochs=10**9, time_limit=0.1).solve(problem(), callbacks=[slow])
    took = clock.now - started
    assert 1 <= result.epoch <= 4
    assert result.trace["seconds"][-1] <= took - 0.03 * result.epoch  # without the callbacks


def test_callback_stops_the_run_and_sees_it() -> None:
    seen: list[rs.Result] = []

    def stop(result: rs.Result) -> bool:
        seen.append(result.snapshot())
        return result.epoch == 4

    result = rs.ProxRR(epochs=100).solve(problem(), callbacks=[stop])
    assert result.epoch == 4
    assert result.message == "stopped by a callback"
    assert [r.epoch for r in seen] == [1, 2, 3, 4]
    assert not np.array_equal(seen[0].x, seen[1].x)


def test_interruption_returns_a_whole_state() -> None:
    """Ctrl-C in the middle of an epoch: the result is the end of the epoch before."""

    class Interrupted(rs.penalties.L1):
        calls = 0

        def prox(self, x: Any, step: float) -> Any:
            type(self).calls += 1
            if self.calls == 4:
                raise KeyboardInterrupt
            return super().prox(x, step)

    stopped = rs.ProxRR(epochs=100).solve(problem(penalty=Interrupted(0.01)))
    assert stopped.message == "interrupted after 3 epochs"
    assert stopped.trace["epoch"].tolist() == [0, 1, 2, 3]
    whole = rs.ProxRR(epochs=3).solve(problem(penalty=rs.penalties.L1(0.01)))
    assert np.array_equal(stopped.x, whole.x)


def test_a_real_interrupt_signal(tmp_path: Path) -> None:
    code = (
        "import reshuffle as rs, signal\n"
        # A process started in the background of a script ignores the signal, as do its children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "X, y = rs.datasets.breast_cancer()\n"
        "first = lambda r: print('running', flush=True) if r.epoch == 50 else None\n"
        "r = rs.ProxRR(epochs=10**8, eval_every=50).solve(rs.Problem(X, y), callbacks=[first])\n"
        "print(r.message, r.epoch == r.trace['epoch'][-1])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(2)
        said = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert "interrupted after" in said
    assert said.endswith("True\n")
    assert process.returncode == 0


@pytest.mark.parametrize("step", [40.0, 1e200])
def test_divergence_names_the_step_and_suggests_one(step: float) -> None:
    X, y = random_data(rs.losses.Squared(), n=40)
    task = rs.Problem(X, y, rs.losses.Squared())
    with pytest.raises(rs.DivergenceError, match="diverged in epoch") as caught:
        rs.ProxRR(step=step, epochs=200).solve(task)
    message = str(caught.value)
    assert f"step {step:.3g}" in message
    suggested = float(message.split("step=")[1].split()[0])
    assert suggested <= 1.01 / task.smoothness.L_max
    rs.ProxRR(step=suggested, epochs=50).solve(task)  # and it works
    assert np.isfinite(caught.value.result.x).all()


def test_warning_when_the_prox_wipes_out_the_iterate() -> None:
    strong = problem(penalty=rs.penalties.L1(0.05))
    with pytest.warns(rs.StepWarning, match=r"removed 100% of the iterate.*ExactProxRR") as caught:
        rs.ProxRR(step=1.0, epochs=2).solve(strong)
    assert caught[0].filename == __file__  # it points at the line above
    found = re.search(r"try step=(\S+) or smaller", str(caught[0].message))
    assert found is not None
    rs.ProxRR(step=float(found[1]) / 4, epochs=2).solve(strong)  # no warning: they are errors here


# --- the same bits ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_same_seed_same_bits_other_seed_other_bits(name: str) -> None:
    from dataclasses import replace

    solver = SOLVERS[name]
    first, second = solver.solve(problem()), solver.solve(problem())
    assert first.x.tobytes() == second.x.tobytes()
    if name != "FISTA":
        assert first.x.tobytes() != replace(solver, seed=6).solve(problem()).x.tobytes()


def test_global_random_state_is_neither_read_nor_written() -> None:
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    first = SOLVERS["ProxSGD"].solve(problem())
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert first.x.tobytes() == SOLVERS["ProxSGD"].solve(problem()).x.tobytes()


def test_same_bits_on_any_number_of_threads() -> None:
    code = (
        "import hashlib, numpy as np, reshuffle as rs\n"
        "X, y = rs.datasets.synthetic(3000, 200, seed=1)\n"
        "p = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(1e-3, 1e-3), ridge=1e-3)\n"
        "d = hashlib.sha256()\n"
        "for s in (rs.ProxRR(epochs=3, step=.1), rs.ProxSGD(epochs=3), rs.FISTA(epochs=30)):\n"
        "    r = s.solve(p); d.update(r.x.tobytes()); d.update(r.trace['objective'].tobytes())\n"
        "print(d.hexdigest())\n"
    )
    digests = set()
    for threads in ("1", "2", "4"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1


# --- saving and resuming ---------------------------------------------------------------------


def same(a: rs.Result, b: rs.Result) -> bool:
    columns = [name for name in a.trace if name != "seconds"]
    return a.x.tobytes() == b.x.tobytes() and all(
        np.array_equal(a.trace[name], b.trace[name], equal_nan=True) for name in columns
    )


@pytest.mark.parametrize("name", SOLVERS)
def test_resume_continues_to_the_same_bits(name: str, tmp_path: Path) -> None:
    solver, task = SOLVERS[name], problem()
    whole = solver.solve(task)

    def interrupt(result: rs.Result) -> bool:
        return result.epoch == 5

    part = solver.solve(task, callbacks=[interrupt])
    assert part.epoch == 5
    part.save(tmp_path / "part.npz")
    assert same(solver.solve(task, resume=part), whole)
    assert same(solver.solve(task, resume=tmp_path / "part.npz"), whole)
    assert part.epoch == 5  # resuming leaves the saved result as it was
    assert same(solver.solve(task, resume=whole), whole)


def test_save_and_load_keep_everything(tmp_path: Path) -> None:
    result = SOLVERS["FISTA"].solve(problem())
    result.save(tmp_path / "run")
    loaded = rs.Result.load(tmp_path / "run")
    assert same(loaded, result)
    assert loaded.message == result.message
    assert loaded.config == result.config
    assert loaded.trace["seconds"].tolist() == result.trace["seconds"].tolist()
    assert os.listdir(tmp_path) == ["run"]  # no temporary file is left


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_damaged_file_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    SOLVERS["ProxRR"].solve(problem()).save(path)
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-100], "text": b"x" * 100, "empty": b""}[damage])
    with pytest.raises(rs.InputError, match="not a saved result, or is damaged"):
        rs.Result.load(path)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", about=np.array([{"a": 1}], dtype=object))
    with pytest.raises(rs.InputError, match="not a saved result"):
        rs.Result.load(tmp_path / "evil.npz")


@pytest.mark.parametrize(
    ("solver", "task", "reason"),
    [
        (rs.ProxRR(epochs=12, seed=6), problem(), "seed = 5, this one 6"),
        (rs.ProxSGD(epochs=12, seed=5), problem(), "solver = ProxRR, this one ProxSGD"),
        (rs.ProxRR(epochs=12, seed=5, step=0.1), problem(), "step = "),
        (rs.ProxRR(epochs=12, seed=5), problem(ridge=1.0), "different: ridge"),
    ],
)
def test_resume_refuses_another_run(solver: Any, task: rs.Problem, reason: str) -> None:
    saved = rs.ProxRR(epochs=2, seed=5).solve(problem())
    with pytest.raises(rs.InputError, match=reason):
        solver.solve(task, resume=saved)


def test_arrays_of_other_shapes_and_types_are_other_contents() -> None:
    flat = np.arange(6.0)
    arrays = [flat, flat.reshape(2, 3), flat.reshape(3, 2), flat.view(np.int64), flat[:5]]
    assert len({digest(array) for array in arrays}) == len(arrays)
    assert digest(flat.reshape(2, 3)) == digest(np.asfortranarray(flat.reshape(2, 3)))


def test_a_snapshot_stays_as_it_is() -> None:
    seen: list[rs.Result] = []
    rs.ProxRR(epochs=3).solve(problem(), callbacks=[lambda r: seen.append(r.snapshot())])
    assert [r.trace.rows() for r in seen] == [2, 3, 4]
    assert [r.trace["epoch"][-1] for r in seen] == [1, 2, 3]
    assert len({r.x.tobytes() for r in seen}) == 3


def test_resume_refuses_other_data_of_the_same_shape() -> None:
    X, y = random_data(rs.losses.Logistic(), n=40)
    saved = rs.ProxRR(epochs=2).solve(rs.Problem(X, y))
    with pytest.raises(rs.InputError, match="different: data"):
        rs.ProxRR(epochs=4).solve(rs.Problem(1.01 * X, y), resume=saved)


def test_more_epochs_may_be_added_unless_the_schedule_depends_on_them() -> None:
    short, long = rs.ProxRR(epochs=3), rs.ProxRR(epochs=6)
    assert same(long.solve(problem(), resume=short.solve(problem())), long.solve(problem()))
    step = rs.steps.Decreasing()
    saved = rs.ProxRR(epochs=3, step=step).solve(problem())
    with pytest.raises(rs.InputError, match="epochs = 3, this one 6"):
        rs.ProxRR(epochs=6, step=step).solve(problem(), resume=saved)


def test_checkpoint_survives_a_killed_process(tmp_path: Path) -> None:
    """kill -9 at some moment; what is on disk resumes to the same bits."""
    path = tmp_path / "run.npz"
    code = (
        "import sys, reshuffle as rs\n"
        "X, y = rs.datasets.breast_cancer()\n"
        "rs.ProxRR(epochs=10**6, seed=2, step=1e-3, eval_every=5).solve(\n"
        "    rs.Problem(X, y), callbacks=[rs.Checkpoint(sys.argv[1])])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.05)
    process.kill()
    process.wait()
    saved = rs.Result.load(path)
    epochs = saved.epoch + 10
    task = rs.Problem(*rs.datasets.breast_cancer())
    solver = rs.ProxRR(epochs=epochs, seed=2, step=1e-3, eval_every=5)
    assert solver.solve(task, resume=path).x.tobytes() == solver.solve(task).x.tobytes()


def test_progress_bar_shows_epochs_and_objective(capsys: pytest.CaptureFixture[str]) -> None:
    result = rs.ProxRR(epochs=3).solve(problem(), progress=True)
    with ProgressBar(3, "ProxRR") as bar:
        bar(result)
        text = bar.line()
    assert "ProxRR" in text
    assert "3/3" in text
    assert f"P = {result.trace['objective'][-1]:.6g}" in text


@pytest.mark.parametrize(
    ("solver", "end"),
    [
        (rs.ExactProxRR(epochs=1000), ", converged"),
        (rs.ProxRR(epochs=3), ""),
        (rs.ProxRR(epochs=10**6, time_limit=0.01), ", stopped"),
    ],
)
def test_progress_bar_says_how_the_run_ended(
    solver: Any, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = solver.solve(problem(), progress=True)
    last = capsys.readouterr().err.strip().splitlines()[-1]
    total = solver.epochs if end == ", stopped" else result.epoch
    assert f"{result.epoch}/{total}" in last
    assert f"P = {result.trace['objective'][-1]:.6g}{end}" in last


def test_a_run_that_ends_above_its_start_says_so() -> None:
    """Two samples that pull apart, from the minimiser of their sum: every order ends away from it."""
    problem = rs.Problem(np.array([[1.0], [1.0]]), np.array([1.0, -1.0]), rs.losses.Squared())
    result = rs.ProxRR(step=0.9, epochs=3).solve(problem)
    assert result.trace["objective"][-1] > result.trace["objective"][0]
    assert result.message == (
        "all 3 epochs done; P(x) is larger than at the start: try a smaller step"
    )
