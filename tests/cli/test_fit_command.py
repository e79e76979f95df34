"""``reshuffle fit``, ``path``, ``compare`` and ``predict`` on files, as their users meet them."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import check_page, fit, run, write_people
from sklearn.datasets import load_diabetes, load_iris

import reshuffle as rs
from reshuffle.cli.live import LiveLine, seconds_left, told_seconds
from reshuffle.estimators.early_stopping import held_out


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_people(tmp_path_factory.mktemp("people"))


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
    assert found["loss"] == "squared"
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
    assert by_number["loss"] == "logistic"
    assert by_number["held_out"]["accuracy"] > 0.85
    assert fit(tmp_path / "t.csv", tmp_path / "t", "-t", "kind")["classes"] == iris.target_names.tolist()  # fmt: skip
    words = check_page(tmp_path / "t" / "report.html")
    assert "versicolor" in words
    assert fit(tmp_path / "n.csv", tmp_path / "r", "-t", "kind", "--loss", "squared")["classes"] is None  # fmt: skip
    refused = run("fit", tmp_path / "t.csv", "-t", "kind", "--loss", "squared_hinge", code=1)
    assert "takes two; use loss='logistic'" in refused.stderr


def test_a_path_chooses_by_one_standard_error(people: Path, tmp_path: Path) -> None:
    options = ("--target", "buys", "--drop", "spend", "--lambdas", "12", "--out", tmp_path)
    found = json.loads(run("path", people, *options, "--json").stdout)
    assert found["lambda"] == found["lambda_1se"] >= found["lambda_min"]
    assert "one standard error" in check_page(tmp_path / "report.html")
    assert rs.estimators.load(tmp_path / "model.npz").lambda_ == found["lambda"]
    same = fit(people, tmp_path, "-t", "buys", "--drop", "spend", "--cv", "--lambdas", "12")
    assert same["lambda"] == found["lambda"]
    assert "--l1 and --l2" in run("fit", people, "-t", "buys", "--cv", "--l1", "1", code=1).stderr


def test_a_path_that_leaves_no_feature_says_so(tmp_path: Path) -> None:
    """The targets are those of other rows: there is nothing to learn."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    file = tmp_path / "d.csv"
    X.iloc[:, :3].assign(y=np.roll(y, 91)).to_csv(file, index=False)
    done = run("path", file, "-t", "y", "--out", tmp_path / "p", "--lambdas", "10")
    assert "coefficients 0 of 3 are not zero" in done.stdout
    assert "no feature is left: the model predicts the same for every row" in done.stdout


def test_a_summary_counts_groups_instead_of_listing_them(people: Path, tmp_path: Path) -> None:
    done = run("fit", people, "-t", "buys", "--penalty", "group", "--l1", "0.01", "--out", tmp_path)
    assert re.search(r"penalty +GroupLasso\(strength=0.01, \d groups", done.stdout)
    assert "array" not in done.stdout


def test_names_that_attack_the_page(tmp_path: Path) -> None:
    evil = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=y>',
        "$\\frac{$",
        "_hidden",
        "日本" * 60,
    ]
    target, classes = "</title><script>", ["</td><script>x</script>", "&amp;\x1b[2J"]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*evil, target])
        rows.writerows([*x, classes[sum(x) > 0]] for x in X.tolist())
    for command in ("fit", "path"):
        out = tmp_path / command
        assert "\x1b[2J" not in run(command, tmp_path / "t.csv", "-t", target, "--out", out).output
        words = check_page(out / "report.html")
        assert "<script>alert(1)</script>" in words  # as text
        assert "$\\frac{$" in words
    said = run("predict", tmp_path / "fit" / "model.npz", tmp_path / "t.csv").stdout
    assert len(list(csv.reader(io.StringIO(said)))) == 61


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
        r"epoch \d+ · P = 0\.\d+ · gap \S+ → 1e-10 · \d+/30 features · \d+ s left",
        lines[-2],
    )
    assert seconds_left([1.0, 1e-5], 1e-10, 2.0) == pytest.approx(2.0)
    assert seconds_left([1.0], 1e-10, 2.0) is None
    assert [told_seconds(s) for s in (3, 600, 9000)] == ["3 s", "10 min", "2.5 h"]


def test_rows_that_are_held_out_have_no_say(tmp_path: Path) -> None:
    """Scales, fillings and categories come from the rows to learn from: the others may be anything."""
    rng = np.random.default_rng(0)
    n, files = 200, [tmp_path / "a.csv", tmp_path / "b.csv"]
    y = np.where(rng.random(n) < 0.5, "no", "yes")
    x = rng.standard_normal(n) + 2.0 * (y == "yes")
    held = held_out(n, np.unique(y, return_inverse=True)[1], 0.2, 0)[1]
    for file, strange in zip(files, (False, True), strict=True):
        lines = [f"{v!r},{'red' if k % 2 else 'blue'},{c}" for k, (v, c) in enumerate(zip(x.tolist(), y, strict=True))]  # fmt: skip
        lines[3] = lines[3].replace(lines[3].split(",")[0], "", 1)
        for row in held if strange else []:
            lines[row] = f"1e6,green,{y[row]}"
        file.write_text("\n".join(["x,colour,y", *lines]) + "\n")
    models = []
    for file in files:
        out = tmp_path / file.stem
        run("fit", file, "--target", "y", "--impute", "--out", out, "--quiet")
        models.append(rs.estimators.load(out / "model.npz"))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].encoding_ == models[1].encoding_
    assert "colour=green" not in models[1].feature_names_in_


def test_a_column_with_nothing_to_learn_from(tmp_path: Path) -> None:
    y = np.arange(100) % 2
    held = held_out(100, y, 0.2, 0)[1]
    lines = [f"{k},{k if k in held else ''},{c}" for k, c in enumerate(y)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    ran = run("fit", tmp_path / "a.csv", "--target", "y", "--impute", code=1)
    assert "'b' holds no value in the rows to learn from" in ran.stderr
