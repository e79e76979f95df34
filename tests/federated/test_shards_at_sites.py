"""A folder of shards as the data of a site: in Python, in sites.toml, and by FedNewton in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.errors import ClientError, InputError

Site, Sites = rs.federated.Site, rs.federated.Sites
PENALTY = rs.penalties.ElasticNet(l1=4e-3, l2=6e-3)
FEW = 20_000
"""Bytes of rows in memory: those of each site take 68,000."""


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    X, y = rs.datasets.breast_cancer()
    places = []
    for name, rows in (("north", slice(0, 285)), ("south", slice(285, None))):
        np.savez(tmp_path / f"{name}.npz", X=X[rows], y=y[rows])
        convert(tmp_path / f"{name}.npz", tmp_path / name, Conversion(shard_rows=32))
        places.append(tmp_path / name)
    return places


def test_a_folder_at_a_site_is_its_rows(homes: list[Path]) -> None:
    X, y = rs.datasets.breast_cancer()
    best = rs.ExactProxRR(tol=1e-11).solve(rs.Problem(X, y, penalty=PENALTY))
    sites = Sites([Site(place, name=place.name) for place in homes], penalty=PENALTY)
    arrays = Sites([(X[:285], y[:285]), (X[285:], y[285:])], penalty=PENALTY)
    for solver in (rs.FedNewton(tol=1e-9), rs.ExactFedRR(rounds=200, tol=1e-7)):
        found = solver.solve(sites)
        assert found.converged
        assert found.digest == solver.solve(arrays).digest
        np.testing.assert_allclose(found.x, best.x, atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
def test_methods_over_rows_that_stay_on_disk(homes: list[Path], intercept: bool) -> None:
    X, y = rs.datasets.breast_cancer()
    best = rs.ExactProxRR(tol=1e-11).solve(
        rs.Problem(X, y, penalty=PENALTY, fit_intercept=intercept)
    )
    sites = Sites(
        [partial(open_shards, place, memory=FEW) for place in homes],
        penalty=PENALTY, fit_intercept=intercept,
    )  # fmt: skip
    newton = rs.FedNewton(tol=1e-9).solve(sites)
    exact = rs.ExactFedRR(rounds=300, tol=1e-6, scales=None).solve(sites)
    assert newton.converged
    assert exact.converged
    np.testing.assert_allclose(newton.x, best.x, atol=1e-4)
    unit = float(best.trace["objective"][0])
    assert exact.trace.last()["objective"] - best.trace.last()["objective"] <= 1e-6 * unit


def test_classes_over_rows_that_stay_on_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = np.argmax(X[:, :3] + rng.normal(size=(300, 3)), axis=1)
    places = []
    for name, rows in (("a", slice(0, 150)), ("b", slice(150, None))):
        np.savez(tmp_path / f"{name}.npz", X=X[rows], y=y[rows].astype(float))
        convert(tmp_path / f"{name}.npz", tmp_path / name, Conversion(shard_rows=32))
        places.append(tmp_path / name)
    penalty = rs.penalties.L2(0.01)
    best = rs.ExactProxRR(tol=1e-11).solve(rs.Problem(X, y, rs.losses.Multinomial(), penalty))
    sites = Sites(
        [partial(open_shards, place, memory=3_000) for place in places],
        rs.losses.Multinomial(), penalty,
    )  # fmt: skip
    found = rs.FedNewton(tol=1e-8).solve(sites)
    assert found.converged
    np.testing.assert_allclose(found.x, best.x, atol=1e-3)


@pytest.mark.usefixtures("without_pictures")
def test_the_command_takes_folders(homes: list[Path], tmp_path: Path) -> None:
    sites = "\n".join(f'[[site]]\ndata = "{place.name}"' for place in homes)
    (tmp_path / "sites.toml").write_text(f"l1 = 0.004\nl2 = 0.006\n{sites}\n")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        main,
        ["federate", str(tmp_path / "sites.toml"), "--tol", "1e-7", "--rounds", "200", "--json",
         "--no-progress", "--out", str(out)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["converged"] is True
    X, y = rs.datasets.breast_cancer()
    best = rs.ExactProxRR(tol=1e-10).solve(rs.Problem(X, y, penalty=PENALTY))
    found = rs.Result.load(out / "result.npz")
    np.testing.assert_allclose(found.x, best.x, atol=1e-2)
    standardised = (tmp_path / "sites.toml").read_text()
    (tmp_path / "sites.toml").write_text("standardise = true\n" + standardised)
    done = CliRunner().invoke(
        main,
        ["federate", str(tmp_path / "sites.toml"), "--no-progress", "--out", str(out), "--force"],
    )
    assert done.exit_code != 0
    assert "rows on disk are not standardised" in done.output


@pytest.mark.parametrize("how", ["cut", "removed", "changed"])
def test_a_shard_that_changes_at_a_site_ends_the_run(homes: list[Path], how: str) -> None:
    victim = homes[1] / "00004.values.npy"

    def spoil(task: Any, answer: Any, reason: str) -> None:
        if task.kind != "train" or task.round != 1 or not victim.exists():
            return
        if how == "cut":
            os.truncate(victim, 100)
        elif how == "removed":
            victim.unlink()
        else:  # the same bytes for the reply of each site: two flips would undo each other
            victim.write_bytes(content[:-2] + bytes([content[-2] ^ 3]) + content[-1:])

    content = victim.read_bytes()
    sources: list[Any] = [Site(homes[0]), Site(homes[1], name="south")]
    for data in (homes[1], lambda: open_shards(homes[1], memory=FEW)):
        sources[1] = Site(data, name="south")
        sites = Sites(sources, penalty=PENALTY, watch=spoil)
        with pytest.raises(ClientError, match=r"south\): .*00004.values.npy"):
            rs.FedNewton(tol=1e-13, engine=rs.engines.Threads(1)).solve(sites)
        victim.write_bytes(content)


def test_a_damaged_shard_at_a_site_is_named_before_the_first_round(homes: list[Path]) -> None:
    victim = homes[0] / "00002.values.npy"
    content = bytearray(victim.read_bytes())
    content[-2] ^= 3
    victim.write_bytes(content)
    with pytest.raises(ClientError, match=r"00002.values.npy is damaged"):
        rs.FedNewton().solve(Sites([Site(homes[0]), Site(homes[1])], penalty=PENALTY))


def test_a_folder_that_is_being_written_is_refused(homes: list[Path]) -> None:
    about = json.loads((homes[0] / "manifest.json").read_text())
    (homes[0] / "manifest.json").write_text(json.dumps(about | {"complete": False}))
    with pytest.raises((ClientError, InputError), match="unfinished conversion"):
        rs.FedNewton().solve(Sites([Site(homes[0]), Site(homes[1])], penalty=PENALTY))


MEASURED = """
import sys
import numpy as np
import reshuffle as rs
from pathlib import Path
from reshuffle.shards import Block, Manifest, ShardWriter
rows, place = int(sys.argv[1]), Path(sys.argv[2])
place.mkdir()
writer = ShardWriter(place, Manifest("csr", "float64", 100, 4096))
for k in range(0, rows, 4096):
    rng = np.random.default_rng(k)
    n = min(4096, rows - k)
    indices = rng.integers(0, 5, (n, 20)) + 5 * np.arange(20)
    values = rng.normal(size=(n, 20))
    y = np.where(values[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    writer.append(Block(values.ravel(), indices.ravel(), np.arange(n + 1) * 20, y))
writer.finish()
divided = rs.federated.DividedFolder(place, penalty=rs.penalties.L2(1e-3), clients=2, memory=2_000_000)
found = rs.FedNewton(tol=1e-6, engine=rs.engines.Threads(1)).solve(divided)
assert found.converged, found.message
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is read from /proc")
def test_the_memory_of_newton_over_shards_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Eight times the rows take 54 MB more on disk; in memory, a few numbers for each."""
    peaks = []
    for rows in (32_768, 262_144):
        command = [sys.executable, "-c", MEASURED, str(rows), str(tmp_path / str(rows))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-1500:]
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 25, peaks
