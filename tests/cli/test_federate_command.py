"""``reshuffle federate`` on a file, as its user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console
from sklearn.datasets import dump_svmlight_file, load_diabetes

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.cli.board import Board
from reshuffle.engines import Failure, Reply, Task


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


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("split", ["iid", "by-label", "quantity", "dirichlet", "column:0"])
def test_every_split(file: Path, split: str) -> None:
    done = run(file, "--clients", "4", "--split", split)
    assert done.exit_code == 0, done.output
    assert ("3 clients" if split == "column:0" else "4 clients") in done.output
    written = {path.name for path in (file.parent / "out").iterdir()}
    files = {"checkpoint.npz", "federation.png", "result.npz", "trace.csv"}
    assert written == files | {"model.npz", "report.html"}


@pytest.mark.usefixtures("without_pictures")
def test_resuming_ends_in_the_same_digest(file: Path) -> None:
    whole = digest(run(file, "--clients", "4").output)
    path = file.parent / "out" / "checkpoint.npz"
    assert rs.Result.load(path).epoch == 12
    assert digest(run(file, "--clients", "4", "--rounds", "5", "--force").output) != whole
    assert rs.Result.load(path).epoch == 5
    assert digest(run(file, "--clients", "4", "--resume").output) == whole
    refused = run(file, "--clients", "4", "--resume", "--seed", "1")
    assert refused.exit_code == 1
    assert "seed" in refused.output


@pytest.mark.usefixtures("without_pictures")
def test_an_earlier_run_is_not_overwritten_without_force(file: Path) -> None:
    assert run(file, "--rounds", "3").exit_code == 0
    refused = run(file)
    assert refused.exit_code == 1
    assert "of an earlier run: go on with --resume" in refused.output
    (file.parent / "out" / "result.npz").unlink()  # as a killed process leaves it
    assert run(file).exit_code == 1
    assert run(file, "--resume").exit_code == 0
    assert run(file, "--force").exit_code == 0


def test_a_disk_that_cannot_be_written_is_a_sentence(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "taken").write_text("a file")
    below = run(file, "--out", str(file.parent / "taken" / "x"))
    assert below.exit_code == 1
    assert below.output.splitlines()[-1].startswith("Error: ")
    assert "taken is not a folder" in below.output

    def full(path: Any, *_: Any) -> None:
        raise rs.InputError(f"{path}: No space left on device")

    monkeypatch.setattr("reshuffle.trace.Result.save", lambda self, path: full(path))
    done = run(file)
    assert done.exit_code == 1
    assert "checkpoint.npz: No space left on device" in done.output


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


# --- sites --------------------------------------------------------------------------------------


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    """Three tables, one of a single class, and a file that names them."""
    rng = np.random.default_rng(1)
    for name, n in (("north", 40), ("south", 60), ("east", 5)):
        X = rng.standard_normal((n, 3))
        sick = ["yes" if z > 0 or name == "east" else "no" for z in X.sum(axis=1)]
        lines = [
            f"{a:.4f},{b:.4f},{c:.4f},{s}" for (a, b, c), s in zip(X.tolist(), sick, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,dose,weight,sick", *lines]))
    (tmp_path / "sites.toml").write_text(
        """
        target = "sick"
        intercept = true
        standardise = true
        l2 = 0.01
        [[site]]
        data = "north.csv"
        audit = "north.jsonl"
        [[site]]
        data = "south.csv"
        [[site]]
        name = "the east"
        data = "east.csv"
        """
    )
    return tmp_path / "sites.toml"


def test_sites_of_a_file(sites: Path) -> None:
    done = run(sites, "--tol", "1e-7", "--rounds", "300", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert "≤ tol" in found["message"]
    assert [c["name"] for c in found["clients"]] == ["north", "south", "the east"]
    assert [c["samples"] for c in found["clients"]] == [40, 60, 5]
    assert all(c["state"] == "answered" for c in found["clients"])
    assert (sites.parent / "north.jsonl").read_text().count("\n") == 2 * found["clients"][0][
        "answers"
    ]
    assert (sites.parent / "out" / "federation.png").stat().st_size > 10_000
    again = run(sites, "--tol", "1e-7", "--rounds", "300", "--resume", "--json")
    assert json.loads(again.stdout)["digest"] == found["digest"]


@pytest.mark.usefixtures("without_pictures")
def test_sites_of_a_folder(sites: Path) -> None:
    folder = sites.parent / "tables"
    folder.mkdir()
    for name in ("north", "south"):
        (sites.parent / f"{name}.csv").rename(folder / f"{name}.csv")
    done = CliRunner().invoke(
        main, ["federate", str(folder), "--out", str(sites.parent / "o"), "--no-progress"]
    )
    assert done.exit_code == 0, done.output
    assert "2 clients" in done.output


@pytest.fixture
def clinics(tmp_path: Path) -> Path:
    """Diabetes patients at three clinics with texts, gaps, an extra column, another order and held-out files."""
    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progress"})
    frame["sex"] = np.where(frame["sex"] == 1, "female", "male")
    frame.insert(
        2, "group", np.array(["young", "middle", "old"])[np.digitize(frame["age"], [40, 58])]
    )
    place = np.where(frame["age"] < 50, 0, np.where(frame["bmi"] > 27, 1, 2))
    rng = np.random.default_rng(0)
    lines = ['target = "progress"', 'loss = "squared"', "intercept = true", "standardise = true",
             "impute = true", "l2 = 0.01"]  # fmt: skip
    for k, name in enumerate(("oslo", "bergen", "tromso")):
        own = frame[place == k].copy()
        for column in ("bmi", "group"):
            own.loc[rng.random(len(own)) < 0.1, column] = None
        own = own.assign(nurse="Ida")[["nurse", *frame.columns]] if name == "bergen" else own
        own = own[own.columns[::-1]] if name == "tromso" else own
        test = np.arange(len(own)) % 4 == 0
        own[~test].to_csv(tmp_path / f"{name}.csv", index=False)
        lines += ["[[site]]", f'data = "{name}.csv"']
        if name != "bergen":
            own[test].to_csv(tmp_path / f"{name}-test.csv", index=False)
            lines += [f'test = "{name}-test.csv"']
        else:
            lines += ['drop = ["nurse"]']
    (tmp_path / "sites.toml").write_text("\n".join(lines))
    return tmp_path / "sites.toml"


def test_a_federation_ends_in_a_model_that_predicts(clinics: Path) -> None:
    done = run(clinics, "--tol", "1e-8", "--rounds", "100", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["converged"]
    assert list(found["held_out"]) == ["oslo", "tromso", "all sites"]
    assert set(found["held_out"]["oslo"]) == {"samples", "loss", "r2", "rmse"}
    for name in ("oslo", "tromso"):
        rows = clinics.parent / f"{name}-test.csv"
        told = CliRunner().invoke(main, ["predict", found["model"], str(rows)])
        assert told.exit_code == 0, told.output
        predicted = np.array(told.stdout.split()[1:], dtype=float)
        true = pd.read_csv(rows)["progress"]
        error = float(np.sqrt(np.mean((predicted - true) ** 2)))
        assert found["held_out"][name]["rmse"] == pytest.approx(error, rel=1e-9)
    model = rs.estimators.load(found["model"])
    assert {"sex=female", "group=young", "bmi"} <= set(model.feature_names_in_)
    assert model.certificate_.measure == "gap"
    assert found["travelled"]["below"]["messages"] == 3 * 22
    page = (clinics.parent / "out" / "report.html").read_text()
    for words in ("A model of progress", "Quality by site", "Who took part", "What travelled",
                  "bergen", "rounds", "held-out rows at 2 of 3 sites", "medians are found"):  # fmt: skip
        assert words in page


@pytest.mark.usefixtures("without_pictures")
def test_the_last_row_has_held_out_numbers_whatever_evaluate_is(clinics: Path) -> None:
    done = run(clinics, "--tol", "1e-8", "--rounds", "100", "--evaluate", "7", "--json")
    found = json.loads(done.stdout)
    assert found["epoch"] % 7
    assert found["held_out_r2"] == found["held_out"]["all sites"]["r2"]
    without = run(clinics, "--tol", "1e-8", "--rounds", "100", "--force", "--json")
    assert json.loads(without.stdout)["held_out"] == found["held_out"]
    assert "held_out_r2" not in json.loads(without.stdout)
    shown = run(clinics, "--rounds", "2", "--force").output
    assert "on held-out rows" in shown
    assert "tromso" in shown


@pytest.mark.usefixtures("without_pictures")
def test_an_accuracy_that_was_not_reached_is_told_by_the_exit_code(clinics: Path) -> None:
    done = run(clinics, "--tol", "1e-12", "--rounds", "2")
    assert done.exit_code == 3
    assert (clinics.parent / "out" / "model.npz").is_file()
    assert run(clinics, "--rounds", "2", "--force").exit_code == 0  # no accuracy was asked for


@pytest.mark.usefixtures("without_pictures")
def test_a_folder_may_have_the_file_of_its_sites(clinics: Path) -> None:
    out = ["--out", str(clinics.parent / "o"), "--no-progress", "--rounds", "2", "--json"]
    done = CliRunner().invoke(main, ["federate", str(clinics.parent), *out])
    assert done.exit_code == 0, done.output
    assert [c["name"] for c in json.loads(done.stdout)["clients"]] == ["oslo", "bergen", "tromso"]


@pytest.mark.usefixtures("without_pictures")
def test_a_federation_without_test_data_says_so(sites: Path) -> None:
    found = json.loads(run(sites, "--json").stdout)
    assert found["held_out"] is None
    assert found["classes"] == ["no", "yes"]
    assert "No site has held-out rows" in (sites.parent / "out" / "report.html").read_text()
    refused = run(sites, "--force", "--evaluate", "2")
    assert refused.exit_code == 1
    assert "evaluate is for federated.Sites with test data, and no site has any" in refused.output


@pytest.mark.usefixtures("without_pictures")
def test_a_split_file_ends_in_a_model_of_its_labels(file: Path) -> None:
    found = json.loads(run(file, "--clients", "4", "--tol", "1e-6", "--json").stdout)
    assert found["classes"] == [1, 2]
    told = CliRunner().invoke(main, ["predict", found["model"], str(file)])
    labels = [line.split()[0] for line in file.read_text().splitlines() if line[0] != "#"]
    assert np.mean(np.array(told.stdout.split()[1:]) == np.array(labels)) > 0.8


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "must have a [[site]]"),
        ("[[site]]\nname = 'a'", "must say where its data lies"),
        ("[[site]]\ndata = 'north.csv'\ncolour = 'red'", "'colour' is not known; there are data"),
        ("los = 'x'\n[[site]]\ndata = 'north.csv'", "'los' is not known; there are loss"),
        ("loss = 'x'\n[[site]]\ndata = 'north.csv'", "loss must be one of 'logistic'"),
        ("drop = 'age'\n[[site]]\ndata = 'north.csv'", "drop cannot be 'age'"),
        ("drop = [1]\n[[site]]\ndata = 'north.csv'", "drop must be a list of texts"),
        ("drop = ['aage']\n[[site]]\ndata = 'north.csv'", "and none has 'aage'"),
        ("l2 = true\n[[site]]\ndata = 'north.csv'", "l2 cannot be True"),
        ("l2 = ", "is not in TOML format"),
        ("[[site]]\ndata = 'nowhere.csv'", "there is no file"),
        ("[[site]]\ndata = 'east.csv'", "needs two labels over all sites"),
    ],
)
def test_bad_files_of_sites_are_refused(sites: Path, text: str, word: str) -> None:
    sites.write_text(text)
    done = run(sites)
    assert done.exit_code == 1
    assert word in done.output


def test_the_live_table_shows_those_in_trouble_first(sites: Path) -> None:
    board = Board([f"site {k}" for k in range(40)], shown=False)
    task = Task("r", 3, 0.1, np.zeros(2), "", (0, 1))
    board(task, Reply("r", 3, 0, "", np.zeros(2), None, {"value": 0.5}), "")
    board(task, Failure(1, "no answer within 2 s"), "no answer within 2 s")
    board(task, Reply("r", 3, 99, "", np.zeros(2)), "")  # nobody
    console = Console(width=120)
    with console.capture() as shown:
        console.print(board.table())
    lines = shown.get().splitlines()
    assert any("site 1 " in line and "no answer within 2 s" in line for line in lines)
    assert "and 15 more" in lines[-1]
    assert (board.lines[0].round, board.lines[0].loss) == (4, 0.5)


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
    assert f"Error: cannot write in {out}" in done.output
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "checkpoint.npz").mkdir()
    done = CliRunner().invoke(main, [*command, "--force", "--out", str(tmp_path / "folder")])
    assert done.exit_code == 1
    assert "cannot write" in done.output
    assert "Traceback" not in done.output


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("method", ["exact", "newton", "fedrr", "local-sgd"])
def test_fewer_bytes_travel_and_a_run_can_be_resumed(tmp_path: Path, method: str) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "wide"
    X = rng.standard_normal((200, 60))
    dump_svmlight_file(X, np.where(X[:, 0] > 0, 1, -1), str(file), zero_based=False)

    def travelled(*options: str) -> tuple[float, float]:
        done = run(file, "--clients", "4", "--method", method, "--force", *options)
        assert done.exit_code == 0, done.output
        trace = rs.Result.load(file.parent / "out" / "result.npz").trace
        return float(trace["bytes_up"][-1]), float(trace["bytes_down"][-1])

    whole = travelled()
    fewer = travelled("--transport", "bfloat16", "--downlink", "rounded")
    assert fewer[0] < whole[0]
    assert fewer[1] < whole[1]
    done = run(
        file, "--clients", "4", "--method", method, "--rounds", "20", "--resume",
        "--transport", "bfloat16", "--downlink", "rounded",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert rs.Result.load(file.parent / "out" / "checkpoint.npz").epoch > 12
