"""The Flower engine on a grid in this process: every method, who is who, and answers that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from flower_grid import LocalGrid
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict

import reshuffle as rs
from reshuffle.engines import Task
from reshuffle.engines.flower import Flower, Nodes
from reshuffle.engines.flower.messages import LONGEST, answer_content
from reshuffle.engines.flower.records import add_record, get_record, received
from reshuffle.federated.site import Model
from reshuffle.flower.outcome import alone
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings

pytestmark = pytest.mark.usefixtures("without_pictures")

NAMES = ("north", "south", "east")
PENALTY = "ElasticNet(l1=0.001, l2=0.01)"
CONFIG: dict[str, Any] = {
    "sites": ", ".join(NAMES), "rounds": 4, "tol": 0.0, "penalty": PENALTY, "wait": 1.0,
    "patience": 0.05, "retries": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sites, by label where it matters least: each has both classes, unevenly."""
    folder = tmp_path_factory.mktemp("homes")
    X, y = rs.datasets.breast_cancer()
    order = np.argsort(X[:, 0])
    for name, rows in zip(NAMES, np.array_split(order, 3), strict=True):
        np.savez(folder / f"{name}.npz", X=X[rows[::2]], y=y[rows[::2]])
        np.savez(folder / f"{name}-test.npz", X=X[rows[1::2]], y=y[rows[1::2]])
    return folder


def nodes_of(homes: Path, **more: str) -> dict[int, dict[str, Any]]:
    """Nodes that arrive in another order than that of the sites."""
    return {
        number: {"site": name, "data": str(homes / f"{name}.npz")}
        | {key: value.format(name=name) for key, value in more.items()}
        for number, name in ((9, "east"), (4, "north"), (7, "south"))
    }


def settings(out: Path, **more: Any) -> dict[str, Any]:
    return CONFIG | {"out": str(out)} | {k.replace("_", "-"): v for k, v in more.items()}


def on_threads(homes: Path, config: dict[str, Any], **more: Any) -> rs.Result:
    chosen = RunSettings.of(config)
    sites = [rs.federated.Site(homes / f"{name}.npz", name=name, **more) for name in NAMES]
    problem = rs.federated.Sites(
        sites, chosen.made_loss(), chosen.made_penalty(), fit_intercept=chosen.intercept,
        standardise=chosen.standardise, objective=chosen.objective,
    )  # fmt: skip
    return chosen.solver("threads").solve(problem)


METHODS: dict[str, dict[str, Any]] = {
    "ExactFedRR": {"method": "exact", "tol": 1e-4, "rounds": 60},
    "ExactFedRR with an intercept": {"method": "exact", "intercept": True},
    "ExactFedRR, standardised": {"method": "exact", "intercept": True, "standardise": True},
    "state at the clients": {"method": "exact", "state": "clients"},
    "few clients, state with them": {
        "method": "exact", "state": "clients", "acceleration": 0, "participation": 0.4,
    },
    "FedRR": {"method": "fedrr", "intercept": True, "standardise": True},
    "FedRR, few clients": {"method": "fedrr", "participation": 0.4},
    "FedSO": {"method": "fedso", "penalty": "GroupLasso(0.01, [[0, 1], [2, 3, 4]])"},
    "LocalSGD": {"method": "local-sgd", "penalty": "L1(0.001)"},
    "FedNewton": {"method": "newton", "tol": 1e-6},
    "squared": {"method": "fedrr", "loss": "squared", "penalty": "Box(-0.1, 0.1)"},
}  # fmt: skip


@pytest.mark.parametrize("more", METHODS.values(), ids=METHODS)
def test_the_model_is_that_of_threads(homes: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    config = settings(tmp_path / "out", **more)
    grid: Any = LocalGrid(nodes_of(homes, state=f"{tmp_path}/state-{{name}}"), config)
    found = train(grid, RunSettings.of(config))
    assert found.digest == on_threads(homes, config).digest
    model = rs.estimators.load(tmp_path / "out" / "model.npz")
    with np.load(homes / "south.npz") as held:
        assert model.predict(held["X"]).shape == held["y"].shape
    assert b"north" in (tmp_path / "out" / "report.html").read_bytes()


@pytest.mark.parametrize("method", ["exact", "fedrr"])
def test_the_handshake_is_made_once_where_the_penalty_is_asked_for(
    homes: Path, tmp_path: Path, method: str
) -> None:
    config = settings(tmp_path / "out", penalty="", method=method, rounds=2)
    grid = LocalGrid(nodes_of(homes), config)
    found = train(grid, RunSettings.of(config))
    assert found.learned is not None
    written = settings(
        tmp_path / "out", penalty=f"{found.learned.penalty!r}", method=method, rounds=2
    )
    assert isinstance(found.learned.penalty, rs.penalties.L2)
    assert found.digest == on_threads(homes, written).digest
    assert [kind for node, kind in grid.sent if node == 4].count("hello") == 1


def test_held_out_rows_and_the_audit_are_those_of_sites(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path / "out", method="fedrr", evaluate=2)
    nodes = nodes_of(homes, test=f"{homes}/{{name}}-test.npz", audit=f"{tmp_path}/{{name}}.jsonl")
    found = train(LocalGrid(nodes, config), RunSettings.of(config))
    sites = [rs.federated.Site(homes / f"{n}.npz", n, test=homes / f"{n}-test.npz") for n in NAMES]
    problem = rs.federated.Sites(sites, penalty=RunSettings.of(config).made_penalty())
    asked = RunSettings.of(config).solver("threads").solve(problem)
    assert found.held_out.table == asked.held_out.table
    lines = [json.loads(line) for line in (tmp_path / "north.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"hello", "load", "train", "metrics", "value"}
    assert sum(line["kind"] == "train" for line in lines) == 8


def test_a_run_goes_on_from_its_checkpoint_on_other_nodes(homes: Path, tmp_path: Path) -> None:
    """Node ids and the order of arrival are others; state at the clients is found again in their folders."""
    more = {"state": f"{tmp_path}/state-{{name}}"}
    config = settings(tmp_path / "out", state="clients", rounds=7)
    train(
        LocalGrid(nodes_of(homes, **more), config | {"rounds": 3}),
        RunSettings.of(config | {"rounds": 3}),
    )
    again = {number + 100: node for number, node in sorted(nodes_of(homes, **more).items())}
    found = train(LocalGrid(again, config), RunSettings.of(config | {"resume": True}))
    assert found.digest == on_threads(homes, config).digest


def test_a_folder_with_a_run_is_not_overwritten(homes: Path, tmp_path: Path) -> None:
    (tmp_path / "model.npz").write_bytes(b"")
    config = settings(tmp_path)
    with pytest.raises(rs.InputError, match="belongs to an earlier run: go on with resume=true"):
        train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))
    with pytest.raises(rs.InputError, match="there is no checkpoint"):
        train(LocalGrid(nodes_of(homes), config), RunSettings.of(config | {"resume": True}))


def test_two_runs_do_not_write_into_one_folder(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path / "out", method="fedrr")
    grid = LocalGrid(nodes_of(homes), config)
    with (
        alone(tmp_path / "out"),
        pytest.raises(rs.InputError, match=r"another run writes into .* `flwr stop`"),
    ):
        train(grid, RunSettings.of(config))
    assert not grid.sent
    assert train(grid, RunSettings.of(config)).epoch == 4
    (tmp_path / "file").write_text("")
    with pytest.raises(rs.InputError, match="out must be a folder that can be written to"):
        train(grid, RunSettings.of(config | {"out": str(tmp_path / "file" / "out")}))


def test_a_run_that_overwrites_another_leaves_no_model_of_it_beside_its_checkpoint(
    homes: Path, tmp_path: Path
) -> None:
    config = settings(tmp_path, method="fedrr", rounds=2)
    train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))
    silent = [3]

    def fails(node: int, content: RecordDict) -> Any:
        trains = sum(kind == "train" for _, kind in grid.sent)
        return Error(4, "gone") if trains > silent[0] else content

    for after, kept in ((0, True), (3, False)):  # in the first round nothing is overwritten yet
        silent[0] = after
        grid = LocalGrid(nodes_of(homes), config, fails)
        with pytest.raises(rs.ClientError, match="gone"):
            train(grid, RunSettings.of(config | {"force": True, "seed": 1}))
        assert (tmp_path / "model.npz").exists() == kept
        assert (tmp_path / "report.html").exists() == kept
        assert (tmp_path / "checkpoint.npz").exists()


def test_a_mapped_folder_is_read_for_its_digest_once(
    homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message is a new process; one whose folder was not written to since the handshake does not hash it again."""
    nodes, reports = nodes_of(homes), []
    for node in nodes.values():
        folder = tmp_path / node["site"]
        folder.mkdir()
        with np.load(node["data"]) as held:
            np.save(folder / "X.npy", np.ascontiguousarray(held["X"]))
            np.save(folder / "y.npy", held["y"])
        node["data"] = str(folder)
    report = Model.report

    def counted(self: Model, *given: Any, **more: Any) -> Any:
        reports.append(self)
        return report(self, *given, **more)

    monkeypatch.setattr(Model, "report", counted)
    config = settings(tmp_path / "out", method="fedrr")
    found = train(LocalGrid(nodes, config), RunSettings.of(config))
    assert len(reports) == 3
    assert found.digest == on_threads(homes, config).digest


# --- who is who ------------------------------------------------------------------------------------


def test_a_site_that_nobody_is_and_one_that_two_are(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, wait=0.3)
    nodes = nodes_of(homes)
    del nodes[7]
    with pytest.raises(
        rs.InputError, match=r"within 0\.3 s: south; sites that are there: east, north"
    ):
        train(LocalGrid(nodes, config), RunSettings.of(config))
    nodes = nodes_of(homes) | {8: {"site": "north", "data": "elsewhere"}}
    with pytest.raises(rs.InputError, match="'north' is claimed by two nodes, 4 and 8"):
        train(LocalGrid(nodes, config), RunSettings.of(config))


def test_a_node_must_be_whom_its_key_was_registered_for(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, wait=0.3)
    grid = LocalGrid(nodes_of(homes), config)
    grid.names = {4: "north", 7: "north", 9: "east"}
    with pytest.raises(
        rs.InputError, match="key is registered as 'north', and it says that it is 'south'"
    ):
        train(grid, RunSettings.of(config))


def test_a_site_that_disagrees_is_refused_before_the_first_round(
    homes: Path, tmp_path: Path
) -> None:
    with np.load(homes / "south.npz") as held:
        np.savez(tmp_path / "narrow.npz", X=held["X"][:, :4], y=held["y"])
    config, nodes = settings(tmp_path / "out"), nodes_of(homes)
    nodes[7]["data"] = str(tmp_path / "narrow.npz")
    grid = LocalGrid(nodes, config)
    with pytest.raises(
        rs.InputError, match=r"features of client 1 \(south\) is 4, of client 0 \(north\) 30"
    ):
        train(grid, RunSettings.of(config))
    assert not [kind for _, kind in grid.sent if kind == "train"]


WRONG_NODES: dict[str, tuple[dict[str, Any], str]] = {
    "no data": ({"site": "south"}, "must say where its data lies"),
    "a word too many": ({"site": "south", "dta": "x.npz"}, "'dta' is not known; there are site, data"),
    "no file": ({"site": "south", "data": "/nowhere.npz"}, "/nowhere.npz"),
}  # fmt: skip


@pytest.mark.parametrize(("node", "words"), WRONG_NODES.values(), ids=WRONG_NODES)
def test_a_wrong_node_configuration_is_said_by_name(
    homes: Path, tmp_path: Path, node: dict[str, Any], words: str
) -> None:
    config = settings(tmp_path)
    with pytest.raises(rs.ClientError, match=rf"client 1 \(south\): .*{words}"):
        train(LocalGrid(nodes_of(homes) | {7: node}, config), RunSettings.of(config))


class LateGrid(LocalGrid):
    """The introduction of one node takes a few looks longer than those of the others."""

    late, looks = "", 0

    def push_messages(self, messages: Any) -> list[str]:
        given = list(messages)
        numbers = super().push_messages(given)
        for number, message in zip(numbers, given, strict=True):
            self.late = number if message.metadata.dst_node_id == 8 else self.late
        return numbers

    def pull_messages(self, message_ids: Any) -> list[Any]:
        asked = list(message_ids)
        self.looks += self.late in asked
        return super().pull_messages([n for n in asked if n != self.late or self.looks > 4])


def test_the_start_waits_for_a_second_node_of_a_site_that_is_slow_to_say_so(homes: Path) -> None:
    nodes = nodes_of(homes) | {8: {"site": "north", "data": "elsewhere"}}
    with pytest.raises(rs.InputError, match="'north' is claimed by two nodes, 4 and 8"):
        Nodes(LateGrid(nodes, CONFIG), NAMES, poll=0.001).find(5.0)
    found = Nodes(LateGrid(nodes, CONFIG), NAMES, poll=0.001, grace=0.0).find(5.0)
    assert {site: node.id for site, node in found.items()} == {"north": 4, "south": 7, "east": 9}


def test_a_site_keeps_its_registered_key_until_the_end_of_a_run(homes: Path) -> None:
    grid = LocalGrid(nodes_of(homes), CONFIG)
    grid.names = {4: "north", 7: "south", 8: "north", 9: "east"}
    nodes = Nodes(grid, NAMES)
    nodes.find(1.0)
    grid.nodes[8], grid.started[8] = grid.nodes[4], "2026-01-02"
    nodes.look()
    node = nodes.at("north")
    assert node is not None
    assert node.id == 4
    assert "had the key" in next(iter(nodes.refused.values()))
    grid.started[4] = "2026-01-03"  # the same key, started again
    nodes.look()
    assert nodes.at("north") != node
    assert nodes.at("north") is not None
    del grid.nodes[4]
    nodes.look()
    assert nodes.at("north") is None


def registered(nodes: dict[int, dict[str, Any]], config: dict[str, Any]) -> LocalGrid:
    """A grid whose nodes have keys that are registered under the names of their sites."""
    grid = LocalGrid(nodes, config)
    grid.names = {number: node["site"] for number, node in nodes.items()}
    return grid


def test_a_site_keeps_its_registered_key_over_runs(
    homes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(tmp_path / "out", method="fedrr", rounds=2, wait=0.3)
    train(registered(nodes_of(homes), config), RunSettings.of(config))
    pins = json.loads((tmp_path / "out" / "keys.json").read_text())
    assert pins == {
        name: sha256(b"%d" % number).hexdigest() for number, name in ((9, "east"), (4, "north"), (7, "south"))
    }  # fmt: skip
    others = nodes_of(homes)
    others[70] = others.pop(7)
    words = (
        r"node 70 is refused: site 'south' had the key 7902699be42c8a8e in earlier runs, and the key of this node is "
        "ff5a1ae012afa5d4; if the site has made itself a new key, name it in new-keys"
    )
    more = config | {"rounds": 4, "resume": True}
    for grid in (registered(others, more), LocalGrid(others, more)):  # the second without names
        with pytest.raises(rs.InputError, match=words):
            train(grid, RunSettings.of(more))
    with pytest.raises(rs.InputError, match=words):
        train(registered(others, config), RunSettings.of(config | {"force": True}))
    assert json.loads((tmp_path / "out" / "keys.json").read_text()) == pins
    found = train(registered(others, more), RunSettings.of(more | {"new-keys": "south"}))
    assert "site south: its new key ff5a1ae012afa5d4 is accepted in place of" in caplog.text
    assert found.digest == on_threads(homes, config | {"rounds": 4}).digest
    again = more | {"rounds": 5}
    train(registered(others, again), RunSettings.of(again))  # from now on without being named
    with pytest.raises(rs.InputError, match="site 'south' had the key ff5a1ae012afa5d4 in earlier"):
        train(registered(nodes_of(homes), again), RunSettings.of(again))


@pytest.mark.parametrize("text", ["half a fi", '["north"]', '{"north": "abc"}', '{"north": 3}'])
def test_keys_that_cannot_be_read_stop_the_run(homes: Path, tmp_path: Path, text: str) -> None:
    config = settings(tmp_path, method="fedrr")
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(rs.InputError, match=r"keys.json remembers the keys .* and remove the file"):
        train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))


def test_nodes_without_registered_keys_are_not_remembered(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, method="fedrr", rounds=1)
    train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))
    assert not (tmp_path / "keys.json").exists()
    with pytest.raises(rs.InputError, match=r"new-keys must name sites of this run .* got 'west'"):
        RunSettings.of(config | {"new-keys": "west"})


# --- answers that are refused ------------------------------------------------------------------------


def replied(content: RecordDict, **parts: Any) -> RecordDict:
    """A reply with other parts, and the checksum of what it was."""
    changed = RecordDict()
    add_record(changed, "reply", get_record(content, "reply") | parts)
    add_record(changed, "more", get_record(content, "more"))
    return changed


def other_bytes(content: RecordDict) -> RecordDict:
    """A model one of whose bytes was turned over on the way."""
    array = content.array_records["reply.arrays"]["model"]
    body = bytearray(array.data)
    body[-1] ^= 1
    array.data = bytes(body)
    return content


def announced(content: RecordDict) -> RecordDict:
    """A header that announces more numbers than memory has."""
    array = Array(np.zeros(10**6))
    said, lie = b"(1000000,), }      ", b"(1000000000000,), }"
    assert said in array.data
    array.data = array.data.replace(said, lie)[:512]
    content["reply.arrays"] = ArrayRecord({"model": array})
    return content


def not_numbers(content: RecordDict) -> RecordDict:
    """A model of NaN whose checksum is right."""
    model = np.full(30, np.nan)
    return replied(
        content, model=model, check=rs.engines.checksum(model, get_record(content, "more"))
    )


def with_model(shape: str) -> Callable[[RecordDict], RecordDict]:
    """A model whose header says this shape, with eight bytes after it."""

    def changed(content: RecordDict) -> RecordDict:
        said = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
        header = said.ljust(max(117, len(said))) + b"\n"
        data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
        model = replace(Array(np.zeros(1)), data=data)
        content["reply.arrays"] = ArrayRecord({"model": model})
        return content

    return changed


def no_header(content: RecordDict) -> RecordDict:
    """A model one byte of whose header was changed on the way."""
    array = content.array_records["reply.arrays"]["model"]
    array.data = array.data.replace(b"{", b"\xd7", 1)
    return content


def failed(**parts: Any) -> RecordDict:
    content = RecordDict()
    whole: dict[str, Any] = {"client": 1, "reason": "x", "diverged": 0, "lost": 0}
    add_record(content, "failure", whole | parts)
    return content


CHANGES: dict[str, tuple[Callable[[RecordDict], RecordDict | Error], str]] = {
    "NaN": (not_numbers, "NaN or infinity"),
    "another shape": (lambda c: replied(c, model=np.zeros(31)), r"float64 of shape \(30,\), got"),
    "another type": (lambda c: replied(c, model=np.zeros(30, np.float32)), "got float32"),
    "of an older run": (lambda c: replied(c, run="older"), "belongs to another run: 'older'"),
    "of an older round": (lambda c: replied(c, round=0), "another round: 0, not 2"),
    "of another model": (lambda c: replied(c, digest="0" * 64), "another digest of the model"),
    "in another's name": (lambda c: replied(c, client=0), "in the name of client 0"),
    "damaged": (other_bytes, "damaged on the way"),
    "a header that lies": (announced, "damaged on the way"),
    "no header": (no_header, "damaged on the way"),
    "negative sizes": (with_model("(-1, -1)"), "damaged on the way"),
    "a size beyond all": (with_model("(0, 99999999999999999999)"), "damaged on the way"),
    "100 dimensions": (with_model("(" + "1," * 100 + ")"), "damaged on the way"),
    "a client that is an array": (lambda c: replied(c, client=np.zeros(2)), "from which client"),
    "a run that is an array": (lambda c: replied(c, run=np.zeros(2)), "'run' must be a text"),
    "a digest that is an array": (lambda c: replied(c, digest=np.zeros(2)), "'digest' must be"),
    "a round that is an array": (lambda c: replied(c, round=np.zeros(2)), "'round' must be"),
    "a check that is an array": (lambda c: replied(c, check=np.zeros(2)), "'check' must be"),
    "a reason that is an array": (lambda c: failed(reason=np.zeros(2)), "'reason' must be"),
    "a switch that is an array": (lambda c: failed(diverged=np.zeros(2)), "'diverged' must be"),
    "huge": (lambda c: replied(c, model=np.zeros(10**6)), "has 8,.* bytes, and at most 1,000,000"),
    "empty": (lambda c: RecordDict(), "neither a reply nor a failure"),
    "an error of Flower": (lambda c: Error(4, "no\nroom " + "x" * 5000), "node 7: no room x*…"),
    "an error of the site": (
        lambda c: answer_content(rs.engines.Failure(1, "lines\nand more " + "y" * 5000)), "lines and more y*…",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
def test_an_answer_that_is_none_is_refused_by_name_and_the_checkpoint_stands(
    homes: Path, tmp_path: Path, change: Callable[[RecordDict], Any], words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In round 2 site south answers something else, each time that it is asked; without the fault the run goes on to the same digest."""
    trains = 0

    def changed(node: int, content: RecordDict) -> RecordDict | Error | None:
        nonlocal trains
        trains += (
            node == 7 and "round" in get_record(content, "reply") and grid.sent[-1][1] == "train"
        )
        return change(content) if node == 7 and trains > 2 else content

    config = settings(tmp_path, method="fedrr", objective=False, largest=10**6)
    grid = LocalGrid(nodes_of(homes), config, changed)
    with pytest.raises(
        rs.ClientError, match=rf"round 2: .*client 1 \(south\): .*({words})"
    ) as caught:
        train(grid, RunSettings.of(config))
    assert caught.value.clients == [1]
    assert len(str(caught.value)) < LONGEST + 500
    calm = LocalGrid(nodes_of(homes), config)
    found = train(calm, RunSettings.of(config | {"resume": True}))
    assert found.digest == on_threads(homes, config).digest


PARTS: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "hello without anything": ("hello", None, "'version' is missing"),
    "samples of text": ("hello", {"samples": "many"}, "'samples' must be an integer from 1"),
    "samples below 0": ("hello", {"samples": -5}, "'samples' must be"),
    "no samples": ("hello", {"samples": 0}, "'samples' must be"),
    "labels that are no list": ("hello", {"classes": "[[["}, "'classes' must be a list"),
    "a load without anything": ("load", None, "'visits' is missing"),
    "visits of text": ("load", {"visits": "x"}, "'visits' must be an integer from 0"),
    "steps beyond all": ("load", {"steps": 1e308}, "'steps' must be a number from 0"),
    "constants below 0": ("load", {"L_max": -1.0}, "'L_max' must be a number of at least 0"),
    "a round without a value": ("train", None, "'value' is missing"),
    "a value of text": ("train", {"value": "abc"}, "'value' must be a number"),
    "a gradient of another shape": ("train", {"gradient": np.zeros(3)}, "'gradient' must be"),
    "columns of another length": ("columns", {"mean": np.zeros(3)}, "'mean' must be"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "parts", "words"), PARTS.values(), ids=PARTS)
def test_an_answer_without_the_parts_that_were_asked_for_is_refused_by_name(
    homes: Path, tmp_path: Path, kind: str, parts: dict[str, Any] | None, words: str
) -> None:
    def changed(node: int, content: RecordDict) -> RecordDict:
        if node != 7 or grid.sent[-1][1] != kind:
            return content
        head, more = get_record(content, "reply"), get_record(content, "more")
        del head["check"]
        found = RecordDict()
        add_record(found, "reply", head)
        add_record(found, "more", {} if parts is None else more | parts)
        return found

    config = settings(tmp_path, method="exact", tol=1e-9)
    grid = LocalGrid(nodes_of(homes), config, changed)
    with pytest.raises(rs.ClientError, match=rf"client 1 \(south\): its answer .*{words}"):
        train(grid, RunSettings.of(config))


def test_an_introduction_without_its_parts_is_refused(homes: Path) -> None:
    class Short(LocalGrid):
        def pull_messages(self, message_ids: Any) -> list[Any]:
            found = super().pull_messages(message_ids)
            for message in found:
                del message.content.config_records["who"]["first"]
            return found

    with pytest.raises(rs.InputError, match="introduction is refused: 'first' is missing"):
        Nodes(Short(nodes_of(homes), CONFIG), NAMES).find(0.0)


def test_a_fault_that_passes_changes_nothing(homes: Path, tmp_path: Path) -> None:
    """Asked again, the site answers: the same digest, and the refusals are counted."""
    seen: set[int] = set()

    def once(node: int, content: RecordDict) -> RecordDict | None:
        first = len(grid.sent) not in seen and grid.sent.count((node, "train")) % 2 == 1
        seen.add(len(grid.sent))
        return (
            replied(content, model=np.zeros(3))
            if first and node == 4 and grid.sent[-1][1] == "train"
            else content
        )

    config = settings(tmp_path, method="fedrr")
    grid = LocalGrid(nodes_of(homes), config, once)
    found = train(grid, RunSettings.of(config))
    assert found.trace["refused"][-1] == 4
    assert found.digest == on_threads(homes, config).digest


def test_nothing_is_averaged_without_the_option_for_it(homes: Path, tmp_path: Path) -> None:
    def silent(node: int, content: RecordDict) -> RecordDict | None:
        return None if node == 7 and grid.sent[-1][1] == "train" else content

    config = settings(tmp_path / "a", method="fedrr", round_timeout=0.3, objective=False)
    grid = LocalGrid(nodes_of(homes), config, silent)
    with pytest.raises(rs.ClientError, match=r"client 1 \(south\): no answer within 0\.3 s"):
        train(grid, RunSettings.of(config))
    config = settings(
        tmp_path / "b", method="fedrr", round_timeout=0.3, objective=False, on_missing="average",
        rounds=1, retries=0,
    )  # fmt: skip
    grid = LocalGrid(nodes_of(homes), config, silent)
    assert train(grid, RunSettings.of(config)).epoch == 1


def test_a_node_that_comes_back_as_another_process_is_asked_again(
    homes: Path, tmp_path: Path
) -> None:
    """Its reply was lost with the process: the round is not kept waiting for it."""
    lost: list[int] = []

    def restarts(node: int, content: RecordDict) -> RecordDict | None:
        if node == 7 and grid.sent[-1][1] == "train" and not lost:
            lost.append(node)
            grid.started[7] = "2026-01-02"
            return None
        return content

    config = settings(tmp_path, method="fedrr")
    grid = LocalGrid(nodes_of(homes), config, restarts)
    found = train(grid, RunSettings.of(config))
    assert lost == [7]
    assert found.trace["retries"][-1] == 1
    assert found.digest == on_threads(homes, config).digest


def test_a_node_that_is_connected_and_does_not_answer_is_named_in_the_log(
    homes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays connected, and its reply comes after a while."""
    late: dict[str, Any] = {}

    class SlowGrid(LocalGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            asked = list(message_ids)
            late["pulls"] = late.get("pulls", 0) + 1
            return [] if late.get("train") and late["pulls"] < 20 else super().pull_messages(asked)

    grid = SlowGrid(nodes_of(homes), CONFIG)
    nodes = Nodes(grid, NAMES, poll=0.001)
    nodes.find(5.0)
    session = Flower(nodes, remind=0.01).open([1, 1, 1], lambda group: None)  # type: ignore[arg-type,return-value]
    late.update(train=True, pulls=0)
    task = Task("run", 3, 0.1, np.zeros(30), "digest", (0, 1), kind="hello", more={"moments": 0})
    with caplog.at_level("WARNING", "reshuffle"):
        assert len(session.run_round(task, None)) == 2
    assert "round 3: no answer for 0 s from site north, whose node 4 is connected" in caplog.text
    assert "site south" in caplog.text
    assert "site east" not in caplog.text


def test_a_node_that_is_gone_is_named(homes: Path, tmp_path: Path) -> None:
    def leaves(node: int, content: RecordDict) -> RecordDict | None:
        if grid.sent[-1][1] == "train":
            grid.nodes.pop(9, None)
        return content

    config = settings(tmp_path, method="fedrr")
    grid = LocalGrid(nodes_of(homes), config, leaves)
    with pytest.raises(
        rs.ClientError, match=r"client 2 \(east\): no node that is connected .* 'east'"
    ):
        train(grid, RunSettings.of(config))


# --- small parts -----------------------------------------------------------------------------------


def test_arrays_come_back_as_they_were() -> None:
    content = RecordDict()
    record: dict[str, Any] = {
        "a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.eye(3)), "c": np.empty(0), "d": np.array(2.5),
        "e": np.array([True, False]), "f": 3, "g": 0.1, "h": "text",
    }  # fmt: skip
    add_record(content, "x", record)
    for name, value in get_record(content, "x").items():
        assert np.array_equal(value, record[name])
        assert type(value) is type(record[name])
    with pytest.raises(rs.InputError, match="must hold numbers, got <U1"):
        received("t", Array(np.array(["x"])))
    with pytest.raises(rs.InputError, match="must be of numpy"):
        received("t", replace(Array(np.zeros(1)), stype="pickle"))


def test_an_engine_for_other_clients_is_refused() -> None:
    grid = LocalGrid({}, {})
    with pytest.raises(rs.InputError, match="has the sites a, b, got 3 clients"):
        Flower(Nodes(grid, ("a", "b"))).open([1, 1, 1], lambda group: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(rs.InputError, match="different names"):
        Nodes(grid, ("a", "a"))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "fedavg"}, "method must be one of exact, fedrr"),
    "loss": ({"loss": "hinge"}, "loss must be one of 'logistic'"),
    "no values": ({"method": "newton", "objective": False}, "objective must be true"),
    "sites": ({"sites": " "}, "must name the sites"),
    "a site twice": ({"sites": "north, north"}, "sites must be different names"),
    "wait that is no number": ({"wait": float("nan")}, "wait must be seconds, at least 0, got nan"),
    "wait below 0": ({"wait": -5.0}, "wait must be seconds"),
    "timeout below 0": ({"round-timeout": -1.0}, "round-timeout must be seconds"),
    "acceleration": ({"acceleration": -7}, "acceleration must be at least 0, or -1"),
    "state": ({"method": "fedrr", "state": "here"}, "state must be one of server, clients"),
    "on-lost": ({"method": "fedrr", "on-lost": "weep"}, "on-lost must be one of raise, restart"),
    "on-missing": ({"on-missing": "weep"}, "on-missing must be one of raise, average"),
    "no folder": ({"out": " "}, "out must name a folder"),
    "target": ({"target": "y", "drop": "x, y"}, "drop names the target 'y'"),
    "kind": ({"rounds": 1.5}, "rounds must be a int, got 1.5"),
    "unknown": ({"round": 1}, "'round' is not known"),
    "penalty": ({"penalty": "Ridge(1)"}, "there is no Ridge; there are Box"),
    "no call": ({"penalty": "L1"}, "must be written like"),
    "code": ({"penalty": "L1(open('x'))"}, "with plain values"),
    "argument": ({"penalty": "L1(l7=1)"}, "cannot be made"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_run_configuration_is_refused_before_any_node_is_asked(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(rs.InputError, match=words):
        train(LocalGrid({}, {}), RunSettings.of({"out": str(tmp_path)} | config))
