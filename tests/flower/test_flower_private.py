"""Differential privacy over Flower: the ε of threads, and noise that a repeated question does not average away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')
pytest.importorskip(
    "dp_accounting", reason='the account is an extra: pip install "reshuffle[privacy]"'
)

from flower_grid import LocalGrid
from flwr.app import Error, RecordDict
from test_flower_engine import homes, nodes_of, on_threads, settings

import reshuffle as rs
from reshuffle.engines.flower.records import get_record
from reshuffle.flower.new import new_app
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings

pytestmark = pytest.mark.usefixtures("without_pictures")

__all__ = ["homes"]
CLIENTS: dict[str, Any] = {
    "method": "fedrr", "rounds": 3, "step": 0.01, "privacy": "client", "clip": 0.5, "epsilon": 4.0, "delta": 0.01,
    "noise-at": "sites",
}  # fmt: skip
LEVELS: dict[str, dict[str, Any]] = {
    "clients": CLIENTS,
    "clients, noise by the driver": CLIENTS | {"noise-at": "driver"},
    "clients, LocalSGD": CLIENTS | {"method": "local-sgd"},
    "samples": CLIENTS | {"privacy": "sample", "noise-at": "", "delta": 1e-4, "batch-size": 16},
}


def nodes_with_states(homes: Path, tmp_path: Path) -> dict[int, dict[str, Any]]:
    more = {"state": f"{tmp_path}/state-{{name}}", "audit": f"{tmp_path}/{{name}}.jsonl"}
    return nodes_of(homes, **more)


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_the_account_is_that_of_threads_and_goes_into_the_model(
    homes: Path, tmp_path: Path, level: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(tmp_path / "out", **level)
    grid = LocalGrid(nodes_with_states(homes, tmp_path), config)
    found = train(grid, RunSettings.of(config))
    assert found.privacy == on_threads(homes, config).privacy
    assert found.privacy is not None
    assert f"privacy: {found.privacy}" in caplog.text
    assert rs.estimators.load(tmp_path / "out" / "model.npz").privacy_ == found.privacy
    assert np.isnan(found.trace["objective"]).all()
    lines = [json.loads(line) for line in (tmp_path / "north.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"hello", "load", "train"}


@pytest.mark.parametrize("name", ["clients", "samples"])
def test_a_question_that_is_asked_again_gets_the_same_noise(
    homes: Path, tmp_path: Path, name: str
) -> None:
    """South's answers are lost, and its node is started again: the noise is that of the key in its folder."""
    config = settings(tmp_path / "out", **LEVELS[name], retries=2)
    nodes = nodes_with_states(homes, tmp_path)

    def answers(more: dict[str, Any]) -> list[bytes]:
        """South's models, of which two are lost."""
        models: list[bytes] = []

        def loses(node: int, content: RecordDict) -> RecordDict | Error:
            model = np.asarray(get_record(content, "reply")["model"])
            if node != 7 or not model.size:
                return content
            models.append(model.tobytes())
            grid.states.pop(7, None)
            return Error(4, "lost on the way") if len(models) < 3 else content

        grid = LocalGrid(nodes, config, loses)
        train(grid, RunSettings.of(config | more))
        return models

    models = answers({})
    assert models[0] == models[1] == models[2]
    assert len({*models}) == 3  # one for each round
    assert (tmp_path / "state-south" / "noise.key").stat().st_mode & 0o777 == 0o600
    assert answers({"force": True})[0] != models[0]  # another run has noise of its own


def test_a_key_that_is_none_is_said_by_name(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path / "out", **CLIENTS, retries=0)
    nodes = nodes_with_states(homes, tmp_path)
    (tmp_path / "state-south").mkdir()
    (tmp_path / "state-south" / "noise.key").write_bytes(b"short")
    with pytest.raises(rs.ClientError, match=r"client 1 \(south\): .*noise.key .* has 5 bytes"):
        train(LocalGrid(nodes, config), RunSettings.of(config))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"privacy": "row"}, 'must be "client" or "sample"'),
        ({"privacy": ""}, "clip is for differential privacy: give privacy as well"),
        ({"clip": 0.0}, "needs clip"),
        ({"epsilon": 0.0}, r"needs noise .* or epsilon"),
        ({"privacy": "sample"}, "has no noise_at"),
        ({"method": "exact"}, "privacy is for methods fedrr"),
        ({"standardise": True}, "standardise must be false with privacy"),
        ({"tol": 1e-6}, "tol must be 0 with privacy"),
        ({"step": 0.0}, "step must be given in numbers with privacy"),
        ({"penalty": ""}, "penalty must be given with privacy"),
        ({"on-missing": "average"}, 'on_missing must be "raise" with privacy'),
        ({"delta": 0.5}, "delta of ClientLevel must be smaller than 1/3"),
        ({"method": "exact", "privacy": "", "clip": 0.0, "epsilon": 0.0, "delta": 0.0, "noise-at": "",
          "batch-size": 2}, "batch-size is for methods"),
    ],
)  # fmt: skip
def test_settings_that_would_tell_of_the_data_are_refused(
    homes: Path, tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    """Before anything is asked of a site, but for what depends on how many there are."""
    config = settings(tmp_path / "out", **(CLIENTS | more))
    grid = LocalGrid(nodes_with_states(homes, tmp_path), config)
    with pytest.raises(rs.InputError, match=words):
        train(grid, RunSettings.of(config))
    assert not grid.sent or "delta" in more


def test_an_app_takes_privacy_over_from_a_file_of_sites(homes: Path, tmp_path: Path) -> None:
    import tomllib

    text = 'l2 = 0.01\n[privacy]\nunit = "client"\nclip = 0.5\nepsilon = 4.0\ndelta = 0.01\nnoise-at = "sites"\n'
    text += "".join(f'[[site]]\ndata = "{homes}/{name}.npz"\n' for name in ("north", "south"))
    (tmp_path / "sites.toml").write_text(text)
    new_app(tmp_path / "app", str(tmp_path / "sites.toml"))
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    found = RunSettings.of(project["tool"]["flwr"]["app"]["config"])
    assert found.made_level() == rs.privacy.ClientLevel(
        clip=0.5, epsilon=4.0, delta=0.01, noise_at="sites"
    )
