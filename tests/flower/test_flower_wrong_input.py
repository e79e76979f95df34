"""Node configurations, run configurations and tables that are wrong: each is refused by name, and nothing else is raised."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from flower_grid import LocalGrid
from flwr.app import RecordDict
from test_flower_engine import homes, nodes_of, settings

import reshuffle as rs
from reshuffle.flower.client import _introduced
from reshuffle.flower.home import site_of
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings

__all__ = ["homes"]

NODES: dict[str, tuple[dict[str, Any], str]] = {
    "data: a number": ({"data": 5}, "there is no file or folder 5"),
    "data: a folder of something else": ({"data": "{home}/other"}, "a folder without X.npy"),
    "data: an empty file": ({"data": "{home}/empty.csv"}, "is empty"),
    "data: names alone": ({"data": "{home}/names.csv"}, "and no rows"),
    "data: no archive": ({"data": "{home}/no.npz"}, "is not a file of arrays"),
    "data: a pipe": ({"data": "{home}/pipe"}, "there is no file or folder …/pipe"),
    "data: a null character": ({"data": "a\0b"}, "data of the node configuration is no path"),
    "data: a long name": ({"data": "x" * 5000}, "data of the node configuration is no path"),
    "data: an address": ({"data": "http://x/y.npz"}, "there is no file or folder"),
    "test: no file": ({"test": "/nowhere.npz"}, "there is no file or folder /nowhere.npz"),
    "test: a folder of something else": ({"test": "{home}/other"}, "a folder without X.npy"),
    "audit: a folder": ({"audit": "{home}/other"}, "audit file …/other cannot be written"),
    "audit: a null character": ({"audit": "a\0b"}, "audit of the node configuration is no path"),
    "state: a file": ({"state": "{home}/empty.csv"}, "state of the node configuration must be"),
    "state: a null character": ({"state": "a\0b"}, "state of the node configuration is no path"),
    "drop: no list": ({"drop": "["}, "drop is not a list in JSON"),
    "drop: a deep list": ({"drop": "[" * 50_000}, "drop is not a list in JSON"),
    "drop: of a matrix": ({"drop": "age"}, "drop, .* are for tables"),
    "another case": ({"Data": "x.npz"}, "'Data' is not known"),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), NODES.values(), ids=NODES)
def test_a_node_configuration_that_is_wrong_is_said_by_name_without_its_folder(
    homes: Path, tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    home = tmp_path / "Smith, Jo: it's" / "deep"
    (home / "other").mkdir(parents=True)
    (home / "empty.csv").touch()
    (home / "names.csv").write_text("a,b\n")
    (home / "no.npz").write_bytes(b"PK\x03\x04xx")
    os.mkfifo(home / "pipe")
    config, nodes = settings(tmp_path / "out", state="clients"), nodes_of(homes)
    nodes[7] |= {k: v.format(home=home) if isinstance(v, str) else v for k, v in wrong.items()}
    with pytest.raises(rs.ClientError, match=rf"client 1 \(south\): .*{words}") as caught:
        train(LocalGrid(nodes, config), RunSettings.of(config))
    told = str(caught.value)
    assert "Smith" not in told
    assert "deep" not in told
    assert len(told) < 1000
    assert "client 0" not in told


def test_the_home_of_a_user_is_found_in_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves ~ as it is inside the quotation marks of a node configuration."""
    monkeypatch.setenv("HOME", "/home/me")
    keys = ("data", "test", "audit", "state", "keys")
    site = site_of({"site": "north"} | {key: f"~/{key}" for key in keys}, RunSettings())
    assert site.paths == tuple(f"/home/me/{key}" for key in keys)


def test_a_setting_that_the_version_of_a_site_does_not_know_is_said_by_that_site(
    homes: Path, tmp_path: Path
) -> None:
    """A newer server has a key that is unknown here. The node still says which site it is."""
    config = settings(tmp_path)
    newer = config | {"of-next-year": 1}
    assert _introduced({"site": "south"}, newer)["site"] == "south"
    with pytest.raises(rs.ClientError, match=r"client 1 \(south\): .*'of-next-year' is not known"):
        train(LocalGrid(nodes_of(homes), newer), RunSettings.of(config))


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, -1.0, float("nan"), float("inf"), -1e-300, "", " ", "x", "[", "[" * 50_000, '["a", 1]',
    "\0", "é\n", "L1(", "L1(1e400)", "L1(-1)", "L1('a')", "L1(l7=1)", "TopK(0)", "TopK()", "tweedie(0.5)", "1" * 5000,
    "tweedie(" * 1000, b"x", [1],
)  # fmt: skip


@pytest.mark.parametrize("name", [f.name for f in fields(RunSettings) if f.name != "wait"])
def test_whatever_a_setting_is_no_other_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No node is connected, so that a value that may be right ends in sites that are missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("reshuffle"), "disabled", True)
    for value in VALUES:
        config = {"out": "result", "wait": 0.0} | {name.replace("_", "-"): value}
        with pytest.raises((rs.InputError, rs.errors.FileError)) as caught:
            train(LocalGrid({}, {}), RunSettings.of(config))
        assert len(str(caught.value)) < 1500 or name == "sites", value


EARLY: dict[str, tuple[dict[str, Any], str]] = {
    "a ridge below 0": ({"ridge": -1.0}, "ridge must be finite and not negative, got -1.0"),
    "a ridge that is no number": ({"ridge": float("nan")}, "ridge must be finite"),
    "power-rounds": ({"power-rounds": -1}, "power-rounds must be at least 0, got -1"),
    "a threshold of nothing": ({"threshold": 2}, "threshold is for secure sums"),
}


@pytest.mark.parametrize(("config", "words"), EARLY.values(), ids=EARLY)
def test_what_the_sites_would_refuse_is_refused_before_they_are_waited_for(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(rs.InputError, match=words):
        RunSettings.of({"out": str(tmp_path)} | config)


def another(folder: Path) -> None:
    np.save(folder / "X.npy", np.load(folder / "X.npy") * 2)


def in_place(folder: Path) -> None:
    """One number, and the time of the file as before."""
    path = folder / "X.npy"
    before = path.stat()
    X = np.load(path, mmap_mode="r+")
    X[0, 0] += 1.0
    X.flush()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def shorter(folder: Path) -> None:
    path = folder / "X.npy"
    path.write_bytes(path.read_bytes()[:-1000])


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (another, "its data changed during the run"),
        (in_place, "its data changed during the run"),
        (shorter, "cannot be read"),
        (gone, "there is no file or folder"),
    ],
)
def test_a_mapped_table_that_changes_between_rounds_is_refused(
    homes: Path, tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    folder = tmp_path / "south"
    folder.mkdir()
    with np.load(homes / "south.npz") as held:
        for part in ("X", "y"):
            np.save(folder / f"{part}.npy", held[part])

    def changed(node: int, content: RecordDict) -> RecordDict:
        if node == 7 and grid.sent.count((7, "train")) == 2 and grid.sent[-1] == (7, "train"):
            change(folder)
        return content

    config, nodes = settings(tmp_path / "out"), nodes_of(homes)
    nodes[7]["data"] = str(folder)
    grid = LocalGrid(nodes, config, changed)
    with pytest.raises(rs.ClientError, match=rf"round 2: .*client 1 \(south\): .*{words}"):
        train(grid, RunSettings.of(config))
    assert (tmp_path / "out" / "checkpoint.npz").exists()


def test_other_permissions_of_a_mapped_table_change_nothing(homes: Path, tmp_path: Path) -> None:
    """Also on threads, where the table stays open: the system's time of the file changes, and its content does not."""
    folder = tmp_path / "north"
    folder.mkdir()
    with np.load(homes / "north.npz") as held:
        for part in ("X", "y"):
            np.save(folder / f"{part}.npy", held[part])

    def touched(result: rs.Result) -> None:
        (folder / "X.npy").chmod(0o600 if result.epoch % 2 else 0o644)

    problem = rs.federated.Sites([rs.federated.Site(folder, "north")], penalty=rs.penalties.L2(0.1))
    calm = rs.ExactFedRR(rounds=3, tol=0.0, seed=0).solve(problem)
    found = rs.ExactFedRR(rounds=3, tol=0.0, seed=0).solve(problem, callbacks=[touched])
    assert found.digest == calm.digest
