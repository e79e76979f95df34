"""The federated recipe: its files, its claim, its engines."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.experiments import Settings, figure2
from reshuffle.run_cache import RunCache


def reproduce(folder: Path, *options: str) -> Any:
    common = ["reproduce", "figure2", "--quick", "--no-progress", "--out", str(folder)]
    return CliRunner().invoke(main, [*common, *options])


def test_figure_2_on_mushrooms(mushrooms: Any, tmp_path: Path) -> None:
    done = reproduce(tmp_path)
    assert done.exit_code == 0, done.output
    assert done.output.count("holds: ") == 2
    assert "NOT REPRODUCED: It also needs fewer rounds." in done.output
    assert "γH = 1/L_max" in (tmp_path / "figure2.html").read_text()
    assert "9 computed, 0 reused" in done.output
    assert (tmp_path / "figure2.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "figure2.pdf").read_bytes()[:4] == b"%PDF"
    assert "FedRR" in (tmp_path / "figure2.html").read_text()
    with open(tmp_path / "figure2.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (3 * 41 + 201)
    last = {r["method"]: r for r in rows if r["round"] == "40.0" and r["seed"] == "1"}
    model = 112 * 8 * 10 * 40  # bytes of 10 clients' models in 40 rounds
    assert float(last["FedRR"]["bytes_up"]) == float(last["FedRR"]["bytes_down"]) == model
    assert float(last["ExactFedRR"]["bytes_down"]) == 2 * model
    again = reproduce(tmp_path)
    assert "0 computed, 9 reused" in again.output


@pytest.mark.usefixtures("without_pictures")
def test_a_claim_that_fails_is_loud(mushrooms: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """FedRR with a step a thousand times too small is no longer ahead."""
    honest = figure2.methods

    def slow(*arguments: Any, **named: Any) -> Any:
        return honest(*arguments, **named) | {
            figure2.OURS: rs.FedRR(rounds=arguments[0], step=1e-5)
        }

    monkeypatch.setattr(figure2, "methods", slow)
    done = reproduce(tmp_path, "--seeds", "1")
    assert done.exit_code == 1
    assert "DOES NOT HOLD" in done.output
    assert "a claim does not hold" in done.output


def test_ray_gives_the_figure_of_threads(mushrooms: Any, cluster: Any, tmp_path: Path) -> None:
    X, y = mushrooms
    store = RunCache(tmp_path)
    at = figure2.task(X, y, store)
    results = [
        figure2.methods(3, 0, 50, engine)[figure2.OURS].solve(at.federation)
        for engine in ("threads", "ray")
    ]
    assert results[0].digest == results[1].digest
    assert np.isfinite(at.minimum)
    assert Settings(tmp_path, engine="ray").engine == "ray"
