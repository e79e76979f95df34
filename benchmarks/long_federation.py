"""A long run of a federation under attack: processes killed at random, replies delayed, dropped, doubled, damaged.

    python -m benchmarks.long_federation --kills 100 --rounds 2000

Drivers (with clients in threads of theirs, and with state saved at the clients) and, where Ray is there, hosts of
several clients and processes of single clients, which have saved their state, are killed with SIGKILL at random
moments; a soak has a share of all replies spoiled. Every run must end in the digest of the quiet one.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import reshuffle as rs
from reshuffle.engines import Failure, Reply, Task, Threads

SHARE = 0.05  # of replies that are spoiled
LIFE = 0.1  # seconds that a driver may live at most once it has done ten rounds
HOSTS = {"ray": 2, "ray, clients": 6}  # processes of the six clients
OFTEN = 0.2  # how likely it is that a host is killed in a round
MOST = 2  # hosts that are killed in the life of a driver: Ray starts each again three times


def solver(kind: str, rounds: int) -> Any:
    """What runs: with state on the server or at the clients; plain rounds keep moving for as long as they run."""
    state: Any = "clients" if kind.endswith("clients") else "server"
    return rs.ExactFedRR(rounds=rounds, seed=3, step=0.02, local_passes=1, state=state)


def federation(folder: Path | None = None) -> rs.federated.Sites:
    """Six sites, by label; with a folder, their state is saved there."""
    X, y = rs.datasets.breast_cancer()
    parts = np.array_split(np.argsort(y, kind="stable"), 6)
    homes = []
    for c, part in enumerate(parts):
        state = None if folder is None else folder / f"site{c}"
        if state is not None:
            state.mkdir(exist_ok=True)
        homes.append(rs.federated.Site((X[part], y[part]), name=f"site {c}", state=state))
    return rs.federated.Sites(homes, penalty=rs.penalties.ElasticNet(1e-3, 1e-4))


# --- kills ----------------------------------------------------------------------------------------


def driver(folder: Path, kind: str, rounds: int) -> str:
    """The process that is killed: goes on from its checkpoint, and says the digest if it ends."""
    path = folder / "run.npz"
    engine: Any = rs.engines.Ray(hosts=HOSTS[kind]) if kind in HOSTS else Threads(2)
    run = replace(solver(kind, rounds), engine=engine)
    clients = federation(folder if kind.endswith("clients") else None)
    kill_hosts: list[Any] = [_kill_a_host()] if kind in HOSTS else []
    callbacks = [rs.Checkpoint(path), _say, *kill_hosts]
    found: rs.Result = run.solve(
        clients, callbacks=callbacks, resume=path if path.exists() else None
    )
    return found.digest


def _say(result: rs.Result) -> None:
    if result.epoch % 10 == 0:  # the first line says that it has got going
        print(result.epoch, flush=True)


def _kill_a_host() -> Any:
    """Now and then, a worker process of Ray that holds clients."""
    rng = np.random.default_rng(os.getpid())
    done: list[int] = []

    def kill(result: rs.Result) -> None:
        if rng.random() > OFTEN or len(done) == MOST:
            return
        psutil: Any = importlib.import_module("psutil")
        hosts = [
            p
            for p in psutil.process_iter(["cmdline"])
            if "_HostActor" in " ".join(p.info["cmdline"] or [])
        ]
        mine = [p for p in hosts if os.getpid() in [q.pid for q in p.parents()]]
        if mine:
            done.append(result.epoch)
            print("host", flush=True)
            mine[int(rng.integers(len(mine)))].send_signal(signal.SIGKILL)

    return kill


def killed(kind: str, kills: int, rounds: int, seed: int) -> tuple[str, int, int]:
    """The digest after so many kills, how many drivers were killed, and how many hosts."""
    rng = np.random.default_rng(seed)
    hosts = 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.long_federation", "--driver", kind]
        command += ["--folder", folder, "--rounds", str(rounds)]
        for number in range(kills + 1):
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert process.stdout is not None
            if number < kills:
                while process.stdout.readline() == "host\n":  # a number says that it has got going
                    hosts += 1
                time.sleep(float(rng.uniform(0.0, LIFE)))
                os.killpg(process.pid, signal.SIGKILL)
            lines = process.stdout.read().split()
            process.wait()
            hosts += lines.count("host")
            if process.returncode == 0:
                return lines[-1], number, hosts
    raise RuntimeError("the run did not end")


# --- the soak -------------------------------------------------------------------------------------


@dataclass
class Spoiling:
    """Threads whose replies are, now and then, late, lost, doubled or damaged."""

    seed: int
    spoiled: int = 0

    def open(self, sizes: Any, make_host: Any) -> Any:
        session: Any = Threads(2).open(sizes, make_host)
        inner = session.run_round
        rng = np.random.default_rng(self.seed)
        late: list[Reply] = []

        def run_round(task: Task, timeout: float | None) -> list[Reply | Failure]:
            answers = [a for answer in inner(task, timeout) for a in self.spoil(answer, rng, late)]
            if late and rng.random() < 0.5:
                answers.insert(0, late.pop())
            return answers

        session.run_round = run_round
        session.stream = lambda task, timeout: iter(run_round(task, timeout))
        return session

    def spoil(self, answer: Any, rng: Any, late: list[Reply]) -> Iterator[Any]:
        if rng.random() > SHARE or not isinstance(answer, Reply):
            yield answer
            return
        self.spoiled += 1
        how = int(rng.integers(4))
        if how == 0:
            late.append(answer)
            yield Failure(answer.client, "delayed")
        elif how == 1:
            yield Failure(answer.client, "dropped")
        elif how == 2:
            yield from (answer, answer)
        else:
            model = answer.model.copy()
            if model.size:
                model.view(np.uint8).reshape(-1)[int(rng.integers(model.nbytes))] ^= 1 << int(
                    rng.integers(8)
                )
            yield replace(answer, model=model if model.size else np.zeros(1))


def soak(kind: str, rounds: int) -> tuple[bool, int, float]:
    """Whether the digest is that of the quiet run; replies spoiled and refused."""
    quiet = solver(kind, rounds).solve(federation())
    engine = Spoiling(seed=1)
    noisy = replace(solver(kind, rounds), engine=engine, retries=20).solve(federation())
    return noisy.digest == quiet.digest, engine.spoiled, float(noisy.trace["refused"][-1])


@click.command()
@click.option("--kills", default=100, show_default=True, help="Over all kinds of runs.")
@click.option("--rounds", default=2000, show_default=True)
@click.option("--driver", "kind", type=click.Choice(["server", "clients", *HOSTS]), hidden=True)
@click.option("--folder", type=click.Path(path_type=Path), hidden=True)
def main(kills: int, rounds: int, kind: str | None, folder: Path | None) -> None:
    """Kill and spoil; ends with exit code 1 where a digest differs."""
    if kind is not None and folder is not None:
        print(driver(folder, kind, rounds), flush=True)
        return
    bad = 0
    logging.getLogger("reshuffle").setLevel(
        logging.ERROR
    )  # of hundreds of replies that are refused
    for kind in ("server", "clients"):
        same, spoiled, refused = soak(kind, rounds)
        bad += not same
        told = "the same digest" if same else "ANOTHER DIGEST"
        print(
            f"soak, state={kind}: {rounds} rounds, {spoiled} replies spoiled, {refused:.0f} refused: {told}"
        )
    kinds = ["server", "clients", *(HOSTS if importlib.util.find_spec("ray") else [])]
    for number, kind in enumerate(kinds):
        share = -(-kills // len(kinds))
        found, drivers, hosts = killed(kind, share, rounds, number)
        same = found == solver(kind, rounds).solve(federation()).digest
        bad += not same
        told = "the same digest" if same else "ANOTHER DIGEST"
        print(f"kills, {kind}: {drivers} drivers, {hosts} hosts: {told}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
