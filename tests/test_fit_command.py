"""``reshuffle fit``, ``path`` and ``predict`` on files, as their users meet them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.datasets import load_iris

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.cli.live import LiveLine, seconds_left, told_seconds
from reshuffle.content import digest

COLOURS = ("red", "green", "<b>blue</b>")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with categories, numbers on two scales, a text target and a numeric one."""
    rng = np.random.default_rng(0)
    n = 300
    colour, age = rng.choice(COLOURS, n), rng.integers(18, 90, n)
    income = np.round(rng.lognormal(10, 0.5, n), 2)
    z = 2.0 * (colour == "red") + 0.05 * (age - 50) + rng.standard_normal(n)
    lines = ["colour,age,income,spend,buys"]
    lines += [
        f"{c},{a},{i},{100 + 20 * s:.2f},{'yes' if s > 0 else 'no'}"
        for c, a, i, s in zip(colour, age, income, z, strict=True)
    ]
    path = tmp_path_factory.mktemp("people") / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments: Any, code: int = 0, **options: Any) -> Any:
    done = CliRunner().invoke(main, [str(a) for a in arguments], **options)
    assert done.exit_code == code, (done.output, done.exception)
    return done


def fit(file: Any, out: Path, *options: str, code: int = 0) -> dict[str, Any]:
    done = run("fit", file, "--out", out, "--json", *options, code=code)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Page(HTMLParser):
    """What a page holds: whether its elements close, what it loads, its text."""

    EMPTY = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.loads.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words += data


def check_page(path: Path) -> str:
    text = path.read_text()
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert len(page.ids) == len(set(page.ids))
    assert not page.tags & {"script", "link", "img", "iframe", "b2"}
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    return page.words


def test_a_table_with_text_to_predictions(people: Path, tmp_path: Path) -> None:
    done = run("fit", people, "--target", "buys", "--drop", "spend", "--out", tmp_path)
    assert "300 rows, 60 of them held out, 5 features; buys: 2 classes (no, yes)" in done.stdout
    assert "colour=red" in done.stdout
    assert "accuracy" in done.stdout
    words = check_page(tmp_path / "report.html")
    for wanted in (
        "A model of buys", "of 60 held-out rows", "colour=<b>blue</b>", "this is proved", "60 held out",
    ):  # fmt: skip
        assert wanted in words
    said = run("predict", tmp_path / "model.npz", people, "--proba").stdout.splitlines()
    assert said[0] == "prediction,p(no),p(yes)"
    assert len(said) == 301
    rows = [line.split(",") for line in said[1:]]
    truth = [line.rsplit(",", 1)[1] for line in people.read_text().splitlines()[1:]]
    assert np.mean([row[0] == t for row, t in zip(rows, truth, strict=True)]) > 0.8
    assert all(abs(float(a) + float(b) - 1) < 1e-12 for _, a, b in rows)


def test_the_model_is_the_minimiser_that_the_estimator_finds(people: Path, tmp_path: Path) -> None:
    found = fit(people, tmp_path, "-t", "buys", "--drop", "spend", "--raw", "--holdout", "0", "--l1", "0.01")  # fmt: skip
    data = rs.datasets.load_data(
        people, rs.datasets.Reading(target="buys", drop=("spend",), standardise=False)
    )
    model = rs.RRClassifier(penalty="l1", l1=0.01, tol=1e-10).fit(data.X, data.y)
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    loaded = rs.estimators.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.coef_, model.coef_, atol=1e-6)
    assert loaded.feature_names_in_.tolist() == data.encoding.feature_names
    assert loaded.encoding_ == data.encoding
    assert found["held_out"] is None
    assert found["converged"] is True


def test_a_numeric_target_is_a_regression(people: Path, tmp_path: Path) -> None:
    found = fit(people, tmp_path, "-t", "spend", "--drop", "buys")
    assert found["loss"] == "Squared"
    assert 0.5 < found["held_out"]["R²"] < 1
    words = check_page(tmp_path / "report.html")
    assert "root mean squared error" in words
    said = run("predict", tmp_path / "model.npz", people, "--json").stdout.splitlines()
    assert len(said) == 300
    assert abs(json.loads(said[0])["prediction"]) < 1000
    run("predict", tmp_path / "model.npz", people, "--proba", code=1)


def test_three_classes_by_number_and_by_name(tmp_path: Path) -> None:
    iris = load_iris()
    rows = [",".join(map(str, row)) for row in iris.data]
    names = "a,b,c,d,kind\n"
    (tmp_path / "n.csv").write_text(names + "\n".join(f"{r},{t}" for r, t in zip(rows, iris.target, strict=True)))  # fmt: skip
    (tmp_path / "t.csv").write_text(names + "\n".join(f"{r},{iris.target_names[t]}" for r, t in zip(rows, iris.target, strict=True)))  # fmt: skip
    by_number = fit(tmp_path / "n.csv", tmp_path / "n", "-t", "kind")
    assert by_number["classes"] == [0, 1, 2]
    assert by_number["loss"] == "Multinomial"
    assert by_number["held_out"]["accuracy"] > 0.85
    assert fit(tmp_path / "t.csv", tmp_path / "t", "-t", "kind")["classes"] == iris.target_names.tolist()  # fmt: skip
    words = check_page(tmp_path / "t" / "report.html")
    assert "versicolor" in words
    assert fit(tmp_path / "n.csv", tmp_path / "r", "-t", "kind", "--loss", "squared")["classes"] is None  # fmt: skip
    refused = run("fit", tmp_path / "t.csv", "-t", "kind", "--loss", "squared_hinge", code=1)
    assert "takes two; use loss='logistic'" in refused.stderr


def test_libsvm_and_a_stream_of_it(tmp_path: Path) -> None:
    lines = [f"{1 + (k % 3 > 0)} 1:{k % 3} 2:{k % 5} 4:1" for k in range(90)]
    file = tmp_path / "rows"
    file.write_text("\n".join(lines))
    found = fit(file, tmp_path / "out")
    assert found["classes"] == [1, 2]  # as they are written
    done = run("predict", tmp_path / "out" / "model.npz", "-", input="\n".join(lines[:6]))
    assert done.stdout.split() == ["prediction", "1", "2", "2", "1", "2", "2"]
    assert "feature 1" in check_page(tmp_path / "out" / "report.html")
    wrong = run("predict", tmp_path / "out" / "model.npz", "-", input="1 1:1\n1 1:x\n", code=1)
    assert "standard input, line 2 is not in LIBSVM format" in wrong.stderr


def test_a_sparse_matrix(tmp_path: Path) -> None:
    X: Any = sp.random(60, 8, 0.5, "csr", random_state=0)
    sp.save_npz(tmp_path / "x.npz", X)
    np.save(tmp_path / "y.npy", (X.toarray()[:, 0] > 0.2).astype(int))
    out = tmp_path / "out"
    found = fit(tmp_path / "x.npz", out, "--target", str(tmp_path / "y.npy"))
    assert found["features"] == 8
    said = run("predict", out / "model.npz", tmp_path / "x.npz", "--out", tmp_path / "p.csv")
    assert said.stdout == ""
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 61


def test_a_path_chooses_by_one_standard_error(people: Path, tmp_path: Path) -> None:
    options = ("--target", "buys", "--drop", "spend", "--lambdas", "12", "--out", tmp_path)
    found = json.loads(run("path", people, *options, "--json").stdout)
    assert found["lambda"] == found["lambda_1se"] >= found["lambda_min"]
    assert "one standard error" in check_page(tmp_path / "report.html")
    assert rs.estimators.load(tmp_path / "model.npz").lambda_ == found["lambda"]
    same = fit(people, tmp_path, "-t", "buys", "--drop", "spend", "--cv", "--lambdas", "12")
    assert same["lambda"] == found["lambda"]
    assert "--l1 and --l2" in run("fit", people, "-t", "buys", "--cv", "--l1", "1", code=1).stderr


def test_methods_side_by_side(people: Path, tmp_path: Path) -> None:
    options = ["-t", "buys", "--drop", "spend", "--seeds", "2", "--epochs", "20", "--out", str(tmp_path)]  # fmt: skip
    done = run("compare", people, *options)
    for word in ("exact", "proxrr", "proxsgd", "fista", "prox evaluations", "2 of 2"):
        assert word in done.stdout
    words = check_page(tmp_path / "report.html")
    assert "4 methods on one problem" in words
    again = run("compare", people, *options, "--method", "exact", "--json")  # out of the folder
    found = json.loads(again.stdout)
    assert found["methods"]["exact"]["reached"] == 2
    lines = (tmp_path / "traces.csv").read_text().splitlines()
    assert lines[0].startswith("method,seed,passes")


def test_exit_codes(people: Path, tmp_path: Path) -> None:
    options = ["-t", "buys", "--drop", "spend", "--out", str(tmp_path)]
    late = run("fit", people, *options, "--solver", "proxsgd", "--epochs", "2", code=3)
    assert "the accuracy asked for was not reached" in late.stderr
    assert "not reached" in check_page(tmp_path / "report.html")
    run("fit", people, "-t", "nonsense", code=1)
    run("fit", people, *options, "--epochs", "0", code=2)
    run("fit", people, *options, "--json", "--quiet", code=2)
    quiet = run("fit", people, *options, "--quiet")
    assert (quiet.stdout, quiet.stderr.replace("reshuffle: compiling", "")) == ("", "")


def test_ctrl_c_saves_the_model_so_far(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: LiveLine, result: rs.Result) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveLine, "__call__", stop)
    options = ["-t", "buys", "--drop", "spend", "--out", str(tmp_path)]
    done = run("fit", people, *options, code=130)
    assert "interrupted after 1 epochs: what was found so far is written" in done.stderr
    assert not rs.estimators.load(tmp_path / "model.npz").converged_
    assert "interrupted" in check_page(tmp_path / "report.html")
    assert len(run("predict", tmp_path / "model.npz", people).stdout.split()) == 301


def test_ctrl_c_ends_a_path(people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Any, problem: Any, x0: Any = None, **_: Any) -> rs.Result:
        return replace(
            rs.FISTA(epochs=1, tol=0.0).solve(problem), message="interrupted after 1 epochs"
        )

    monkeypatch.setattr(rs.ExactProxRR, "solve", interrupted)
    done = run("path", people, "-t", "buys", "--drop", "spend", "--out", tmp_path / "o", code=130)
    assert "Interrupted." in done.stderr
    assert not (tmp_path / "o").exists()


def test_the_live_line_says_where_a_fit_is() -> None:
    X, y = rs.datasets.breast_cancer()
    lines: list[str] = []
    live = LiveLine(30, 1e-10, shown=True)
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.05))
    solver = rs.ExactProxRR(tol=1e-10, finish=False, check_every=1)
    solver.solve(problem, callbacks=[lambda result: lines.append(live.text(result, 2.0))])
    assert re.fullmatch(
        r"epoch \d+ · P = 0\.\d+ · gap \S+ \(wanted 1e-10\) · \d+ of 30 features · about \d+ s left",
        lines[-2],
    )
    assert seconds_left([1.0, 1e-5], 1e-10, 2.0) == pytest.approx(2.0)
    assert seconds_left([1.0], 1e-10, 2.0) is None
    assert [told_seconds(s) for s in (3, 600, 9000)] == ["3 s", "10 min", "2.5 h"]


def test_predictions_stream_in_constant_memory(people: Path, tmp_path: Path) -> None:
    """A pipe that never ends gives predictions as it goes, and a reader that leaves ends it."""
    run("fit", people, "-t", "buys", "--drop", "spend", "--out", tmp_path, "--quiet")
    script = (
        "import sys\n"
        "sys.stdout.write('colour,age,income\\n')\n"
        "try:\n"
        "    while True: sys.stdout.write('red,30,20000\\n' * 1000)\n"
        "except BrokenPipeError: pass\n"
    )
    command = (
        f'{sys.executable} -c "$SCRIPT" 2>/dev/null | {sys.executable} -m reshuffle.cli predict model.npz - '
        "| head -n 40000 | sort | uniq -c"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=os.environ | {"SCRIPT": script},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert re.fullmatch(r"\s*1 prediction\s+39999 (yes|no)\s*", done.stdout)
    assert "Traceback" not in done.stderr


def test_a_model_file_that_lies_about_its_columns_is_refused(people: Path, tmp_path: Path) -> None:
    run("fit", people, "-t", "buys", "--drop", "spend", "--out", tmp_path, "--quiet")
    path = tmp_path / "model.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    changes: list[Any] = [
        {"kind": "rows", "features": 99, "first": 1},
        {"kind": "rows", "features": 5, "first": 7},
        {"kind": "table", "columns": [{"name": "age"}]},
        {"kind": "table", "columns": [{"name": "age", "fill": None, "centre": 0, "scale": 0}]},
        {"kind": "nonsense"},
        [],
    ]
    for change in changes:
        changed = arrays | {"encoding": np.array(json.dumps(change))}
        about = json.loads(str(changed.pop("about")))
        about["digest"] = digest(*(changed[name] for name in sorted(changed)))
        np.savez(path, about=np.array(json.dumps(about)), **changed)
        assert "damaged model file" in run("predict", path, people, code=1).stderr


@pytest.mark.parametrize("name", list(main.commands))
def test_every_command_has_examples_json_and_quiet(name: str) -> None:
    text = run(name, "--help").stdout
    assert "Examples:" in text
    assert "--json" in text
    assert "--quiet" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there(shell: str) -> None:
    variable = {"_RESHUFFLE_COMPLETE": f"{shell}_source"}
    done = CliRunner().invoke(main, env=variable, prog_name="reshuffle")
    assert "reshuffle" in done.output
    words = {
        "COMP_WORDS": "reshuffle fi",
        "COMP_CWORD": "1",
        "_RESHUFFLE_COMPLETE": "bash_complete",
    }
    assert "fit" in CliRunner().invoke(main, env=words, prog_name="reshuffle").output
