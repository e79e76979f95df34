"""``reshuffle federate`` on a file, as its user meets it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

import reshuffle as rs
from reshuffle.cli import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(1, 4, (200, 1)), rng.standard_normal((200, 5))])
    y = np.where(X @ rng.standard_normal(6) > 2, 2, 1)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    return tmp_path / "data"


def run(file: Path, *options: str) -> Any:
    out = str(file.parent / "out")
    common = ["federate", str(file), "--rounds", "12", "--out", out, "--no-progress"]
    return CliRunner().invoke(main, [*common, *options])


def digest(output: str) -> str:
    found = re.search(r"digest of the model +│ (\w+)", output)
    assert found is not None, output
    return found[1]


@pytest.mark.parametrize("split", ["iid", "by-label", "quantity", "dirichlet", "column:0"])
def test_every_split(file: Path, split: str) -> None:
    done = run(file, "--clients", "4", "--split", split)
    assert done.exit_code == 0, done.output
    assert ("3 clients" if split == "column:0" else "4 clients") in done.output
    written = {path.name for path in (file.parent / "out").iterdir()}
    assert written == {"checkpoint.npz", "federation.png", "result.npz", "trace.csv"}


def test_resuming_ends_in_the_same_digest(file: Path) -> None:
    whole = digest(run(file, "--clients", "4").output)
    path = file.parent / "out" / "checkpoint.npz"
    assert rs.Result.load(path).epoch == 12
    assert digest(run(file, "--clients", "4", "--rounds", "5").output) != whole
    assert rs.Result.load(path).epoch == 5
    assert digest(run(file, "--clients", "4", "--resume").output) == whole
    refused = run(file, "--clients", "4", "--resume", "--seed", "1")
    assert refused.exit_code == 1
    assert "seed" in refused.output


def test_a_run_that_did_not_end_is_not_overwritten(file: Path) -> None:
    assert run(file, "--rounds", "3").exit_code == 0
    (file.parent / "out" / "result.npz").unlink()  # as a killed process leaves it
    refused = run(file)
    assert refused.exit_code == 1
    assert "did not end: go on with --resume" in refused.output
    assert run(file, "--resume").exit_code == 0
    assert run(file).exit_code == 0  # a finished one gives way


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--split", "by-colour"), "by must be one of"),
        (("--clients", "999"), "at most the 200"),
        (("--resume",), "there is no checkpoint"),
        (("--split", "column:x"), "wants a feature 0"),
        (("--split", "column:99"), "wants a feature 0"),
    ],
)
def test_bad_options_are_refused(file: Path, options: tuple[str, ...], word: str) -> None:
    done = run(file, *options)
    assert done.exit_code == 1
    assert word in done.output


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("+1 1:1 2:1\n-1 1:2 2:0.5\n+1 1:0.3\n-1 2:1\n")
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    command = [
        "federate",
        str(tmp_path / "data"),
        "--clients",
        "2",
        "--rounds",
        "2",
        "--no-progress",
    ]
    done = CliRunner().invoke(main, [*command, "--out", str(out)])
    assert done.exit_code == 1
    assert f"Error: {out}: Not a directory" in done.output
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "checkpoint.npz").mkdir()
    done = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "folder")])
    assert done.exit_code == 1
    assert "cannot write" in done.output
    assert "Traceback" not in done.output
