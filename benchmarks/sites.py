"""Memory of a federation's driver: the server's with state at the clients, and beside data that stays at home."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.report import Finding
from reshuffle.engines import Failure, Reply, Task, checksum

CLIENTS, FEATURES = 1_000, 100_000
FEW = 1_000  # features, to know what does not depend on them
BAR = 12.0  # vectors
SETS_BAR = 24.0  # sets of h_m, with state on the server


def sites(quick: bool) -> Iterator[Finding]:
    """The driver's memory: vectors of length d on the server, and megabytes beside data that stays at home."""
    for acceleration in (0, 5, 10):
        count = 100 if quick else CLIENTS
        large, small = (_peak(acceleration, count, d) for d in (FEATURES, FEW))
        found = (large - small) / (8.0 * (FEATURES - FEW))
        what = f"state at {count:,} clients, d = {FEATURES:,}, acceleration={acceleration}"
        detail = f"{small / 1e6:.1f} MB with d = {FEW:,}, {large / 1e6:.1f} with this"
        yield Finding(what, found, "vectors", "at most", BAR, detail)
    yield _sets()
    if importlib.util.find_spec("ray") is not None:
        size = 0.2 if quick else 2.0
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.sites", folder, str(size)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        report = json.loads(done.stdout.splitlines()[-1])
        detail = f"{report['before']:.0f} MB before the run; digest {report['digest'][:12]}"
        yield Finding(
            f"driver on Ray beside {size:g} GB", report["peak"], "MB", "at most", 300.0, detail
        )


def _sets() -> Finding:
    """Sets of M·d numbers on a server that has the state: what grows with M and d alone is left out."""
    M, d = 200, 10_000
    wide, narrow = (
        _peak(10, M, features, "server") - _peak(10, M // 2, features, "server")
        for features in (d, d // 10)
    )
    found = round((wide - narrow) / (8.0 * (M - M // 2) * (d - d // 10)), 1)
    what = f"state on the server, {M} clients, d = {d:,}, acceleration=10"
    return Finding(what, found, "sets of h_m", "at most", SETS_BAR, "")


# --- the server, with clients that answer at random -------------------------------------------------


class Answers:
    """An engine whose clients send noise that falls, one after the other: all memory is the driver's."""

    def __init__(self, features: int) -> None:
        self.sizes: dict[int, int] = {}
        self.noise = np.random.default_rng(0).standard_normal(features)

    def open(self, sizes: Sequence[int], make_host: Any) -> Answers:
        self.sizes = dict(enumerate(sizes))
        return self

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        return list(self.stream(task, timeout))

    def stream(self, task: Task, timeout: float | None) -> Iterator[Reply | Failure]:
        if "key" not in task.more:  # models
            for c in task.clients:
                model = task.x + 0.9**task.round * self.noise
                yield Reply(task.run, task.round, c, task.digest, model, checksum(model, {}), {})
            return
        rng = np.random.default_rng(task.round)
        kept = int(task.more["stop"]) - int(task.more["start"]) if task.round else 0
        square = 0.81**task.round * float(self.noise @ self.noise)
        for c in task.clients:
            r = self.noise.copy()
            r *= 0.9**task.round
            more = {
                "square": square,
                "slopes": rng.standard_normal(kept),
                "changes": np.eye(kept)[-1] if kept else np.empty(0),
            }
            reply = Reply(task.run, task.round, c, task.digest, r, checksum(r, more), more)
            del r
            yield reply
            del reply

    def close(self) -> None:
        return


def _peak(acceleration: int, clients: int, features: int, where: Any = "clients") -> float:
    """Bytes at the peak of 15 rounds."""
    columns = [0, min(1, features - 1)]
    empty = sp.csr_matrix(([1.0, 1.0], ([0, 1], columns)), shape=(2, features))
    one = rs.Problem(empty, np.array([1.0, -1.0]), penalty=rs.penalties.L2(0.1))
    federation = rs.federated.Federation([one] * clients)
    solver = rs.ExactFedRR(
        rounds=15, step=0.1, local_passes=1, acceleration=acceleration, state=where,
        engine=Answers(features), eval_every=None,
    )  # fmt: skip
    rounds = solver.bind(federation)
    tracemalloc.start()
    state = rounds.start(np.zeros(federation.shape))
    for number in range(15):
        state = rounds.advance(state, number, 0.1).state
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


# --- the driver beside data at home, in a process of its own ----------------------------------------


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def _at_home(folder: Path, gigabytes: float) -> dict[str, Any]:
    """A run on Ray over folders of arrays that no process but their host opens."""
    features, count = 100, 8
    rows = int(gigabytes * 1e9 / 8 / features / count)
    for c in range(count):  # written by another process: this one never holds any of it
        code = (
            "import sys, numpy as np; from pathlib import Path; p = Path(sys.argv[1]); p.mkdir();"
            f"rng = np.random.default_rng({c}); X = rng.standard_normal(({rows}, {features}));"
            "np.save(p / 'X.npy', X); np.save(p / 'y.npy', np.where(X.sum(axis=1) > 0, 1.0, -1.0))"
        )
        subprocess.run([sys.executable, "-c", code, str(folder / str(c))], check=True)
    before = _status("VmHWM")
    homes: list[Any] = [folder / str(c) for c in range(count)]
    clients = rs.federated.Sites(homes, penalty=rs.penalties.L2(1e-4))
    found = rs.FedRR(rounds=2, step=0.01, engine=rs.engines.Ray(hosts=2)).solve(clients)
    return {"before": before, "peak": _status("VmHWM"), "digest": found.digest}


if __name__ == "__main__":
    print(json.dumps(_at_home(Path(sys.argv[1]), float(sys.argv[2]))))
