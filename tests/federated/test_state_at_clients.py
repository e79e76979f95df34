"""ExactFedRR with its state at the clients: the same iterates, sums only, and no state lost unnoticed."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from long_steps import LongSteps
from test_engines import Recording
from test_sites import PARTS, PENALTY, both, pooled

import reshuffle as rs
from benchmarks.sites import _peak
from reshuffle.engines import Failure, Task, Threads
from reshuffle.federated import client_state_server
from reshuffle.federated.client_state import KEPT, state_file
from reshuffle.federated.client_state_server import Total

Site, Sites = rs.federated.Site, rs.federated.Sites
SOLVER = rs.ExactFedRR(rounds=12, seed=1, step=0.1, local_passes=2, state="clients")


@pytest.mark.parametrize("acceleration", [0, 1, 3, 10])
@pytest.mark.parametrize("order", [rs.orders.ShuffleOnce(), rs.orders.Reshuffle()])
def test_the_iterates_are_those_of_state_on_the_server(acceleration: int, order: Any) -> None:
    federation, sites = both(ridge=0.05, fit_intercept=True)
    at_home = replace(SOLVER, acceleration=acceleration, order=order)
    on_server = replace(at_home, state="server")
    for rounds in (1, 2, 7, 30):
        x = replace(on_server, rounds=rounds).solve(federation).x
        y = replace(at_home, rounds=rounds).solve(federation)
        np.testing.assert_allclose(y.x, x, rtol=0, atol=1e-12)
        assert replace(at_home, rounds=rounds).solve(sites).digest == y.digest


@pytest.mark.parametrize("grows", [True, False])
def test_a_default_step_is_halved_as_with_state_on_the_server(grows: bool, tmp_path: Path) -> None:
    """Where the residual grows (from a step far too long), and where it hardly falls for 50 rounds."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 20))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X *= 1.0 if grows else np.logspace(0, -3, 20)
    y = X @ rng.standard_normal(20) + 0.1 * rng.standard_normal(400)
    common: Any = {
        "loss": rs.losses.Squared(),
        "penalty": rs.penalties.ElasticNet(1e-3 if grows else 1e-6, 1e-9),
    }
    rows = np.array_split(np.arange(400), 4)
    homes = [Site((X[r], y[r]), state=tmp_path / str(k)) for k, r in enumerate(rows)]
    for k in range(4):
        (tmp_path / str(k)).mkdir()
    sites = Sites(homes, **common)
    at_home = LongSteps(rounds=25, state="clients")
    if not grows:
        at_home = replace(at_home, rounds=140, share=0.05, acceleration=2, scales=None)
    expected = replace(at_home, state="server").solve(sites)
    steps = expected.trace["step"]
    assert steps[-1] < steps[1]
    found = at_home.solve(sites)
    np.testing.assert_array_equal(found.trace["step"], steps)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-9)
    when = int(np.flatnonzero(np.diff(steps[1:]))[0]) + 1  # the last round before a shorter step
    path = tmp_path / "run.npz"
    at_home.solve(sites, callbacks=[rs.Checkpoint(path), lambda r: r.epoch == when])
    assert at_home.solve(Sites(homes, **common), resume=path).digest == found.digest


@pytest.mark.parametrize("engine", [Threads(1), Threads(2), Threads(5)])
def test_the_bits_do_not_depend_on_who_answers_first(engine: Any) -> None:
    X, y = pooled(400)
    federation = rs.federated.split(rs.Problem(X, y, penalty=PENALTY), clients=23, by="quantity")
    expected = SOLVER.solve(federation).digest
    assert replace(SOLVER, engine=engine).solve(federation).digest == expected


def test_a_sum_does_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((500, 64)) * 10.0 ** rng.integers(-12, 12, (500, 1))
    sums = []
    for seed in range(8):
        total = Total((64,))
        for k in np.random.default_rng(seed).permutation(500):
            total.add(parts[k])
        sums.append(total.value().tobytes())
    assert len(set(sums)) == 1


def test_the_server_holds_nothing_of_a_single_client() -> None:
    X, y = pooled(400)
    federation = rs.federated.split(rs.Problem(X, y, penalty=PENALTY), clients=40)
    state = SOLVER.solve(federation).state
    numbers = sum(array.size for array in state.values())
    assert numbers <= 5 * (SOLVER.acceleration + 3) + 40 + SOLVER.acceleration**2 + 100
    engine = Recording()
    replace(SOLVER, engine=engine).solve(federation)
    assert {name for a in engine.answers for name in a.more} == {"square", "slopes", "changes"}
    assert all(not task.controls for task in engine.tasks)


def test_the_server_needs_few_vectors() -> None:
    """Less than twelve of length d with state at the clients; 24 sets of all h_m, and a few vectors, without."""
    d = 100_000
    assert (_peak(10, 20, d) - _peak(10, 20, 1_000)) / (8.0 * (d - 1_000)) < 12.0
    per_client = (_peak(10, 40, 4_000, "server") - _peak(10, 20, 4_000, "server")) / 20
    assert per_client < 24.2 * 8.0 * 4_000


def test_what_is_remembered_may_lie_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits, and a full disk costs memory only."""
    federation, expected = both()[0], SOLVER.solve(both()[0])
    monkeypatch.setattr(client_state_server, "SMALL", 0)
    files = SOLVER.solve(federation)
    assert files.digest == expected.digest
    view: Any = files.state["image0"].base
    assert isinstance(view.base, np.memmap)
    assert pickle.loads(pickle.dumps(files)).digest == expected.digest

    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert SOLVER.solve(federation).digest == expected.digest


@pytest.mark.parametrize("times", [1, 2])
def test_a_reply_that_was_lost_is_said_again(times: int) -> None:
    left: dict[Any, int] = {}

    def lose(task: Task, answer: Any) -> Any:
        key = (task.round, answer.client)
        left.setdefault(key, times)
        left[key] -= 1
        return Failure(answer.client, "lost") if answer.client == 1 and left[key] >= 0 else answer

    federation = both()[0]
    found = replace(SOLVER, engine=Recording(lose)).solve(federation)
    assert found.digest == SOLVER.solve(federation).digest


# --- the clients' own checkpoints ---------------------------------------------------------------


def saved(folder: Path) -> Any:
    X, y = pooled()
    homes = [
        Site((X[p], y[p]), name=f"site {k}", state=folder / str(k)) for k, p in enumerate(PARTS)
    ]
    return Sites(homes, penalty=PENALTY)


def interrupted(folder: Path, after: int = 5) -> Path:
    path = folder / "run.npz"
    for k in range(3):
        (folder / str(k)).mkdir(exist_ok=True)
    callbacks: Any = [rs.Checkpoint(path), lambda r: r.epoch == after]
    SOLVER.solve(saved(folder), callbacks=callbacks)
    return path


def state_of(folder: Path, client: int) -> Path:
    """The one file of a client's state in its folder."""
    (found,) = (folder / str(client)).glob(f"client-{client}-*.npz")
    return found


def test_driver_and_hosts_that_begin_anew_go_on_to_the_same_bits(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    expected = SOLVER.solve(both()[1])
    resumed = SOLVER.solve(saved(tmp_path), resume=path)
    assert resumed.digest == expected.digest
    np.testing.assert_array_equal(resumed.trace["objective"], expected.trace["objective"])


def test_clients_may_be_a_round_ahead_of_the_drivers_checkpoint(tmp_path: Path) -> None:
    """A driver that was killed between its question and its checkpoint asks the same once more."""
    path = interrupted(tmp_path)
    SOLVER.solve(saved(tmp_path), resume=path, callbacks=[lambda r: r.epoch == 6])
    assert SOLVER.solve(saved(tmp_path), resume=path).digest == SOLVER.solve(both()[1]).digest


def test_a_client_that_is_rounds_off_or_lost_its_state_is_named(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "1", before)
    SOLVER.solve(
        saved(tmp_path), resume=path, callbacks=[rs.Checkpoint(path), lambda r: r.epoch == 8]
    )
    mine = state_of(tmp_path, 1)
    shutil.copy(before / mine.name, mine)
    words = r"client 1 \(site 1\): its state is that after round 4, and round 8 goes on from that after round 7"
    with pytest.raises(rs.ClientError, match=words):
        SOLVER.solve(saved(tmp_path), resume=path)
    mine.write_bytes(b"half a file")
    with pytest.raises(rs.ClientError, match=r"site 1\): its state in .* is damaged"):
        SOLVER.solve(saved(tmp_path), resume=path)
    mine.unlink()
    with pytest.raises(
        rs.ClientError, match="it has lost its state: it was last in round 7"
    ) as caught:
        SOLVER.solve(saved(tmp_path), resume=path)
    assert caught.value.clients == [1]


def test_all_begin_anew_by_option(tmp_path: Path, caplog: Any) -> None:
    path = interrupted(tmp_path)
    state_of(tmp_path, 1).unlink()
    solver = replace(SOLVER, rounds=300, tol=1e-8, on_lost="restart")
    with caplog.at_level("WARNING", logger="reshuffle"):
        found = solver.solve(saved(tmp_path), resume=path)
    assert found.converged
    assert caplog.text.count("all clients begin anew") == 1


def test_another_run_does_not_go_on_from_an_old_state(tmp_path: Path) -> None:
    interrupted(tmp_path)
    assert SOLVER.solve(saved(tmp_path)).digest == SOLVER.solve(both()[1]).digest


def test_an_interrupted_run_goes_on_after_others_have_used_the_same_folders(tmp_path: Path) -> None:
    """One of them has another seed, and one is interrupted as well."""
    expected = SOLVER.solve(both()[1]).digest
    path = interrupted(tmp_path)
    replace(SOLVER, seed=5, rounds=3).solve(saved(tmp_path))
    first = path.rename(tmp_path / "first.npz")
    second = interrupted(tmp_path, after=3)
    assert SOLVER.solve(saved(tmp_path), resume=first).digest == expected
    assert SOLVER.solve(saved(tmp_path), resume=second).digest == expected


def test_a_folder_keeps_the_states_of_the_last_runs_only(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    (tmp_path / "1" / "client-1.npz").write_bytes(b"of a user")
    mine = state_of(tmp_path, 1)
    first_of_another = tmp_path / "1" / mine.name.replace("client-1-", "client-11-")
    shutil.copy(mine, first_of_another)
    os.utime(first_of_another, ns=(1, 1))
    for seed in range(KEPT - 1):
        replace(SOLVER, seed=seed, rounds=1).solve(saved(tmp_path))
    assert mine.exists()
    replace(SOLVER, seed=99, rounds=1).solve(saved(tmp_path))
    assert not mine.exists(), "the one that was written longest ago goes"
    assert len([*(tmp_path / "1").glob("client-1-*.npz")]) == KEPT
    assert (tmp_path / "1" / "client-1.npz").exists()
    assert first_of_another.exists(), "files of other clients are left alone"
    with pytest.raises(rs.ClientError, match="it has lost its state: it was last in round 4"):
        SOLVER.solve(saved(tmp_path), resume=path)


def test_the_state_of_the_current_run_stays_where_the_clock_was_set_back(tmp_path: Path) -> None:
    """Files of earlier runs lie in the future: the newest one is not taken for the oldest."""
    interrupted(tmp_path)
    late = 2**62
    for k in range(KEPT):
        other = state_file(tmp_path / "1", 1, f"run {k}")
        shutil.copy(next((tmp_path / "1").glob("client-1-*.npz")), other)
    for other in (tmp_path / "1").glob("*.npz"):
        os.utime(other, ns=(late, late))
    assert SOLVER.solve(saved(tmp_path)).digest == SOLVER.solve(both()[1]).digest
    assert len([*(tmp_path / "1").glob("client-1-*.npz")]) == KEPT


def test_the_key_of_a_run_names_no_other_folder(tmp_path: Path) -> None:
    """A driver could send any text as the key of its run."""
    path = state_file(tmp_path, 0, "../../elsewhere")
    assert path.parent == tmp_path
    assert ".." not in path.name


# --- participation ------------------------------------------------------------------------------


def test_clients_may_stay_away() -> None:
    """30% of 40 clients, by label, in each round: to the pooled solution."""
    X, y = pooled(400)
    whole = rs.Problem(X, y, penalty=PENALTY)
    clients = rs.federated.split(whole, clients=40, by="label")
    some = rs.ExactFedRR(
        rounds=500, acceleration=0, state="clients", participation=0.3, eval_every=500
    )
    best = rs.FISTA(tol=1e-13, epochs=20000).solve(whole).trace["objective"][-1]
    assert some.solve(clients).trace["objective"][-1] - best < 1e-10


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"state": "nowhere"}, "state must be"),
        ({"state": "clients", "step": lambda t: 0.1}, "needs a constant step"),
        ({"state": "clients", "participation": 0.5}, "participation must be 1, or"),
        ({"on_lost": "cry"}, "on_lost must be"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        rs.ExactFedRR(**settings)
