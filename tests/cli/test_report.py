"""What a report says: units, intercepts, classes, counts; and tables for notebooks."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Page, check_page, fit, run, write_people
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.metrics import precision_recall_fscore_support
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import reshuffle as rs
from reshuffle.errors import InputError
from reshuffle.report import html
from reshuffle.report.held_out import scored


def test_units_and_intercept_in_plain_words(tmp_path: Path) -> None:
    file = write_people(tmp_path)
    fit(file, tmp_path / "m", "-t", "buys", "--drop", "spend")
    model = rs.estimators.load(tmp_path / "m/model.npz")
    words = check_page(tmp_path / "m/report.html")
    age = next(part for part in model.encoding_.columns if part.name == "age")
    assert f"per {age.scale:.3g} (1 s.d.)" in words
    assert "to the log-odds of yes, which multiplies its odds by" in words
    assert f"The intercept is {model.intercept_[0]:.4g}: the score where every column of numbers is at its mean and no category applies." in words  # fmt: skip
    fit(file, tmp_path / "r", "-t", "spend", "--raw", "--drop", "buys")
    words = check_page(tmp_path / "r/report.html")
    assert "per unit" in words
    assert "cannot be compared" in words


def test_a_sentence_about_a_logarithm(tmp_path: Path) -> None:
    fit(write_people(tmp_path), tmp_path / "m", "-t", "income", "--log-target")
    words = check_page(tmp_path / "m/report.html")
    assert "The model is one of the logarithm of the target" in words
    assert "multiplies the prediction by" in words


def test_every_class_has_its_numbers(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.assign(kind=y.map({0: "red", 1: "white", 2: "rose"})).to_csv(tmp_path / "w.csv", index=False)
    fit(tmp_path / "w.csv", tmp_path / "m", "-t", "kind")
    words = check_page(tmp_path / "m/report.html")
    assert "precision" in words
    assert "The intercepts are red" in words
    assert "Multinomial" not in words
    assert "Logistic loss" in words
    assert "13" in words
    assert "features, all of which are used" in words


def test_precision_and_recall_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y, said = rng.integers(0, 4, 200), rng.integers(0, 3, 200)
    held = scored(SimpleNamespace(classes_=np.arange(4)), y, said, None, y)
    theirs = precision_recall_fscore_support(y, said, labels=np.arange(4), zero_division=np.nan)
    ours = np.array([row[2:] for row in held.by_class()])
    np.testing.assert_allclose(ours.T[:2], theirs[:2])
    np.testing.assert_allclose(ours.T[2][:3], theirs[2][:3])


def test_counts_are_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    table = pd.DataFrame({"x": rng.normal(size=n), "kind": rng.choice(["a", "b"], n)})
    table["y"] = table.x + rng.normal(size=n)
    table.loc[:9, "x"] = np.nan
    table.loc[5:7, "kind"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    found = fit(tmp_path / "t.csv", tmp_path / "m", "-t", "y", "--impute")
    assert found["imputed"] == {"x": 10, "kind": 3}
    words = check_page(tmp_path / "m/report.html")
    assert "13 filled in by the median or the most frequent category: x (10), kind (3)" in words
    assert "Each point is one of 600 of the 800 held-out rows" in words


@pytest.mark.usefixtures("without_pictures")
def test_missing_values_are_told_by_every_report(tmp_path: Path) -> None:
    rows = [f"{'' if k % 10 == 3 else k % 7},{'yes' if k % 3 else 'no'}" for k in range(60)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["x,y", *rows]))
    run(
        "compare",
        table,
        "-t",
        "y",
        "--impute",
        "--seeds",
        1,
        "--epochs",
        5,
        "--out",
        tmp_path / "c",
    )
    told = "6 filled in by the median or the most frequent category: x (6)"
    assert told in check_page(tmp_path / "c" / "report.html")
    sites = tmp_path / "sites.toml"
    sites.write_text(
        'target = "y"\nimpute = true\n[[site]]\ndata = "t.csv"\n[[site]]\ndata = "u.csv"\n'
    )
    (tmp_path / "u.csv").write_text(table.read_text())
    run("federate", sites, "--rounds", 3, "--out", tmp_path / "f")
    words = check_page(tmp_path / "f" / "report.html")
    assert (
        "filled in by the median or the most frequent category" in words
    )  # sites do not tell how many
    assert "none here" not in words


@pytest.mark.usefixtures("without_pictures")
def test_numbers_stay_on_one_line(tmp_path: Path) -> None:
    text = html.tag("p", "P is within 8.9e-16, 97.4 % and 0.2 ± 0.01 of <b>2 % it</b>")
    assert '<span class="n">8.9e-16</span>' in text
    assert '<span class="n">97.4 %</span>' in text
    assert '<span class="n">0.2 ± 0.01</span>' in text
    assert "<b>" not in text
    fit(write_people(tmp_path), tmp_path / "m", "-t", "buys")
    page = (tmp_path / "m/report.html").read_text()
    body = re.sub(r"<(style|svg|title).*?</\1>", "", page, flags=re.DOTALL)
    for number in re.findall(r"[^>\s]*\de-\d+", re.sub(r'<span class="n">[^<]*</span>', "", body)):
        raise AssertionError(f"{number} may be broken")


@pytest.fixture(scope="module")
def problem() -> rs.Problem:
    return rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L1(0.01))


def shown(thing: Any) -> str:
    page = Page(thing._repr_html_())
    assert page.open == []
    assert "<script" not in thing._repr_html_()
    return page.words


def test_tables_for_notebooks(problem: rs.Problem) -> None:
    result = rs.ProxRR(epochs=30).solve(problem)
    assert "all 30 epochs done" in shown(result)
    assert "coefficients" in shown(result)
    assert "10 of 31 rows" in shown(result.trace)
    assert f"{result.trace['objective'][-1]:.6g}" in shown(result.trace)
    X, y = rs.datasets.breast_cancer()
    path = rs.rr_path(X, y, lambdas=5)
    assert f"{path.lambdas[0]:.4g}" in shown(path)
    found = rs.compare(
        problem, {"a <b>": rs.ProxRR(epochs=3), "FISTA": rs.FISTA(epochs=3)}, seeds=1
    )
    assert "a <b>" in shown(found)  # escaped, and so read back as text


def test_names_in_a_pipeline() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    X["region"] = np.where(np.arange(len(X)) % 2, "north", "south")
    encode = ColumnTransformer(
        [
            ("text", OneHotEncoder(), ["region"]),
            ("numbers", StandardScaler(), ["proline", "alcohol"]),
        ]
    )
    pipeline = make_pipeline(encode, rs.RRClassifier()).fit(X, y)
    assert "numbers__proline" in rs.estimators.summary(pipeline)
    assert "numbers__proline" in pipeline[-1].summary(names=pipeline[:-1])
    assert "region=" not in pipeline[-1].summary()
    with pytest.raises(InputError, match="names must be 4, one per feature, got 2"):
        pipeline[-1].summary(names=["a", "b"])
    with pytest.raises(InputError, match="ends in a model of this package"):
        rs.estimators.summary(encode)


@pytest.mark.usefixtures("without_pictures")
def test_the_command_says_how_folds_were_drawn(tmp_path: Path) -> None:
    file = write_people(tmp_path)
    run("path", file, "-t", "buys", "--lambdas", "8", "--out", tmp_path / "p")
    words = check_page(tmp_path / "p/report.html")
    assert "5, drawn by the seed, with the same share of each class" in words
