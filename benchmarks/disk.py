"""Rows larger than memory: seconds, passes over the files and memory.

    python -m benchmarks.disk generate FOLDER --rows 50000000     # 12 GB: 20 values a row, float64, 1,000 features
    python -m benchmarks.disk solve FOLDER --tol 1e-4 [--memory 500000000] [--l1 1e-3]
    python -m benchmarks.disk read FOLDER                          # a plain sequential read of the same bytes
    python -m benchmarks.disk passes FOLDER                        # an epoch and a certificate: on disk and in memory
    python -m benchmarks.disk sgd FOLDER                           # SGDClassifier.partial_fit on the same stream
    python -m benchmarks.disk growth PLACE                         # 1e5, 1e6, 1e7 rows: seconds and memory to 1e-4
    python -m benchmarks.disk proofs                               # passes over the files to a proved 1e-6, a9a
    python -m benchmarks.disk orders                               # epochs by the window of an order, sorted data too

Every command prints the peak of its own memory (VmHWM). To cap a process with its page cache, run it in a cgroup:
`systemd-run --scope -p MemoryMax=3G python -m benchmarks.disk solve FOLDER`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.orders import Reshuffle, Windows
from reshuffle.shards import Block, Manifest, ShardWriter
from reshuffle.solvers.second_order import SecondOrder

VALUES, FEATURES, SHARD = 20, 1000, 1 << 17
"""Of the generated rows: values of a row, features, rows of a shard (31 MB)."""


def peak() -> float:
    """MB that this process had at most."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def generate(folder: Path, rows: int, *, quiet: bool = False) -> None:
    """Logistic data: a feature of each of 20 groups of 50, normal values, a true model with 50 features."""
    folder.mkdir(parents=True)
    truth = np.zeros(FEATURES)
    truth[::20] = np.random.default_rng(0).normal(size=FEATURES // 20)
    writer = ShardWriter(
        folder, Manifest("csr", "float64", FEATURES, SHARD, source={"generated": rows})
    )
    groups = np.arange(VALUES, dtype=np.uint32) * (FEATURES // VALUES)
    for k, start in enumerate(range(0, rows, SHARD)):
        rng, n = np.random.default_rng([1, k]), min(SHARD, rows - start)
        drawn = rng.integers(0, FEATURES // VALUES, (n, VALUES), dtype=np.uint8)
        indices = groups + drawn
        values = rng.standard_normal((n, VALUES), dtype=np.float32).astype(np.float64)
        margins = np.einsum("ij,ij->i", values, truth[indices])
        y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
        indptr = np.arange(n + 1, dtype=np.int64) * VALUES
        writer.append(Block(values.ravel(), indices.ravel(), indptr, y))
    manifest = writer.finish()
    if not quiet:
        print(
            f"{manifest.rows:,} rows, {manifest.bytes / 1e9:.2f} GB in {len(manifest.shards)} shards"
        )


def problem_of(folder: Path, memory: int, l1: float, l2: float) -> rs.Problem:
    X, y = open_shards(folder, memory=memory)
    return rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=l1, l2=l2))


def solve(folder: Path, memory: int, tol: float, l1: float, l2: float) -> None:
    clock = time.perf_counter()
    problem = problem_of(folder, memory, l1, l2)
    opened = time.perf_counter() - clock
    result = rs.ExactProxRR(tol=tol).solve(problem)
    row = result.trace.last()
    print(
        f"{problem.n:>11,} rows  {'disk' if problem.datafit.on_disk else 'memory':<6}  {result.message:<22}  P = {row['objective']:.8f}  "
        f"{time.perf_counter() - clock:7.1f} s (opened in {opened:.1f})  {row.get('disk_passes', 0.0):5.2f} disk passes  "
        f"active {row.get('active', np.nan):.0f}  peak {peak():,.0f} MB"
    )


def read(folder: Path) -> None:
    """The bytes of the rows once, in pieces of 8 MB, by one thread."""
    buffer, total, clock = bytearray(8 << 20), 0, time.perf_counter()
    for path in sorted(folder.glob("*.npy")):
        with path.open("rb", buffering=0) as file:
            while got := file.readinto(buffer):
                total += got
    seconds = time.perf_counter() - clock
    print(
        f"sequential read: {total / 1e9:.2f} GB in {seconds:.1f} s, {total / 1e9 / seconds:.2f} GB/s"
    )


def passes(folder: Path, memory: int) -> None:
    """Seconds of one pass in storage order and of one shuffled pass, on disk and, where it fits, in memory.

    A pass in storage order takes the value, the slopes and the gradient, by the same kernel in both. The CPU seconds of this thread
    say how long the pass takes where a core is free for the thread that reads.
    """
    for held in (memory, 1 << 62):
        problem = problem_of(folder, held, 1e-3, 1e-3)
        problem.prepare()
        name, x = "disk" if problem.datafit.on_disk else "memory", np.zeros(problem.shape)
        _timed(f"{name:<7} storage order", _pass(problem))
        _timed(f"{name:<7} shuffled", partial(problem.sweep, x, _visits(problem), 1e-3))
        print(f"{name:<7} peak {peak():,.0f} MB", flush=True)


def _timed(what: str, work: Callable[[], Any]) -> None:
    spent = []
    for _ in range(6):
        clock = time.perf_counter(), time.thread_time(), time.process_time()
        work()
        now = time.perf_counter(), time.thread_time(), time.process_time()
        spent.append([b - a for a, b in zip(clock, now, strict=True)])
    wall, own, cpu = (min(part) for part in zip(*spent[1:], strict=True))
    print(
        f"{what:<22} first {spent[0][0]:6.2f} s, then {wall:6.3f} s; CPU of this thread {own:6.3f} s, of all {cpu:6.3f} s",
        flush=True,
    )


def _pass(problem: rs.Problem) -> Callable[[], Any]:
    """Value, slopes and gradient, each time at another point, since a pass at the last one is not made again."""
    points, fit = (
        iter(np.random.default_rng(0).normal(size=(100, *problem.shape)) * 1e-2),
        problem.datafit,
    )
    if fit.on_disk:
        return lambda: fit.slopes(next(points))
    curves = SecondOrder(fit, np.zeros(problem.features))
    return lambda: curves.linearise(next(points))


def _visits(problem: rs.Problem) -> Any:
    order = rs.orders.order_on(Reshuffle(), problem.datafit)
    return order.visits(np.arange(problem.n, dtype=np.uint32), np.random.default_rng(0), 0)


def sgd(folder: Path, l1: float, l2: float, epochs: int) -> None:
    """SGDClassifier.partial_fit, shard by shard; P(x) after each pass."""
    from sklearn.linear_model import SGDClassifier

    problem = problem_of(folder, 500_000_000, l1, l2)
    X, y = open_shards(folder, memory=500_000_000)
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False,
        learning_rate="optimal", average=True, random_state=0,
    )  # fmt: skip
    spent = 0.0
    for epoch in range(epochs):
        clock = time.perf_counter()
        for start, rows in X.matrices():
            model.partial_fit(rows, y[start : start + rows.shape[0]], classes=[-1.0, 1.0])
        spent += time.perf_counter() - clock
        value = problem.objective(np.ascontiguousarray(model.coef_[0]))
        print(f"SGDClassifier pass {epoch + 1}: {spent:7.1f} s  P = {value:.8f}", flush=True)


def growth(place: Path, largest: int, tol: float) -> None:
    """Seconds and peaks by the number of rows, each in a process of its own with 64 MB for rows."""
    rows = 100_000
    while rows <= largest:
        folder = place / f"rows-{rows}"
        if not folder.exists():
            generate(folder, rows, quiet=True)
        command = [
            sys.executable,
            "-m",
            "benchmarks.disk",
            "solve",
            str(folder),
            "--tol",
            str(tol),
            "--memory",
            "64000000",
        ]
        subprocess.run(command, check=True)
        rows *= 10


def orders() -> None:
    """Epochs of shuffled steps alone to a duality gap of 1e-6, a9a: rows as they come, shuffled, and sorted by label."""
    X, y = rs.datasets.load_libsvm("a9a")
    by_label = np.argsort(y, kind="stable")
    with tempfile.TemporaryDirectory() as place:
        convert("a9a", Path(place) / "shuffled", Conversion(shuffle=True))
        mixed, labels = open_shards(Path(place) / "shuffled")
        sets = (
            ("as it is", X, y),
            ("sorted by label", X[by_label], y[by_label]),
            ("shuffled once", mixed, labels),
        )
        for name, rows, targets in sets:
            problem = rs.Problem(rows, targets, penalty=rs.penalties.L2(1e-3))
            for order in (
                Reshuffle(), Windows(16384, 64), Windows(4096, 64), Windows(1024, 64), Windows(4096, 1024), Windows(1024, 1024),
            ):  # fmt: skip
                result = rs.ExactProxRR(tol=1e-6, order=order, finish=False, epochs=400).solve(
                    problem
                )
                plain = rs.ProxRR(epochs=10, step=0.02, order=order, tol=0.0).solve(problem)
                print(
                    f"{name:<16} {order!s:<34} {result.epoch:4d} epochs; ProxRR after 10: P = {plain.trace.last()['objective']:.6f}"
                )


def proofs() -> None:
    """Passes over the files to a proved 1e-6, a9a shuffled on disk, 0.5 MB of memory; and by shuffled epochs alone."""
    with tempfile.TemporaryDirectory() as place:
        convert("a9a", Path(place) / "rows", Conversion(shuffle=True, shard_rows=1000))
        for penalty in (
            rs.penalties.ElasticNet(2e-3, 1e-3),
            rs.penalties.L1(5e-3),
            rs.penalties.L2(1e-3),
        ):
            for intercept in (False, True):
                found = []
                for phases in (None, ["shuffled"]):
                    X, y = open_shards(Path(place) / "rows", memory=500_000)
                    problem = rs.Problem(X, y, penalty=penalty, fit_intercept=intercept)
                    result = rs.ExactProxRR(tol=1e-6, phases=phases).solve(problem)
                    found.append(result.trace.last()["disk_passes"] if result.converged else np.nan)
                print(
                    f"{type(penalty).__name__:<11} intercept {intercept!s:<5}  {found[0]:5.2f} passes; shuffled epochs alone {found[1]:5.2f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", choices=["generate", "solve", "read", "passes", "sgd", "growth", "orders", "proofs"]
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--memory", type=int, default=500_000_000)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--l1", type=float, default=1e-3)
    parser.add_argument("--l2", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    work: dict[str, Any] = {
        "generate": lambda: generate(given.folder, given.rows), "read": lambda: read(given.folder),
        "solve": lambda: solve(given.folder, given.memory, given.tol, given.l1, given.l2),
        "passes": lambda: passes(given.folder, given.memory), "orders": orders, "proofs": proofs,
        "sgd": lambda: sgd(given.folder, given.l1, given.l2, given.epochs),
        "growth": lambda: growth(given.folder, given.rows, given.tol),
    }  # fmt: skip
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    work[given.what]()


if __name__ == "__main__":
    main()
