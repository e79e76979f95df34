"""Real SuperLinks and SuperNodes on loopback: the model is that of threads, and what is not in order is refused by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from click.testing import CliRunner
from flower_servers import Process, Trial, trial, until, works

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.flower.certificates import make_keys
from reshuffle.flower.settings import RunSettings

NAMES = ("north", "south")
PENALTY = "ElasticNet(l1=0.001, l2=0.01)"
DIGEST = re.compile(r"digest ([0-9a-f]{64})")
HOSTILE = '''"""Site south answers something else, each time another thing, before it answers."""

import os
from pathlib import Path

import numpy as np
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

from reshuffle.engines import checksum
from reshuffle.engines.flower.records import add_record, get_record
from reshuffle.flower.client import answered

app = ClientApp()


@app.query()
def query(message, context):
    return answered(message, context)


@app.train()
def train(message, context):
    reply = answered(message, context)
    if context.node_config["site"] != "south":
        return reply
    counter = Path(os.environ["FLWR_HOME"]) / "counter"
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    head, more = get_record(reply.content, "reply"), get_record(reply.content, "more")
    nan = np.full(30, np.nan)
    faults = [
        {"model": np.zeros(31)},
        {"run": "older"},
        None,
        {"model": nan, "check": checksum(nan, more)},
        {"model": head["model"] + 1.0},
        {"model": np.zeros(200_000)},
    ]
    if number >= len(faults):
        return reply
    if faults[number] is None:
        raise RuntimeError("a line of a table\\n" + "x" * 5000)
    changed = RecordDict()
    add_record(changed, "reply", head | faults[number])
    add_record(changed, "more", more)
    return Message(changed, reply_to=message)
'''


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites with their tables, one with other features, and one with other labels."""
    folder = tmp_path_factory.mktemp("homes")
    X, y = rs.datasets.breast_cancer()
    order = np.argsort(X[:, 0])
    for name, rows in zip(NAMES, np.array_split(order, 2), strict=True):
        np.savez(folder / f"{name}.npz", X=X[rows], y=y[rows])
    np.savez(folder / "west.npz", X=X[:50, :4], y=y[:50])
    np.savez(folder / "east.npz", X=X[:50], y=np.arange(50) % 3)
    lines = [f'[[site]]\nname = "{n}"\ndata = "{n}.npz"\ntest = "{n}.npz"\n' for n in NAMES]
    (folder / "sites.toml").write_text("l1 = 0.001\nl2 = 0.01\n" + "".join(lines))
    return folder


def app_of(homes: Path, folder: Path) -> Path:
    made = folder / "app"
    done = CliRunner().invoke(
        main, ["flower", "new", str(made), "--sites", str(homes / "sites.toml")]
    )
    assert done.exit_code == 0, done.output
    return made


def on_threads(homes: Path, **config: Any) -> str:
    sites = [rs.federated.Site(homes / f"{name}.npz", name=name) for name in NAMES]
    chosen = RunSettings(**config)
    problem = rs.federated.Sites(
        sites, penalty=rs.penalties.ElasticNet(0.001, 0.01), objective=chosen.objective
    )
    return chosen.solver("threads").solve(problem).digest


def digest_of(run: Process) -> str:
    found = DIGEST.search(run.text)
    assert found, run.text[-4000:]
    return found[1]


@pytest.mark.servers
def test_a_simulation_ends_in_the_model_of_threads(homes: Path, tmp_path: Path) -> None:
    app = app_of(homes, tmp_path)
    config: dict[str, Any] = {"method": "exact", "rounds": 3, "tol": 0.0}
    with trial(tmp_path / "trial", simulation=True) as made:
        made.link()
        run = made.run(app, **config)
        run.wait()
    assert digest_of(run) == on_threads(homes, **config)
    assert "on held-out rows" in run.text
    model = rs.estimators.load(app / "result" / "model.npz")
    with np.load(homes / "north.npz") as held:
        assert model.score(held["X"], held["y"]) > 0.9
    assert b"south" in (app / "result" / "report.html").read_bytes()


REFUSALS = (
    "its model must be float64 of shape (30,), got float64 of shape (31,)",
    "its reply belongs to another run: 'older'",
    "RuntimeError",
    "its model or its numbers hold NaN or infinity",
    "it was damaged on the way",
    "bytes, and at most 1,000,000 are taken",
)
"""What the log says of each fault, in their order."""


def wrong_runs(
    made: Trial, app: Path, homes: Path, sites: Sequence[str]
) -> dict[str, tuple[Process, str]]:
    """Runs over north and a site whose table is another, at the same time; and what each must be told."""
    told = {
        "west": "features of client 1 (west) is 4, of client 0 (north) 30",
        "east": "client 1 (east): [0.0, 1.0, 2.0]",
    }
    return {
        site: (
            made.run(app, f"{site}.log", sites=f"north, {site}", rounds=1, out=str(app / site)),
            told[site],
        )
        for site in sites
    }


@pytest.mark.servers
@pytest.mark.parametrize(
    ("first", "wrong"),
    [
        pytest.param(0, ("west", "east"), marks=pytest.mark.slow, id="all faults"),
        pytest.param(3, ("west",), id="three"),
    ],
)
def test_a_deployment_refuses_wrong_replies_and_ends_in_the_same_model(
    homes: Path, tmp_path: Path, first: int, wrong: tuple[str, ...]
) -> None:
    """Another run goes on over the same nodes meanwhile: one with a site of other features, and one of other labels."""
    app = app_of(homes, tmp_path)
    (app / "federation" / "client.py").write_text(HOSTILE)
    config: dict[str, Any] = {
        "method": "fedrr",
        "rounds": 1,
        "tol": 0.0,
        "objective": False,
        "retries": 6,
    }
    with trial(tmp_path / "trial") as made:
        made.link()
        for name in (*wrong, *reversed(NAMES)):
            made.node(name, data=str(homes / f"{name}.npz"))
        (made.folder / "home-south" / "counter").write_text(str(first))
        others = wrong_runs(made, app, homes, wrong)
        run = made.run(app, largest=10**6, **config)
        run.wait(600)
        for site, (other, words) in others.items():
            other.wait()
            assert words in other.text, site
            assert "round 1 done" not in other.text
            assert not (app / site / "checkpoint.npz").exists()
    for words in REFUSALS[first:]:
        assert words in run.text, words
    assert max(map(len, run.text.splitlines())) < 1500
    assert digest_of(run) == on_threads(homes, **config)
    trace = np.genfromtxt(app / "result" / "trace.csv", delimiter=",", names=True)
    assert trace["retries"][-1] == len(REFUSALS) - first


@pytest.mark.servers
def test_with_tls_and_keys_a_node_that_is_stopped_comes_back_with_its_state(
    homes: Path, tmp_path: Path
) -> None:
    """The state of ExactFedRR is at the clients; north is stopped in the middle of round 2, and started again."""
    keys, app = tmp_path / "keys", app_of(homes, tmp_path)
    make_keys(keys, ["127.0.0.1"], [*NAMES, "stranger"], days=1)
    config: dict[str, Any] = {
        "method": "exact",
        "state": "clients",
        "rounds": 2,
        "tol": 0.0,
        "objective": False,
    }
    with trial(tmp_path / "trial", keys) as made:
        made.link()
        made.register(*NAMES)
        stranger = made.node(
            "south", key="stranger", persistent=False, data=str(homes / "south.npz")
        )
        nodes = {name: made.node(name, data=str(homes / f"{name}.npz")) for name in NAMES}
        run = made.run(app, **config)
        run.says("round 1 done")
        works(nodes["north"], 1)
        nodes["north"].stop()
        made.node("north", data=str(homes / "north.npz"))
        run.wait(600)
        until(lambda: stranger.popen.poll() is not None, "the end of a node whose key nobody knows")
        assert stranger.popen.poll() not in (0, None)
    assert "registered as north" in run.text
    assert "round 1, site north:" in run.text  # messages count rounds from 0
    assert digest_of(run) == on_threads(homes, **config)
