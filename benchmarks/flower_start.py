"""How long a node's process needs until its data is open: Flower starts one for every message.

``python -m benchmarks.flower_start``. Each number is of new processes, with the interpreter's start and the imports apart: the
data is opened (a folder is mapped, a file is read), a message of a round in which the data's digest is known is made ready to train
(shards that fit into memory are read there and compared with their checksums), and the handshake is answered, which reads every row
once a run. Both times are told: by the clock, which other work on the machine lengthens, and of the processor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from benchmarks.disk import generate
from benchmarks.report import Finding, show, write_csv
from benchmarks.timing import environment

FEW = 5_000
"""Rows of the CSV file: parsing takes so long that more of them would only be waited for."""
PROCESS = """
import json, sys, time
began = time.process_time()
interpreter = began
from reshuffle.flower.client import client_app
from reshuffle.federated import Site
from reshuffle.federated.site_host import Loaded
from reshuffle.flower.settings import RunSettings
client_app()
imported = time.process_time()
clock = time.perf_counter()
model = RunSettings().model()
loaded = Loaded.of(Site(sys.argv[1], "north"), model.cells)
opened, opened_wall = time.process_time(), time.perf_counter() - clock
features = loaded.table.X.shape[1] if loaded.table.columns is None else 0
agreed = {"features": features, "classes": "[-1.0, 1.0]", "mu": 0.01}
ready = ready_wall = 0.0
if features:
    model.problem(loaded.table, agreed)
    ready, ready_wall = time.process_time() - imported, time.perf_counter() - clock
clock = time.perf_counter()
model.report(loaded.table, "", moments=False)
print(json.dumps({
    "interpreter and imports": imported, "opened": opened - imported, "opened, by the clock": opened_wall,
    "ready": ready, "ready, by the clock": ready_wall, "handshake": time.perf_counter() - clock,
}))
"""


def measured(rows: int, features: int, repeats: int) -> Iterator[Finding]:
    """The least of several processes, for each form of the same table."""
    size = f"{rows:,} rows; dense: {features} features, {rows * features * 8 / 1e6:.0f} MB"
    with tempfile.TemporaryDirectory() as place:
        for form, path in written(Path(place), rows, features):
            found = [_process(path) for _ in range(repeats)]
            least = {name: min(one[name] for one in found) for name in found[0]}
            if form == "X.npy and y.npy":
                load = f"CPU time; load of the machine {os.getloadavg()[0]:.1f}"
                yield Finding("interpreter and imports", least["interpreter and imports"], "s", detail=load)  # fmt: skip
            mapped = form != "CSV"
            bar = 0.2 if mapped else None
            told = size if mapped else f"{min(rows, FEW):,} × {features}"
            yield Finding(f"{form}: opened", least["opened, by the clock"], "s", "at most", bar, f"{told}; CPU time {least['opened']:.3f} s")  # fmt: skip
            if mapped:
                yield Finding(f"{form}: opened and ready to train", least["ready, by the clock"], "s", "at most", bar, f"CPU time {least['ready']:.3f} s")  # fmt: skip
            yield Finding(f"{form}: the handshake's digest, once a run", least["handshake"], "s")


def written(folder: Path, rows: int, features: int) -> Iterator[tuple[str, Path]]:
    """The same rows in the forms that a site may have."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features))
    y = np.where(X[:, 0] + rng.standard_normal(rows) > 0, 1.0, -1.0)
    mapped = folder / "mapped"
    mapped.mkdir()
    np.save(mapped / "X.npy", X)
    np.save(mapped / "y.npy", y)
    yield "X.npy and y.npy", mapped
    few = min(rows, FEW)
    table = folder / "table.csv"
    names = ",".join([*(f"c{k}" for k in range(features)), "y"])
    np.savetxt(table, np.column_stack([X[:few], y[:few]]), delimiter=",", header=names, comments="")
    del X
    generate(folder / "shards", rows, quiet=True)
    yield "a folder of shards, 20 of 1,000 features a row", folder / "shards"
    yield "CSV", table


def _process(path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@click.command()
@click.option("--rows", default=500_000, show_default=True)
@click.option("--features", default=50, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("benchmarks/results/flower_start.csv")
)
def main(rows: int, features: int, repeats: int, out: Path) -> None:
    """Print the table and write it."""
    findings = list(measured(rows, features, repeats))
    show(Console(), "the start of a node's process", findings)
    write_csv(out, findings, environment())


if __name__ == "__main__":
    main()
