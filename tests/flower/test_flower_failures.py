"""Longer trials of a deployment with TLS and keys: machines that are lost, and a federation over network namespaces.

``pytest -m slow tests/flower/test_flower_failures.py``. The last one makes 300 rounds, or as many as FLOWER_ROUNDS says.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from compose_hosts import composed
from flower_servers import (
    SPACE,
    Process,
    Trial,
    cable,
    can_have_hosts,
    three_hosts,
    trial,
    until,
    works,
)
from test_flower_servers import DIGEST, NAMES, app_of, digest_of, homes, on_threads

import reshuffle as rs
from reshuffle.flower.certificates import make_keys
from reshuffle.flower.settings import RunSettings

pytestmark = pytest.mark.slow
__all__ = ["homes"]
LONG = 900.0
"""Seconds for a run in which a node is lost: Flower notices after a minute."""


@contextmanager
def secured(homes: Path, folder: Path) -> Iterator[tuple[Trial, Path, dict[str, Process]]]:
    """A SuperLink with certificates, both sites registered and connected, and an app."""
    keys, app = folder / "keys", app_of(homes, folder)
    make_keys(keys, ["127.0.0.1"], NAMES, days=1)
    with trial(folder / "trial", keys) as made:
        made.link()
        made.register(*NAMES)
        yield made, app, {name: joined(made, homes, name) for name in NAMES}


def joined(made: Trial, homes: Path, name: str) -> Process:
    return made.node(name, data=str(homes / f"{name}.npz"))


CONFIG: dict[str, Any] = {"method": "exact", "rounds": 5, "tol": 0.0, "objective": False}


def test_a_node_that_is_killed_and_stays_away_is_named_and_the_run_is_resumed(
    homes: Path, tmp_path: Path
) -> None:
    config = CONFIG | {"state": "clients"}
    with secured(homes, tmp_path) as (made, app, nodes):
        run = made.run(app, patience=5.0, retries=1, **config)
        run.says("round 2 done")
        works(nodes["south"], nodes["south"].text.count("Receiving: train"))
        nodes["south"].kill()
        run.wait(LONG)
        assert "ClientError" in run.text
        assert "client 1 (south)" in run.text
        assert not (app / "result" / "model.npz").exists()
        assert (app / "result" / "checkpoint.npz").exists()
        joined(made, homes, "south")
        again = made.run(app, log="again.log", resume=True, **config)
        again.wait(LONG)
    assert digest_of(again) == on_threads(homes, **config)


def test_a_node_that_is_killed_and_comes_back_after_a_minute(homes: Path, tmp_path: Path) -> None:
    with secured(homes, tmp_path) as (made, app, nodes):
        run = made.run(app, **CONFIG)
        run.says("round 1 done")
        works(nodes["north"], nodes["north"].text.count("Receiving: train"))
        nodes["north"].kill()
        run.says("site north: node", LONG)  # Flower has noticed
        joined(made, homes, "north")
        run.wait(LONG)
    assert digest_of(run) == on_threads(homes, **CONFIG)


def test_a_superlink_that_is_killed(homes: Path, tmp_path: Path) -> None:
    """Its run is lost with it. The nodes come back by themselves, and another run goes on from the checkpoint."""
    with secured(homes, tmp_path) as (made, app, _):
        link = next(p for p in made.processes if p.log.name == "link.log")
        run = made.run(app, **CONFIG)
        run.says("round 2 done")
        link.kill()
        made.link()
        again = made.run(app, log="again.log", resume=True, **CONFIG)
        again.wait(LONG)
    assert "round 1 done" not in again.text
    assert digest_of(again) == on_threads(homes, **CONFIG)


def test_many_rounds_under_random_kills(homes: Path, tmp_path: Path) -> None:
    """Nodes and the SuperLink are killed at random moments; whatever ends the run, it goes on to the digest of a quiet one."""
    rounds, chance = int(os.environ.get("FLOWER_ROUNDS", "300")), random.Random(0)
    config = CONFIG | {"rounds": rounds, "state": "clients"}
    kills = {"north": 0, "south": 0, "link": 0}
    with secured(homes, tmp_path) as (made, app, nodes):
        link = next(p for p in made.processes if p.log.name == "link.log")
        run = made.run(app, **config)
        done, next_kill = 0, max(1, rounds // 60)
        while not DIGEST.search(run.text):
            done = _next(run, done)
            if run.popen.poll() is not None and not DIGEST.search(run.text):
                run = made.run(app, log=f"run-{done}.log", resume=True, **config)
            elif next_kill <= done < rounds:
                next_kill = done + chance.randint(max(1, rounds // 30), max(2, rounds // 10))
                whom = chance.choice(["north", "south", "north", "south", "link"])
                kills[whom] += 1
                if whom == "link":
                    link.kill()
                    run.kill()
                    link = made.link()
                    run = made.run(app, log=f"run-{done}.log", resume=True, **config)
                else:
                    nodes[whom].kill()
                    nodes[whom] = joined(made, homes, whom)
        run.wait(LONG)
    print(f"{rounds} rounds, killed: {kills}")
    assert sum(kills.values()) > 0
    assert digest_of(run) == on_threads(homes, **config)


def _next(run: Process, done: int) -> int:
    """The last round that is done, once there is one more or the run has ended."""
    until(lambda: _last(run) > done or run.popen.poll() is not None, "a round", LONG)
    return max(done, _last(run))


def _last(run: Process) -> int:
    """The last round that a run has done."""
    found = [
        int(line.split()[1])
        for line in run.text.splitlines()
        if " done" in line and line.startswith("round ")
    ]
    return max(found, default=0)


# --- three hosts -----------------------------------------------------------------------------------


@pytest.fixture
def hosts() -> Iterator[dict[str, str]]:
    if not can_have_hosts():
        pytest.skip("network namespaces need root and iproute2")
    with three_hosts() as addresses:
        yield addresses


def test_three_hosts_one_of_them_cut_off_and_coming_back(
    homes: Path, tmp_path: Path, hosts: dict[str, str]
) -> None:
    """South's cable is pulled in the middle of the run for longer than Flower waits, and put back."""
    keys, app = tmp_path / "keys", app_of(homes, tmp_path)
    make_keys(keys, [hosts["server"]], NAMES, days=1)
    with trial(tmp_path / "trial", keys) as made:
        made.host(hosts["server"], {name: f"{SPACE}{name}" for name in hosts})
        made.link()
        listening = subprocess.run(
            ["ip", "netns", "exec", f"{SPACE}server", "ss", "-Hltn"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert {line.split()[3] for line in listening.splitlines()} == {made.address}
        made.register(*NAMES)
        for name in NAMES:
            joined(made, homes, name)
        run = made.run(app, **CONFIG)
        run.says("round 1 done")
        cable("south", "down")
        run.says("site south: node", LONG)
        cable("south", "up")
        run.wait(LONG)
    assert digest_of(run) == on_threads(homes, **CONFIG)
    assert np.load(app / "result" / "model.npz").files


def test_the_compose_file_ends_in_the_model_of_threads(tmp_path: Path) -> None:
    """Its very commands, each service on a host of its own; no container engine is needed."""
    if not can_have_hosts():
        pytest.skip("network namespaces need root and iproute2")
    file = Path(__file__).parents[2] / "examples" / "flower" / "compose.yaml"
    with composed(file, tmp_path / "compose") as services:
        assert services["run"].wait(LONG) == 0, services["run"].text[-3000:]
        text = services["run"].text
    volumes = tmp_path / "compose" / "volumes"
    found = DIGEST.search(text)
    assert found, text[-3000:]
    sites = [
        rs.federated.Site(volumes / name / "table.csv", name, target="target") for name in NAMES
    ]
    problem = rs.federated.Sites(
        sites, penalty=rs.penalties.L2(0.01), fit_intercept=True, standardise=True
    )
    assert found[1] == RunSettings().solver("threads").solve(problem).digest
    assert "on held-out rows" in text
    assert (volumes / "result" / "run" / "model.npz").is_file()
    assert sorted(path.name for path in (volumes / "north").iterdir()) == [
        "ca.crt", "north", "ready", "table.csv", "test.csv",
    ]  # fmt: skip
