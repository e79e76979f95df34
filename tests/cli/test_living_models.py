"""A model that a command wrote goes on living: raw rows in Python, kept columns, scores, dates, log targets."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import check_page, fit, run, write_people
from sklearn.datasets import load_diabetes

import reshuffle as rs
from reshuffle.errors import InputError

pytestmark = pytest.mark.usefixtures("without_pictures")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame, Any, list[str]]:
    """A file, the same as a table, the model of the command, and the command's predictions."""
    folder = tmp_path_factory.mktemp("people")
    file = write_people(folder)
    lines = file.read_text().splitlines()
    lines[3] = re.sub(r",\d+,", ",,", lines[3], count=1)  # an age that is not known
    file.write_text("\n".join(lines) + "\n")
    fit(file, folder / "m", "-t", "buys", "--impute", "--l1", "0.01")
    done = run("predict", folder / "m/model.npz", file, "--proba")
    table = pd.read_csv(file, keep_default_na=True)
    return file, table, rs.estimators.load(folder / "m/model.npz"), done.stdout.splitlines()[1:]


FORMS = {
    "pandas": lambda t: t,
    "other order": lambda t: t[t.columns[::-1]].set_index(np.arange(len(t))[::-1]),
    "categories": lambda t: t.astype({"colour": "category"}),
    "nullable": lambda t: t.convert_dtypes(),
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "dict of arrays": lambda t: {name: t[name].to_numpy() for name in t},
    "list of rows": lambda t: t.to_dict("records"),
    "dict of lists": lambda t: {name: t[name].tolist() for name in t},
}


@pytest.mark.parametrize("form", FORMS)
def test_raw_rows_of_any_table(people: Any, form: str) -> None:
    _, table, model, lines = people
    given = FORMS[form](table.drop(columns=["buys"]))
    predicted, proba = model.predict(given), model.predict_proba(given)
    assert predicted.tolist() == [line.split(",")[0] for line in lines]
    np.testing.assert_array_equal(proba[:, 1], [float(line.split(",")[2]) for line in lines])


def test_chunks_are_predicted_like_the_whole(people: Any) -> None:
    file, table, model, _ = people
    parts = [model.decision_function(part) for part in pd.read_csv(file, chunksize=7)]
    np.testing.assert_array_equal(np.concatenate(parts), model.decision_function(table))


def test_codes_are_known_by_their_values(tmp_path: Path) -> None:
    """A column of codes with gaps is written as 1.0 and 2.0, and is read as numbers: the same categories."""
    table = load_diabetes(as_frame=True, scaled=False).frame[["sex", "bmi", "target"]]
    table.loc[::9, "sex"] = np.nan
    file = tmp_path / "codes.csv"
    table.to_csv(file, index=False)
    assert ",".join(file.read_text().split()[2:4]).startswith("1.0,")
    fit(file, tmp_path / "m", "-t", "target", "--categorical", "sex", "--impute", "--l2", "0")
    model = rs.estimators.load(tmp_path / "m/model.npz")
    assert model.encoding_.feature_names[:2] == ["sex=1.0", "sex=2.0"]
    lines = run("predict", tmp_path / "m/model.npz", file).stdout.split()[1:]
    whole = table.assign(sex=table.sex.astype("Int64"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no category is new
        for given in (pd.read_csv(file), pl.read_csv(file), whole):
            np.testing.assert_array_equal(model.predict(given), np.array(lines, dtype=float))
        assert rs.estimators.to_onnx(model, table).graph.input
    other = tmp_path / "whole.csv"
    whole.to_csv(other, index=False)
    done = run("predict", tmp_path / "m/model.npz", other)
    assert (done.stdout.split()[1:], done.stderr) == (lines, "")
    run("export", tmp_path / "m/model.npz", "--onnx", tmp_path / "m.onnx", "--rows", other)
    with pytest.warns(UserWarning, match=r"'sex' holds '3' \(the table, row 1\)"):
        model.predict(table.assign(sex=[1, 3] + [2] * 440))
    with pytest.raises(InputError, match="column 'sex' is infinite"):
        model.predict(table.assign(sex=np.inf))


def test_the_encoder_is_in_the_model(people: Any) -> None:
    _, table, model, _ = people
    names = model.encoding_.get_feature_names_out()
    assert names.tolist() == model.feature_names_in_.tolist()
    X = model.encoding_.transform(table)
    assert X.shape == (300, names.size)
    assert model.score(table, table["buys"]) > 0.7
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(model.predict(X), model.predict(table))


def test_strange_rows_are_told(people: Any) -> None:
    _, table, model, _ = people
    with pytest.raises(InputError, match="lacks 'age', which the model reads"):
        model.predict(table.drop(columns="age"))
    with pytest.warns(UserWarning, match="'violet' .*which the model has not seen"):
        model.predict(table.assign(colour="violet"))
    with pytest.raises(InputError, match="column 'age' must hold a number, got 'old'"):
        model.predict(table.assign(age="old"))
    with pytest.raises(
        InputError, match=r"column 'age' must be a list of values, got 3: write \[3\]"
    ):
        model.predict({"colour": ["red"], "age": 3, "income": [1.0], "spend": [1.0]})
    with pytest.raises(InputError, match="equally many rows: colour has 1, age has 2"):
        model.predict({"colour": ["red"], "age": [3, 4], "income": [1.0], "spend": [1.0]})
    for array in (table.to_numpy(), np.zeros((3, 2)), [[1, 2, 3]]):
        with pytest.raises(InputError, match=r"raw rows are a table with the columns colour, age"):
            model.predict(array)
    with pytest.raises(InputError, match="collect it"):
        model.predict(pl.from_pandas(table).lazy())


def test_a_new_fit_forgets_the_file(people: Any) -> None:
    file, _, _, _ = people
    model = rs.estimators.load(file.parent / "m/model.npz")
    X, y = rs.datasets.breast_cancer()
    frame = pd.DataFrame(X)
    frame.columns = [f"f{j}" for j in range(X.shape[1])]
    model.fit(frame, y)
    assert not hasattr(model, "encoding_")
    assert model.predict(frame).shape == y.shape


def test_more_raw_rows_teach_the_model(people: Any) -> None:
    file, table, _, _ = people
    model = rs.estimators.load(file.parent / "m/model.npz")
    before = model.coef_.copy()
    model.partial_fit(table[:50], table["buys"][:50])
    assert model.coef_.shape == before.shape
    assert not np.array_equal(model.coef_, before)
    assert model.predict(table).shape == (300,)


def test_columns_are_kept_and_rows_scored(people: Any, tmp_path: Path) -> None:
    file, table, model, _ = people
    lines = file.read_text().splitlines()
    lines = [f"{'id' if k == 0 else f'r{k}'},{line}" for k, line in enumerate(lines)]
    lines[2] = re.sub("(yes|no)$", "", lines[2])
    new = tmp_path / "new.csv"
    new.write_text("\n".join(lines) + "\n")
    options = ["--keep", "id", "--keep", "age", "--score"]
    done = run("predict", file.parent / "m/model.npz", new, *options)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["id"] for row in rows] == [f"r{k}" for k in range(1, 301)]
    assert rows[0]["age"] == str(int(table.age[0]))
    assert "Quality on 299 rows (1 row has no target and is not scored)" in done.stderr
    done = run(
        "predict",
        file.parent / "m/model.npz",
        new,
        *options,
        "--json",
        "--out",
        tmp_path / "p.json",
    )
    found = json.loads(done.stdout)
    known = np.arange(300) != 1
    assert found["accuracy"] == pytest.approx(model.score(table[known], table["buys"][known]))
    assert found["without_target"] == 1
    assert json.loads((tmp_path / "p.json").read_text().splitlines()[0])["id"] == "r1"


def test_what_cannot_be_kept_or_scored(people: Any, tmp_path: Path) -> None:
    file, table, _, _ = people
    model = file.parent / "m/model.npz"
    done = run("predict", model, file, "--keep", "id", code=1)
    assert "lacks 'id'" in done.stderr
    assert done.stdout == ""
    table.drop(columns="buys").to_csv(tmp_path / "new.csv", index=False)
    assert "lacks 'buys'" in run("predict", model, tmp_path / "new.csv", "--score", code=1).stderr
    table.assign(buys="perhaps").to_csv(tmp_path / "new.csv", index=False)
    done = run("predict", model, tmp_path / "new.csv", "--score", code=1)
    assert "holds 'perhaps', which is no class of the model; its classes are no, yes" in done.stderr
    assert (
        "two columns"
        in run("predict", model, file, "--keep", "age", "--keep", "age", code=1).stderr
    )


def test_scores_of_numbers_and_of_files_without_names(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X.assign(y=y).to_csv(tmp_path / "d.csv", index=False)
    fit(tmp_path / "d.csv", tmp_path / "m", "-t", "y", "--loss", "squared")
    done = run("predict", tmp_path / "m/model.npz", tmp_path / "d.csv", "--score", "--json")
    model = rs.estimators.load(tmp_path / "m/model.npz")
    assert json.loads(done.stderr)["R²"] == pytest.approx(model.score(X, y))
    rows = [" ".join([f"{int(t > 150)}", *(f"{j}:{v:.17g}" for j, v in enumerate(r, 1))])
            for t, r in zip(y, X.to_numpy(), strict=True)]  # fmt: skip
    (tmp_path / "d.svm").write_text("\n".join(rows) + "\n")
    fit(tmp_path / "d.svm", tmp_path / "s")
    done = run("predict", tmp_path / "s/model.npz", tmp_path / "d.svm", "--score", "--json")
    assert 0.6 < json.loads(done.stderr)["accuracy"] < 0.9
    done = run("predict", tmp_path / "s/model.npz", tmp_path / "d.svm", "--keep", "id", code=1)
    assert "for tables" in done.stderr


def test_counts_are_scored_by_their_deviance(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"])
    table["claims"] = rng.poisson(np.exp(table.a))
    table.to_csv(tmp_path / "t.csv", index=False)
    fit(tmp_path / "t.csv", tmp_path / "m", "-t", "claims", "--loss", "poisson", "--l2", "0.01")
    assert "of the deviance explained on" in (tmp_path / "m/report.html").read_text()
    options = ["--score", "--json", "--out", tmp_path / "p.json"]
    done = run("predict", tmp_path / "m/model.npz", tmp_path / "t.csv", *options)
    model = rs.estimators.load(tmp_path / "m/model.npz")
    found = json.loads(done.stdout)
    assert found["D²"] == pytest.approx(model.score(table[["a", "b"]], table.claims))


def test_rows_without_a_target_can_be_left_out(tmp_path: Path) -> None:
    file = write_people(tmp_path)
    lines = file.read_text().splitlines()
    gaps = range(5, 60, 5)
    some = [re.sub("(yes|no)$", "NA", line) if k in gaps else line for k, line in enumerate(lines)]
    (tmp_path / "gaps.csv").write_text("\n".join(some) + "\n")
    done = run("fit", tmp_path / "gaps.csv", "-t", "buys", code=1)
    assert "give --drop-missing-target to leave such rows out (there are 11)" in done.stderr
    ours = fit(tmp_path / "gaps.csv", tmp_path / "a", "-t", "buys", "--drop-missing-target")
    assert ours["dropped"] == 11
    assert "11 rows without a target were left out" in check_page(tmp_path / "a/report.html")
    kept = [line for k, line in enumerate(lines) if k not in gaps]
    (tmp_path / "kept.csv").write_text("\n".join(kept) + "\n")
    theirs = fit(tmp_path / "kept.csv", tmp_path / "b", "-t", "buys")
    assert ours["objective"] == theirs["objective"]
    table = pd.read_csv(tmp_path / "gaps.csv")
    table.to_parquet(tmp_path / "gaps.parquet")
    again = fit(tmp_path / "gaps.parquet", tmp_path / "c", "-t", "buys", "--drop-missing-target")
    assert again["objective"] == pytest.approx(ours["objective"], rel=1e-9)


def test_a_logarithm_is_fitted_and_undone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    table = pd.DataFrame({"x": x, "price": np.exp(2 + 0.5 * x + 0.01 * rng.normal(size=200))})
    table.to_csv(tmp_path / "t.csv", index=False)
    found = fit(tmp_path / "t.csv", tmp_path / "m", "-t", "price", "--log-target", "--raw")
    assert found["held_out"]["R²"] > 0.99  # in units of the price
    assert found["held_out"]["R² of the logarithm"] > 0.99
    model = rs.estimators.load(tmp_path / "m/model.npz")
    np.testing.assert_allclose(model.coef_, [0.5], atol=0.01)
    np.testing.assert_allclose(model.predict(table), table.price, rtol=0.05)
    done = run("predict", tmp_path / "m/model.npz", tmp_path / "t.csv")
    np.testing.assert_array_equal(
        np.array(done.stdout.split()[1:], dtype=float), model.predict(table)
    )
    table.assign(price=table.price - 10).to_csv(tmp_path / "u.csv", index=False)
    done = run("fit", tmp_path / "u.csv", "-t", "price", "--log-target", code=1)
    assert "--log-target needs a target above zero" in done.stderr
    done = run(
        "fit", tmp_path / "t.csv", "-t", "price", "--log-target", "--loss", "poisson", code=1
    )
    assert "leave one of the two out" in done.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_dates_become_days(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    day = pd.date_range("2020-01-01", periods=200, freq="D")
    table = pd.DataFrame({"day": day, "x": rng.normal(size=200)})
    table["y"] = 0.1 * np.arange(200) + table.x + 0.01 * rng.normal(size=200)
    file = tmp_path / f"t.{ending}"
    table.to_csv(file, index=False) if ending == "csv" else table.to_parquet(file)
    done = run("fit", file, "-t", "y", code=1)
    assert "give --date day to take dates as days" in done.stderr
    fit(file, tmp_path / "m", "-t", "y", "--date", "day", "--raw", "--l2", "0")
    model = rs.estimators.load(tmp_path / "m/model.npz")
    np.testing.assert_allclose(model.coef_, [0.1, 1.0], atol=0.01)
    done = run("predict", tmp_path / "m/model.npz", file)
    commands = np.array(done.stdout.split()[1:], dtype=float)
    for given in (table, pl.from_pandas(table), table.assign(day=table.day.astype(str))):
        np.testing.assert_allclose(model.predict(given), commands, rtol=1e-12)
    zoned = table.assign(day=table.day.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_allclose(model.predict(zoned), commands, rtol=1e-12)
    if ending == "csv":
        file.write_text(file.read_text().replace("2020-01-05", "5 Jan 2020"))
        done = run("fit", file, "-t", "y", "--date", "day", code=1)
        assert "line 6: --date day: dates are written as 2024-01-31" in done.stderr


@pytest.mark.parametrize("written", ["%Y/%m/%d", "%Y.%m.%d 00:00"])
def test_dates_that_begin_with_the_year_are_read(tmp_path: Path, written: str) -> None:
    day = pd.date_range("2020-01-01", periods=100, freq="D")
    table = pd.DataFrame({"day": day.strftime(written), "y": 0.5 * np.arange(100)})
    file = tmp_path / "t.csv"
    table.to_csv(file, index=False)
    assert "give --date day to take dates as days" in run("fit", file, "-t", "y", code=1).stderr
    given = ("-t", "y", "--date", "day", "--raw", "--l2", "0", "--out", tmp_path / "m")
    assert "counts the rows" not in run("fit", file, *given, "--time", "day").stderr
    model = rs.estimators.load(tmp_path / "m/model.npz")
    np.testing.assert_allclose(model.coef_, [0.5], rtol=1e-6)
    np.testing.assert_allclose(model.predict(table), table.y, atol=1e-6)
    table.loc[3, "day"] = "4 Jan 2020"
    with pytest.raises(InputError, match="the table, row 3: column day: dates are written as"):
        model.predict(table)


@pytest.mark.parametrize("written", ["%d.%m.%Y", "%Y.%m.%d - today"])
def test_the_remedy_for_dates_is_one_that_works(tmp_path: Path, written: str) -> None:
    day = pd.date_range("2020-01-01", periods=100, freq="D")
    table = pd.DataFrame({"day": day.strftime(written), "y": 0.5 * np.arange(100)})
    table.to_csv(tmp_path / "t.csv", index=False)
    done = run("fit", tmp_path / "t.csv", "-t", "y", code=1)
    assert "write dates as 2024-01-31 and give --date day to take them as days" in done.stderr
    done = run("fit", tmp_path / "t.csv", "-t", "y", "--date", "day", code=1)
    assert "dates are written as 2024-01-31, 2024/01/31 or 2024-01-31T12:00, got" in done.stderr


def test_a_date_may_order_the_rows_and_be_a_feature(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    day = pd.date_range("2020-01-01", periods=100, freq="D").astype(str)
    table = pd.DataFrame({"day": day, "y": np.arange(100) + rng.normal(size=100)})
    file = tmp_path / "t.csv"
    table.sample(frac=1, random_state=0).to_csv(file, index=False)
    found = fit(file, tmp_path / "m", "-t", "y", "--date", "day", "--time", "day")
    assert found["held_out"]["R²"] > 0.9
    assert "apart from those of --groups, --time, --offset and --exposure (day)" in run("fit", file, "-t", "y", "--time", "day", code=1).stderr  # fmt: skip
    for text in ("Jan-5-1995", "1974Q1", "Jan 1995", "March 3, 2020"):
        table.assign(day=[text] * 50 + [text[:-1] + "2"] * 50).to_csv(file, index=False)
        assert "holds dates or times" in run("fit", file, "-t", "y", code=1).stderr
