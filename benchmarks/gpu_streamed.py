"""Rows of shards that are streamed to a graphics card in every pass: seconds to a certified 1e-6, and the speed of a pass.

    python -m benchmarks.gpu_streamed [FOLDER] [--rows 200000000] [--seconds 60] [--memory BYTES] [--csv streamed.csv]

Rows have 20 values (float32) in 1,000 columns, with targets of a logistic model. They are written to FOLDER (a temporary one where it is not
given) until there are as many as asked for, or time is up. ``--memory`` are the bytes of the card that rows and tables may take, by default 100 for each
row: too few for the rows, which are therefore streamed, and enough for the tables. "solve" is the second call, with compiled kernels and files that have been read before: it includes the survey,
the first pass over the files. A pass is ``at(x)``: the median of five; beside it stand a plain read of the same files by as many threads and a copy from pinned memory to the card.
The last column compares P with that of a run whose rows all stay on the card, over f(0).
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle.datasets import open_shards
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import CudaDevice, StreamedSamples
from reshuffle.gpu.conveyor import READERS
from reshuffle.shards import Block, Manifest, ShardWriter

VALUES, FEATURES, SHARD = 20, 1000, 1 << 18
"""Values of a row, columns, and rows of a shard (44 MB)."""
TOL = 1e-6
STRENGTH, RIDGE = 0.02, 1e-4
"""ℓ1 as a share of the strength that holds every feature at zero, and the ridge."""
AHEAD = 16
"""Shards that are drawn while others are written."""
COPIED = 1 << 30
"""Bytes of the copy from pinned memory."""


def block(k: int) -> Block:
    """The rows of a shard: one value in each of 20 stretches of 50 columns; every fifth column matters."""
    rng, stretch = np.random.default_rng([1, k]), FEATURES // VALUES
    truth = np.random.default_rng(0).normal(size=FEATURES) * (np.arange(FEATURES) % 5 == 0)
    groups = np.arange(VALUES, dtype=np.uint32) * stretch
    indices = groups + rng.integers(0, stretch, (SHARD, VALUES), dtype=np.uint8)
    values = rng.standard_normal((SHARD, VALUES), dtype=np.float32)
    margins = np.einsum("ij,ij->i", values, truth.astype(np.float32)[indices])
    y = np.where(rng.random(SHARD) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    starts = np.arange(SHARD + 1, dtype=np.int64) * VALUES
    return Block(values.ravel(), indices.ravel(), starts, y)


def blocks(count: int) -> Iterator[Block]:
    """Shards in turn, drawn by threads."""
    with ThreadPoolExecutor(READERS) as pool:
        ahead = [pool.submit(block, k) for k in range(min(AHEAD, count))]
        for k in range(count):
            found = ahead.pop(0).result()
            if k + AHEAD < count:
                ahead.append(pool.submit(block, k + AHEAD))
            yield found


def generate(folder: Path, rows: int, seconds: float) -> None:
    folder.mkdir(parents=True)
    writer = ShardWriter(folder, Manifest("csr", "float32", FEATURES, SHARD, source={"drawn": 1}))
    clock = time.perf_counter()
    for part in blocks(max(1, rows // SHARD)):
        writer.append(part)
        if time.perf_counter() - clock > seconds:
            break
    about = writer.finish()
    print(f"{about.rows:,} rows, {about.bytes / 1e9:.1f} GB in {len(about.shards)} shards, written in {time.perf_counter() - clock:.0f} s", flush=True)  # fmt: skip


def seconds_of(work: Callable[[], object], times: int = 5) -> float:
    """The median seconds of some calls."""
    found = []
    for _ in range(times):
        clock = time.perf_counter()
        work()
        found.append(time.perf_counter() - clock)
    return float(np.median(found))


def read_files(folder: Path) -> int:
    """Read all files but those of targets; returns their bytes."""

    def read(path: Path) -> int:
        total, room = 0, bytearray(8 << 20)
        with open(path, "rb", buffering=0) as file:
            while got := file.readinto(room):
                total += got
        return total

    files = [p for p in sorted(folder.glob("*.npy")) if "targets" not in p.name]
    with ThreadPoolExecutor(min(READERS, os.cpu_count() or 1)) as pool:
        return sum(pool.map(read, files))


def copy_speed(device: Any) -> float:
    """Bytes in a second from pinned memory to the device."""
    pinned, there = device.pinned(COPIED, np.uint8), device.room(COPIED, np.uint8)
    pinned[:] = 1
    channel = device.channel()

    def copied() -> None:
        channel.copy(pinned, there)
        channel.wait()

    copied()
    return COPIED / seconds_of(copied)


def measure(folder: Path, device: Any, whole: Any) -> list[dict[str, Any]]:
    """A row for each penalty; ``whole`` is a device with room for all rows, or None."""
    X, y = open_shards(folder)
    ridge = rs.Problem(X, y, ridge=RIDGE)
    problem = DeviceProblem.of(ridge, device)
    fit = problem.datafit
    if not isinstance(fit, StreamedSamples):
        raise SystemExit("all rows fit on the device: give a smaller --memory or more --rows")
    x = 0.1 * np.random.default_rng(2).normal(size=FEATURES)
    pass_seconds = seconds_of(lambda: fit.at(x))
    read_seconds, size = seconds_of(lambda: read_files(folder), 3), read_files(folder)
    digests = {fit.at(x).gradient.tobytes() for _ in range(2)}
    l1 = STRENGTH * float(np.abs(fit.at(np.zeros(FEATURES)).gradient).max())
    found = []
    for name, case in (
        ("l1", rs.Problem(X, y, penalty=rs.penalties.L1(l1))),
        ("ridge", ridge),
    ):
        solver = rs.ExactProxRR(tol=TOL, device=device)
        solver.solve(case)
        clock = time.perf_counter()
        result = solver.solve(case)
        seconds = time.perf_counter() - clock
        apart = np.nan
        if whole is not None:
            other = rs.ExactProxRR(tol=TOL, device=whole).solve(case)
            ours, theirs = (r.trace.last()["objective"] for r in (result, other))
            apart = abs(ours - theirs) / fit.at_zero
        row = {
            "case": name, "rows": fit.n, "bytes": size, "memory": device.memory, "seconds": seconds,
            "converged": result.converged, "gap": float(result.trace["gap"][-1]), "steps": result.epoch,
            "passes_over_files": float(result.trace["disk_passes"][-1]), "pass_seconds": pass_seconds,
            "pass_gb_s": size / pass_seconds / 1e9, "read_gb_s": size / read_seconds / 1e9,
            "copy_gb_s": copy_speed(device) / 1e9, "digests": len(digests), "apart_from_resident": apart,
        }  # fmt: skip
        print({k: round(v, 9) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--csv", type=Path, default=Path("benchmarks/results/gpu_streamed.csv"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.folder or Path(place) / "rows"
        if not folder.exists():
            generate(folder, given.rows, given.seconds)
        memory = given.memory or 100 * open_shards(folder)[0].shape[0]
        rows = measure(folder, CudaDevice(memory=memory), CudaDevice())
    with open(given.csv, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
