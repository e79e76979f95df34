"""Differential privacy in the command: ``fit``, ``federate``, sites.toml; what is refused, and what the files carry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import runner, write_people

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.privacy import epsilon_of_releases, level_of

pytest.importorskip("dp_accounting")
LEVEL = ["--clip", "1", "--noise", "2", "--delta", "1e-4"]


def said(*words: Any) -> tuple[int, str]:
    found = runner().invoke(main, [*map(str, words)])
    return found.exit_code, found.output + (found.stderr if found.stderr_bytes else "")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 3))
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=200) > 0, "yes", "no")
    lines = [
        "a,b,c,y",
        *(f"{p:.4f},{q:.4f},{r:.4f},{t}" for (p, q, r), t in zip(X, y, strict=True)),
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.csv"


def test_a_private_fit_writes_its_guarantee(rows: Path, tmp_path: Path) -> None:
    words = ["fit", rows, "--target", "y", "--raw", "--privacy", "sample", *LEVEL, "--step", "1"]
    code, text = said(*words, "--batch-size", 20, "--epochs", 5, "--out", tmp_path / "o", "--json")
    assert code == 0
    expected = epsilon_of_releases(2.0, 5, 1e-4)
    document = json.loads(text)
    assert document["privacy"]["epsilon"] == expected
    model = rs.estimators.load(tmp_path / "o" / "model.npz")
    assert model.privacy_.epsilon == expected
    assert "held out" in model.privacy_.assumed[-1]
    page = (tmp_path / "o" / "report.html").read_text()
    assert "Differential privacy" in page
    assert "do not publish this page" in page
    assert "ε = " in said(*words, "--epochs", 5, "--out", tmp_path / "o")[1]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (["--epsilon", "1"], "got both"),
        (["--clip", "0"], "clip"),
        (["--clip", "-1"], "clip"),
        (["--noise", "-1"], "hides nobody"),
        (["--delta", "2"], "delta"),
        (["--delta", "0.01"], "1/160 for 160 samples"),
        (["--impute"], "--impute"),
        (["--cv"], "--cv"),
        (["--class-weight", "balanced"], "--class-weight"),
        (["--solver", "fista"], "--solver"),
    ],
)
def test_what_does_not_go_with_privacy(rows: Path, more: list[str], wanted: str) -> None:
    words = ["fit", rows, "--target", "y", "--raw", "--privacy", "sample", *LEVEL, "--step", "1"]
    code, text = said(*words, *more)
    assert code == 1
    assert wanted in text


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--clip", "1"], "give --privacy"),
        (["--step", "1"], "are for --privacy"),
        (["--privacy", "sample", *LEVEL], "needs --step"),
        (["--privacy", "sample", "--step", "1", "--noise", "1", "--delta", "1e-4"], "needs clip"),
        (["--privacy", "sample", "--step", "1", "--noise", "1", "--clip", "1"], "needs delta"),
        (["--privacy", "sample", *LEVEL, "--step", "1"], "--raw"),
    ],
)
def test_what_privacy_lacks(rows: Path, words: list[str], wanted: str) -> None:
    code, text = said("fit", rows, "--target", "y", *words)
    assert code == 1
    assert wanted in text


def test_categories_would_be_known_without_noise(tmp_path: Path) -> None:
    words = ["--target", "buys", "--raw", "--privacy", "sample", *LEVEL, "--step", "1"]
    code, text = said("fit", write_people(tmp_path), *words)
    assert code == 1
    assert "'colour' has categories" in text


def sites(folder: Path, privacy: str = "", l2: str = "l2 = 0.01") -> Path:
    rng = np.random.default_rng(1)
    lines = [l2, privacy]
    for name in ("north", "south", "east"):
        X = rng.normal(size=(30, 4))
        np.savez(folder / f"{name}.npz", X=X, y=np.sign(X[:, 0]))
        lines.append(f'[[site]]\ndata = "{name}.npz"')
    (folder / "sites.toml").write_text("\n".join(lines))
    return folder / "sites.toml"


TABLE = '[privacy]\nunit = "client"\nclip = 0.5\nnoise = 2.0\ndelta = 0.1\nnoise-at = "sites"'


def test_sites_with_a_table_of_privacy(tmp_path: Path) -> None:
    file, out = sites(tmp_path, TABLE), tmp_path / "o"
    code, text = said(
        "federate", file, "--method", "fedrr", "--step", 0.1, "--rounds", 4, "--out", out, "--json"
    )
    assert code == 0
    document = json.loads(text)
    assert document["privacy"]["epsilon"] == epsilon_of_releases(2.0, 4, 0.1)
    assert document["objective"] is None
    assert all(client["loss"] is None for client in document["clients"])
    assert rs.estimators.load(out / "model.npz").privacy_.unit == "client"
    assert "Differential privacy" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("file", "words", "wanted"),
    [
        ({}, ["--privacy", "client", "--clip", "1", "--noise", "1", "--delta", "0.1"], "--step"),
        ({"privacy": TABLE}, ["--step", "1", "--method", "exact"], "--method fedrr"),
        ({"privacy": TABLE}, ["--step", "1", "--privacy", "client"], "leave one of them out"),
        ({"privacy": TABLE, "l2": ""}, ["--step", "1"], "L_f/N is found from the data"),
        ({"privacy": TABLE.replace("client", "row")}, ["--step", "1"], "unit of privacy"),
        ({"privacy": TABLE.replace("clip", "clib")}, ["--step", "1"], "no clib"),
        ({"privacy": TABLE.replace("delta = 0.1", "")}, ["--step", "1"], "needs delta"),
        ({"privacy": "privacy = 3"}, ["--step", "1"], "a table"),
        ({"privacy": TABLE}, ["--step", "1", "--tol", "1e-6"], "tol must be 0"),
    ],
)
def test_federations_that_would_leak(
    tmp_path: Path, file: dict[str, str], words: list[str], wanted: str
) -> None:
    path = sites(tmp_path, **file)
    for data in tmp_path.glob("*.npz"):
        data.unlink()  # nothing is looked at before the settings are good
    code, text = said("federate", path, "--method", "fedrr", "--out", tmp_path / "o", *words)
    assert code == 1
    assert wanted in text


def test_data_that_is_split_shows_no_losses(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "d.svm", [[1, 2]], fmt="%d 1:%d")
    lines = [f"{k % 2} 1:{k / 60} 2:{1 - k / 60}" for k in range(60)]
    (tmp_path / "d.svm").write_text("\n".join(lines) + "\n")
    words = ["--privacy", "sample", *LEVEL, "--step", 0.1, "--rounds", 2, "--method", "fedrr"]
    out = ["--clients", 3, "--out", tmp_path / "o", "--json"]
    code, text = said("federate", tmp_path / "d.svm", "--l2", 0.01, *words, *out)
    assert code == 0
    assert json.loads(text)["privacy"]["unit"] == "sample"
    assert "–" in (tmp_path / "o" / "report.html").read_text()


def test_levels_by_words_and_numbers() -> None:
    plain = {"unit": "sample", "clip": 1.0, "noise": None, "epsilon": 2.0, "delta": 1e-5}
    assert level_of(plain) == rs.privacy.SampleLevel(clip=1.0, epsilon=2.0, delta=1e-5)
    for wrong, words in (
        ({"unit": "row"}, "unit"),
        ({"unit": 3}, "unit"),
        ({"noise_at": "sites"}, "no noise_at"),
        ({"clip": None}, "needs clip"),
        ({"clip": "one"}, "clip"),
    ):
        with pytest.raises(rs.InputError, match=words):
            level_of(plain | wrong)
