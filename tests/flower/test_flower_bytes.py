"""Fewer bytes over Flower's messages: the bits of threads, for every method and in both directions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from flower_grid import LocalGrid
from test_flower_engine import homes, nodes_of, on_threads, settings

from reshuffle.engines import Task, digest
from reshuffle.engines.flower.messages import task_content, task_of
from reshuffle.engines.flower.records import size_of
from reshuffle.engines.number_bytes import rounded
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings

pytestmark = pytest.mark.usefixtures("without_pictures")

__all__ = ["homes"]
METHODS: dict[str, dict[str, Any]] = {
    "FedRR": {"method": "fedrr", "intercept": True},
    "LocalSGD": {"method": "local-sgd"},
    "ExactFedRR": {"method": "exact", "state": "clients"},
    "FedNewton": {"method": "newton", "intercept": True},
}


@pytest.mark.parametrize("name", METHODS)
def test_the_model_is_that_of_threads(homes: Path, tmp_path: Path, name: str) -> None:
    fewer = {"transport": "bfloat16", "downlink": "rounded", "rounds": 5}
    config = settings(tmp_path / "out", **fewer, **METHODS[name])
    grid: Any = LocalGrid(nodes_of(homes, state=f"{tmp_path}/state-{{name}}"), config)
    found = train(grid, RunSettings.of(config))
    assert found.digest == on_threads(homes, config).digest
    plain = on_threads(homes, settings(tmp_path / "plain", rounds=5, **METHODS[name])).trace
    for column in ("bytes_up", "bytes_down"):
        assert found.trace[column][-1] < plain[column][-1]


def test_x_travels_in_the_bytes_of_its_numbers() -> None:
    x = rounded(np.random.default_rng(0).normal(size=(500, 2)), 3)
    whole = Task("run", 1, 0.5, x, digest(x), (3,))
    sizes = []
    for width in (8, 3):
        content = task_content(replace(whole, width=width), 3)
        assert task_of(content).x.tobytes() == x.tobytes()
        sizes.append(size_of(content))
    assert sizes[0] - sizes[1] == 5 * x.size
