"""The exact method over the hosts of a cluster: rounds, passes over the files and CPU seconds to 1e-6, beside one machine.

    python -m benchmarks.disk generate FOLDER --rows 1000000
    python -m benchmarks.distributed methods [FOLDER]      # FedNewton and ExactFedRR: what the choice by counts rests on
    python -m benchmarks.distributed hosts FOLDER          # ExactProxRR beside ExactDistributed on Ray with 1 and 2 hosts

`hosts` measures the parts of a round: the CPU seconds of the work at the hosts, what the driver adds, the bytes that travel. The
hosts of one machine share its cores, so that from how many hosts it pays is computed from these parts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.disk import peak, problem_of
from reshuffle.datasets import Conversion, convert

MEMORY = 8_000_000
"""Bytes of rows for each client: less than its shards have, so that they are read in every pass."""


def read_so_far() -> int:
    """Bytes that this process has read from files, whether they were cached or not."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def timed(solver: Any, rows: Any, size: int) -> str:
    clock, cpu, read = time.perf_counter(), time.process_time(), read_so_far()
    found = solver.solve(rows)
    spent, busy = time.perf_counter() - clock, time.process_time() - cpu
    passes = (read_so_far() - read) / size
    return (
        f"{type(solver).__name__:<17} {found.epoch:4d} rounds  gap {found.trace.last()['gap']:.1e}  "
        f"{'proved' if found.converged else found.message:<8} {passes:6.2f} passes  {busy:7.2f} CPU s  {spent:7.2f} s"
    )


def methods(folder: Path | None) -> None:
    """Both methods over 8 clients, by threads, in memory: a9a, dense rows, and the generated ones."""
    with tempfile.TemporaryDirectory() as place:
        convert("a9a", Path(place) / "a9a", Conversion(shuffle=True, shard_rows=1000))
        sets: list[tuple[str, Path, Any]] = [("a9a", Path(place) / "a9a", rs.penalties.L2(1e-3))]
        sets.append(("a9a, L1", Path(place) / "a9a", rs.penalties.ElasticNet(2e-3, 1e-3)))
        rng = np.random.default_rng(0)
        for d in (100, 500):
            X = rng.normal(size=(20_000, d))
            z = X @ rng.normal(size=d) / np.sqrt(d)
            y = np.where(rng.random(20_000) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
            np.savez(f"{place}/{d}.npz", X=X, y=y)
            convert(f"{place}/{d}.npz", f"{place}/{d}", Conversion(shard_rows=1000))
            sets.append((f"dense, {d}", Path(place) / str(d), rs.penalties.L2(1e-3)))
        if folder is not None:
            sets.append(("generated", folder, rs.penalties.L2(1e-3)))
        for name, where, penalty in sets:
            rows = rs.federated.DividedFolder(where, penalty=penalty, clients=8, memory=1 << 30)
            for solver in (
                rs.FedNewton(tol=1e-6, engine=rs.engines.Threads(1)),
                rs.ExactFedRR(tol=1e-6, rounds=200, engine=rs.engines.Threads(1)),
            ):
                print(f"{name:<12} {timed(solver, rows, rows.manifest.bytes)}", flush=True)


def hosts(folder: Path, tol: float) -> None:
    """One machine off disk, the same by threads, and on Ray."""
    penalty = rs.penalties.ElasticNet(1e-3, 1e-3)
    rows = rs.federated.DividedFolder(folder, penalty=penalty, clients=8, memory=MEMORY)
    size = rows.manifest.bytes
    clock, cpu = time.perf_counter(), time.process_time()
    alone = rs.ExactProxRR(tol=tol).solve(problem_of(folder, 8 * MEMORY, 1e-3, 1e-3))
    print(
        f"ExactProxRR       {alone.epoch:4d} epochs  {alone.trace.last()['disk_passes']:6.2f} passes  "
        f"{time.process_time() - cpu:7.2f} CPU s  {time.perf_counter() - clock:7.2f} s", flush=True,
    )  # fmt: skip
    solver = rs.ExactDistributed(tol=tol, engine=rs.engines.Threads(1))
    print(timed(solver, rows, size), flush=True)
    digests = {solver.solve(rows).digest}
    for count in (1, 2):
        clock, cpu = time.perf_counter(), time.process_time()
        on_ray = rs.ExactDistributed(tol=tol, engine=rs.engines.Ray(hosts=count)).solve(rows)
        digests.add(on_ray.digest)
        traffic = on_ray.trace.last()
        print(
            f"Ray, {count} hosts: {on_ray.epoch} rounds, {time.perf_counter() - clock:.1f} s with the start of Ray; "
            f"driver {time.process_time() - cpu:.2f} CPU s, peak {peak():.0f} MB; "
            f"{traffic['bytes_up'] / 1e6:.1f} MB up, {traffic['bytes_down'] / 1e6:.2f} MB down", flush=True,
        )  # fmt: skip
    print(
        f"{len(digests)} digest(s) of the model; away from one machine by {np.abs(on_ray.x - alone.x).max():.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["methods", "hosts"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tol", type=float, default=1e-6)
    given = parser.parse_args()
    if given.what == "methods":
        methods(given.folder)
    elif given.folder is not None:
        hosts(given.folder, given.tol)


if __name__ == "__main__":
    main()
