"""A deployment beside Flower's own FedAvg in the same set-up: rounds per minute, bytes, memory of a node, start-up.

``python -m benchmarks.flower_deployment``, as root: a server and two sites in network namespaces of this machine, with TLS and keys of
nodes. Bytes are those that passed a site's network device, so that polling and TLS are in them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import numpy as np
import psutil  # type: ignore[import-untyped]
from rich.console import Console

import reshuffle as rs
from benchmarks.report import Finding, show, write_csv
from benchmarks.timing import environment
from reshuffle.flower.certificates import make_keys
from reshuffle.flower.new import new_app

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "flower"))
from flower_servers import SPACE, Process, passed, three_hosts, trial

NAMES = ("north", "south")
SERVER = """
import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    start = ArrayRecord({"x": Array(np.zeros(context.run_config["features"]))})
    FedAvg(fraction_evaluate=0.0).start(grid=grid, initial_arrays=start, num_rounds=context.run_config["rounds"])
    print("all rounds done")
"""
CLIENT = """
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    with np.load(context.node_config["data"]) as held:
        X, y = held["X"], held["y"]
    x = message.content["arrays"]["x"].numpy().copy()
    for rows in np.array_split(np.random.permutation(y.size), 10):
        x += 0.1 * X[rows].T @ (y[rows] / (1.0 + np.exp(y[rows] * (X[rows] @ x)))) / rows.size
    metrics = MetricRecord({"num-examples": y.size})
    return Message(RecordDict({"arrays": ArrayRecord({"x": Array(x)}), "metrics": metrics}), reply_to=message)
"""


def measured(rounds: int) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as place, three_hosts() as hosts:
        folder = Path(place)
        X, y = rs.datasets.breast_cancer()
        for k, name in enumerate(NAMES):
            np.savez(folder / f"{name}.npz", X=X[k::2], y=y[k::2])
        apps = {
            "reshuffle, ExactFedRR": _ours(folder, rounds),
            "Flower's FedAvg": _theirs(folder, rounds, X.shape[1]),
        }
        make_keys(folder / "keys", [hosts["server"]], NAMES, days=1)
        with trial(folder / "trial", folder / "keys") as made:
            made.host(hosts["server"], {name: f"{SPACE}{name}" for name in hosts})
            clock = time.perf_counter()
            made.link()
            yield Finding(
                "start of the SuperLink", time.perf_counter() - clock, "s", detail=_load()
            )
            made.register(*NAMES)
            nodes = [made.node(name, data=str(folder / f"{name}.npz")) for name in NAMES]
            for node in nodes:
                node.says("SuperNode ID")  # connected, so that no run waits for it
            for what, app in apps.items():
                run = made.run(app, log=f"{app.name}.log")
                yield from _watched(what, run, nodes[0], rounds)


def _ours(folder: Path, rounds: int) -> Path:
    new_app(folder / "ours")
    project = folder / "ours" / "pyproject.toml"
    text = (
        project.read_text()
        .replace("rounds = 100", f"rounds = {rounds}")
        .replace("tol = 1e-06", "tol = 0.0")
    )
    project.write_text(text.replace('penalty = ""', 'penalty = "L2(0.01)"'))
    return folder / "ours"


def _theirs(folder: Path, rounds: int, features: int) -> Path:
    """An app with Flower's strategy, in the shape of ours."""
    app = folder / "theirs"
    new_app(app)
    head, _, _ = (app / "pyproject.toml").read_text().partition("[tool.flwr.app.config]")
    (app / "pyproject.toml").write_text(
        f"{head}[tool.flwr.app.config]\nrounds = {rounds}\nfeatures = {features}\n"
    )
    (app / "federation" / "server.py").write_text(SERVER)
    (app / "federation" / "client.py").write_text(CLIENT)
    return app


def _watched(what: str, run: Process, node: Process, rounds: int) -> Iterator[Finding]:
    """Follow a run: when each round was done, what passed the device, and the memory of a node's processes."""
    start, first, peak, bytes_first = time.perf_counter(), 0.0, 0.0, 0
    marks = (f"round {rounds} done", "all rounds done")
    while not any(mark in run.text for mark in marks):
        if run.popen.poll() is not None and not any(mark in run.text for mark in marks):
            raise RuntimeError(run.text[-3000:])
        if not first and ("round 1 done" in run.text or "[ROUND 2/" in run.text):
            first, bytes_first = time.perf_counter(), passed("north")
        peak = max(peak, _memory(node))
        time.sleep(0.1)
    end, bytes_last = time.perf_counter(), passed("north")
    run.wait()
    each = (end - first) / (rounds - 1)
    yield Finding(f"{what}: until the first round is done", first - start, "s", detail=_load())
    yield Finding(
        f"{what}: rounds per minute", 60.0 / each, "a minute", detail=f"{each:.2f} s a round"
    )
    yield Finding(
        f"{what}: a site's bytes per round", (bytes_last - bytes_first) / (rounds - 1) / 1e3, "kB"
    )
    yield Finding(
        f"{what}: memory of a node's processes, peak",
        peak / 1e6,
        "MB",
        detail="proportional set size",
    )


def _load() -> str:
    return f"load of the machine {os.getloadavg()[0]:.1f}, this trial included"


def _memory(node: Process) -> float:
    total = 0.0
    for one in node.family():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += one.memory_full_info().pss
    return total


@click.command()
@click.option("--rounds", default=12, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("benchmarks/results/flower_deployment.csv"),
)
def main(rounds: int, out: Path) -> None:
    """Print the table and write it."""
    findings = list(measured(rounds))
    show(Console(), f"{rounds} rounds of a deployment", findings)
    write_csv(out, findings, environment())


if __name__ == "__main__":
    main()
