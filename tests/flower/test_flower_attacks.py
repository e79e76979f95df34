"""Names, paths, settings and disks that a careless or a hostile user could bring, on a grid in this process."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from flower_grid import LocalGrid
from flwr.common.config import parse_config_args
from test_flower_engine import CONFIG, NAMES, homes, nodes_of, on_threads, settings

import reshuffle as rs
from reshuffle.engines.flower import Nodes
from reshuffle.flower.home import site_of
from reshuffle.flower.new import new_app
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings
from reshuffle.flower.written import text_of

__all__ = ["homes"]

ODD = {
    "spaces and umlauts": ("Klinik Süd, Haus 3", "東京 病院", "a b"),
    "dots": ("..", "../../up", "."),
    "like numbers and words": ("0", "true", "None"),
    "almost the same": ("a b", "a-b", "a_b"),
    "marks": ('say "hi"', "it's", "back\\slash"),
    "long": ("x" * 300, "x" * 299 + "y", "é" * 200),
    "lines and escapes": ("two\nlines", "\x1b[31mred", "tab\there"),
}


@pytest.mark.parametrize("names", ODD.values(), ids=ODD)
def test_odd_names_of_sites_work_and_keep_their_states_apart(
    homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The states are in folders that are made of the names, below Flower's own, and nowhere else."""
    home = tmp_path / "one" / "two" / "home"
    monkeypatch.setenv("FLWR_HOME", str(home))
    config = settings(tmp_path / "out", sites=text_of(names), state="clients", rounds=2)
    nodes = {
        number: {"site": name, "data": str(homes / f"{plain}.npz")}
        for number, (name, plain) in enumerate(zip(names, NAMES, strict=True), 3)
    }
    found = train(LocalGrid(nodes, config), RunSettings.of(config))
    assert found.digest == on_threads(homes, config).digest
    assert sorted(path.name for path in (tmp_path / "one" / "two").iterdir()) == ["home"]
    folders = list((home / "reshuffle").iterdir())
    assert len(folders) == 3
    assert all(len(list(folder.iterdir())) == 1 for folder in folders)


def test_an_app_of_odd_names_is_one_that_flower_reads(tmp_path: Path) -> None:
    """The configuration of the app has them, and those of nodes are what a shell would hand on."""
    names = ODD["spaces and umlauts"]
    folder = tmp_path / "mein Ordner, zwei"
    new_app(folder, names=text_of(names))
    config = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    chosen = RunSettings.of(config)
    assert chosen.names == names
    assert chosen.folder == folder.resolve() / "result"
    said = parse_config_args([f'site="{names[0]}" data="/Daten Süd/tabelle 1.csv" target="a b"'])
    site = site_of(said, chosen)
    assert (site.name, str(site.data), site.target) == (names[0], "/Daten Süd/tabelle 1.csv", "a b")


@pytest.mark.usefixtures("without_pictures")
def test_paths_with_spaces_and_umlauts(homes: Path, tmp_path: Path) -> None:
    place = tmp_path / "Daten Süd, '24\""
    shutil.copytree(homes, place)
    config = settings(tmp_path / "Ergebnis ü", state="clients", rounds=2)
    nodes = nodes_of(place, state=f"{place}/Zustand {{name}}", audit=f"{place}/{{name}} mit.jsonl")
    found = train(LocalGrid(nodes, config), RunSettings.of(config))
    assert found.digest == on_threads(homes, config).digest
    assert (tmp_path / "Ergebnis ü" / "model.npz").exists()
    assert len((place / "north mit.jsonl").read_text().splitlines()) >= 6


OTHER = {
    "seed": {"seed": 1}, "loss": {"loss": "huber"}, "penalty": {"penalty": "L2(0.5)"},
    "method": {"method": "local-sgd"}, "intercept": {"intercept": True}, "step": {"step": 0.01},
    "order of sites": {"sites": "south, north, east"}, "fewer sites": {"sites": "north, south"},
}  # fmt: skip


@pytest.fixture(scope="module")
def begun(homes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run of two rounds, and the digest after four."""
    out = tmp_path_factory.mktemp("begun")
    config = settings(out, method="fedrr", rounds=2)
    train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))
    return out, on_threads(homes, config | {"rounds": 4}).digest


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("more", OTHER.values(), ids=OTHER)
def test_a_run_is_not_resumed_with_other_settings(
    homes: Path, begun: tuple[Path, str], tmp_path: Path, more: dict[str, Any]
) -> None:
    """The checkpoint stays as it was, and goes on with the settings that it was made with."""
    shutil.copytree(begun[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "checkpoint.npz").read_bytes()
    longer = settings(tmp_path, method="fedrr", rounds=4)
    changed = longer | more
    with pytest.raises(rs.InputError, match="resume"):
        train(LocalGrid(nodes_of(homes), changed), RunSettings.of(changed | {"resume": True}))
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    found = train(LocalGrid(nodes_of(homes), longer), RunSettings.of(longer | {"resume": True}))
    assert found.digest == begun[1]


@pytest.mark.usefixtures("without_pictures")
def test_a_node_that_opens_the_data_of_another_is_told_of_and_not_resumed_with(
    homes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(tmp_path / "out", method="fedrr", rounds=2)
    nodes = nodes_of(homes)
    train(LocalGrid(nodes, config), RunSettings.of(config))
    nodes[7] = nodes[7] | {"data": nodes[4]["data"]}
    longer = config | {"rounds": 4}
    with pytest.raises(rs.InputError, match=r"resume: .*clients"):
        train(LocalGrid(nodes, longer), RunSettings.of(longer | {"resume": True}))
    assert "client 1 (south) has the same data as client 0 (north)" in caplog.text
    nodes = nodes_of(homes)
    nodes[7]["data"], nodes[4]["data"] = nodes[4]["data"], nodes[7]["data"]
    with pytest.raises(rs.InputError, match=r"resume: .*clients"):
        train(LocalGrid(nodes, longer), RunSettings.of(longer | {"resume": True}))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("nothing can be mounted here: a disk of a few pages needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def filled(place: Path) -> Path:
    """The file that takes all that was left of a disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


@pytest.mark.usefixtures("without_pictures")
def test_a_full_disk_is_said_and_the_checkpoint_before_it_stands(homes: Path, disk: Path) -> None:
    config = settings(disk, method="fedrr", rounds=2)
    train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))
    before = (disk / "checkpoint.npz").read_bytes()
    filler = filled(disk)
    more = config | {"rounds": 4}
    with pytest.raises(rs.errors.FileError, match=r"checkpoint.npz.*No space left on device"):
        train(LocalGrid(nodes_of(homes), more), RunSettings.of(more | {"resume": True}))
    assert (disk / "checkpoint.npz").read_bytes() == before
    filler.unlink()
    found = train(LocalGrid(nodes_of(homes), more), RunSettings.of(more | {"resume": True}))
    assert found.digest == on_threads(homes, more).digest


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("what", ["state", "audit"])
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_disk_of_a_site_that_cannot_be_written_to_is_said_by_name(
    homes: Path, tmp_path: Path, disk: Path, what: str, how: str
) -> None:
    """Nothing leaves the site that it cannot write down; where its folder lies, nobody is told. Then the run goes on."""
    config = settings(tmp_path / "out", state="clients", rounds=2)
    nodes = nodes_of(homes, state=f"{tmp_path}/state-{{name}}")
    nodes[7][what] = str(disk / "south")
    train(LocalGrid(nodes, config), RunSettings.of(config))
    before = (tmp_path / "out" / "checkpoint.npz").read_bytes()
    if how == "full":
        filler = filled(disk)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    more = config | {"rounds": 4}
    why = (
        "No space left on device" if how == "full" else "(Read-only file system|cannot be written)"
    )
    with pytest.raises(rs.ClientError, match=rf"client 1 \(south\): .*{why}") as caught:
        train(LocalGrid(nodes, more), RunSettings.of(more | {"resume": True}))
    assert str(disk) not in str(caught.value)
    assert "client 0" not in str(caught.value)
    assert (tmp_path / "out" / "checkpoint.npz").read_bytes() == before
    if how == "full":
        filler.unlink()
    else:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    found = train(LocalGrid(nodes, more), RunSettings.of(more | {"resume": True}))
    assert found.digest == on_threads(homes, more).digest


def test_a_clock_that_was_set_back_changes_no_node(homes: Path) -> None:
    """A node that was started again before its clock was set right is taken back with its key."""
    grid = LocalGrid(nodes_of(homes), CONFIG)
    grid.names = {4: "north", 7: "south", 9: "east"}
    grid.started = {4: "2026-01-02", 7: "2026-01-02", 9: "2026-01-02"}
    nodes = Nodes(grid, NAMES)
    nodes.find(1.0)
    grid.started[4] = "1970-01-01"
    nodes.look()
    north = nodes.at("north")
    assert north is not None
    assert north.started == "1970-01-01"


def test_names_are_not_mixed_up_with_those_of_other_nodes(homes: Path, tmp_path: Path) -> None:
    """Names that look alike are different sites; one that differs by a space is not taken."""
    config = settings(tmp_path, wait=0.3)
    nodes = nodes_of(homes)
    nodes[7]["site"] = "south "
    with pytest.raises(
        rs.InputError, match=r"within 0\.3 s: south; sites that are there: 'south ', east, north;"
    ):
        train(LocalGrid(nodes, config), RunSettings.of(config))


def test_the_name_that_a_node_gives_itself_writes_no_line_of_its_own_into_the_log(
    homes: Path, tmp_path: Path
) -> None:
    config = settings(tmp_path, wait=0.3)
    nodes = nodes_of(homes)
    nodes[7]["site"] = "west\nround 1 done\x1b[2J"
    with pytest.raises(
        rs.InputError, match=r"there: 'west\\nround 1 done\\x1b\[2J', east"
    ) as caught:
        train(LocalGrid(nodes, config), RunSettings.of(config))
    assert str(caught.value).isprintable()
