"""Clipped passes over rows on disk: the steps of memory, whatever the windows, and noise once for each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.arrays import Noise
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.privacy import ClientLevel, SampleLevel, epsilon_of_releases

pytest.importorskip("dp_accounting")
MEMORY = 20_000
"""Bytes of rows in memory: a window of about 80 of 569 rows."""
COMMON: dict[str, Any] = {"penalty": rs.penalties.L1(1e-3), "ridge": 1e-3, "fit_intercept": True}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X, y = rs.datasets.breast_cancer()
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    convert(tmp_path / "rows.npz", tmp_path / "rows", Conversion(shard_rows=16))
    return tmp_path / "rows"


def rows_of(seed: int) -> Noise:
    rng = np.random.default_rng(seed)
    return lambda count: rng.standard_normal((count, 31))


@pytest.mark.parametrize("ends", [[569], [1, 1, 200, 200, 569], [*range(50, 569, 50), 569]])
@pytest.mark.parametrize("prox_step", [0.0, 0.1])
def test_the_steps_are_those_of_memory(folder: Path, ends: list[int], prox_step: float) -> None:
    """Batches that span windows, end with one, are empty, or hold all rows; each row of noise is used once."""
    stored, y = open_shards(folder, memory=MEMORY)
    disk, memory = rs.Problem(stored, y, **COMMON), rs.Problem(open_shards(folder)[0], y, **COMMON)
    visits = np.arange(569, dtype=np.uint32)
    found = []
    for problem in (disk, memory):
        x, drawn = np.full(31, 0.1), rows_of(5)
        problem.clipped_sweep(
            x, visits, np.array(ends), 0.5, average=0.02, clip=0.7, share=50.0, prox_step=prox_step,
            noise=drawn,
        )  # fmt: skip
        found.append((x, float(drawn(1)[0, 0])))
    assert disk.datafit.on_disk
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    assert found[0][1] == found[1][1]


def test_a_private_run_on_disk_reads_each_epoch_once(folder: Path) -> None:
    stored, y = open_shards(folder, memory=MEMORY)
    problem = rs.Problem(stored, y, **COMMON)
    level = SampleLevel(clip=1.0, noise=4.0, delta=1e-4)
    order = rs.orders.Windows()
    result = rs.ProxRR(step=0.5, epochs=3, batch_size=60, order=order, privacy=level).solve(problem)
    assert result.privacy is not None
    assert result.privacy.epsilon == epsilon_of_releases(4.0, 3, 1e-4)
    assert result.trace["disk_passes"][-1] <= 4.0  # one more for the start
    silent = SampleLevel(clip=1e6, noise=1e-20, delta=1e-4)
    common: dict[str, Any] = {"step": 0.5, "epochs": 2, "batch_size": 1, "order": order}
    plain = rs.ProxRR(**common).solve(problem)
    np.testing.assert_allclose(
        rs.ProxRR(privacy=silent, **common).solve(problem).x, plain.x, rtol=1e-7
    )


@pytest.mark.parametrize(
    "level",
    [
        ClientLevel(clip=1.0, noise=2.0, delta=1e-2, noise_at="sites"),
        SampleLevel(clip=1.0, noise=2.0, delta=1e-4),
    ],
)
def test_sites_with_rows_on_disk(folder: Path, level: Any) -> None:
    sites = rs.federated.Sites(
        [rs.federated.Site(folder, name="a"), rs.federated.Site(folder, name="b")],
        penalty=rs.penalties.L2(0.01),
    )
    result = rs.FedRR(step=0.01, rounds=2, batch_size=30, privacy=level).solve(sites)
    assert result.privacy is not None
    assert result.privacy.releases == 2
