"""ONNX graphs: encoder and model as one, pipelines, and what cannot be exported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from command_line import fit, run, write_people
from onnxruntime import InferenceSession
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import reshuffle as rs
from reshuffle.errors import InputError
from reshuffle.estimators.onnx_export import agreement

pytestmark = pytest.mark.usefixtures("without_pictures")

FITS = {
    "classes": ["-t", "buys", "--impute"],
    "svm": ["-t", "buys", "--impute", "--loss", "squared_hinge"],
    "more classes": ["-t", "colour", "--impute"],
    "numbers": ["-t", "spend", "--impute", "--l1", "0.1"],
    "raw": ["-t", "spend", "--raw", "--drop", "age"],
    "log": ["-t", "spend", "--impute", "--log-target"],
    "counts": ["-t", "age", "--drop-missing-target", "--loss", "poisson"],
    "whole numbers as classes": ["-t", "rooms", "--impute"],
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    table = pd.read_csv(write_people(folder))
    table["rooms"] = 1 + (table.income > table.income.median()) + (table.age > 60)
    table.loc[::17, "age"] = np.nan
    table.loc[::31, "colour"] = np.nan
    table.to_csv(folder / "gaps.csv", index=False)
    return folder / "gaps.csv"


@pytest.mark.parametrize("name", FITS)
def test_one_graph_predicts_what_the_command_does(people: Path, tmp_path: Path, name: str) -> None:
    options = FITS[name]
    drop = ["--drop-missing-target"] if name in ("more classes",) else []
    extra = ["--impute"] if name in ("raw", "counts") else []
    fit(people, tmp_path / "m", *options, *drop, *extra)
    out = tmp_path / "model.onnx"
    done = run("export", tmp_path / "m/model.npz", "--onnx", out, "--rows", people, "--json")
    found = json.loads(done.stdout)
    assert found["rows"] == 300
    assert found["difference"] < 1e-12
    run("export", tmp_path / "m/model.npz", "--onnx", out)  # on rows that are made up
    session = InferenceSession(out, providers=["CPUExecutionProvider"])
    model, table = rs.estimators.load(tmp_path / "m/model.npz"), pd.read_csv(people)
    feeds = {
        i.name: table[[i.name]].fillna("").astype(object).to_numpy()
        if i.type == "tensor(string)"
        else table[[i.name]].to_numpy(dtype=float)
        for i in session.get_inputs()
    }
    predicted = session.run(["prediction"], feeds)[0]
    if hasattr(model, "classes_"):
        assert predicted.tolist() == model.predict(table).tolist()
    else:
        np.testing.assert_allclose(predicted, model.predict(table), rtol=1e-12)


def test_a_graph_that_predicts_something_else_is_refused(people: Path, tmp_path: Path) -> None:
    fit(people, tmp_path / "m", "-t", "buys", "--impute")
    model, table = rs.estimators.load(tmp_path / "m/model.npz"), pd.read_csv(people)
    graph = rs.estimators.to_onnx(model, table)
    model.coef_ = model.coef_ + 1e-6
    with pytest.raises(InputError, match="does not predict what the model predicts"):
        agreement(graph, model, table)
    with pytest.raises(InputError, match="rows must be a table with the columns of the model"):
        rs.estimators.to_onnx(model, np.zeros((3, 5)))


def test_models_of_arrays() -> None:
    X, y = load_iris(return_X_y=True)
    graph = rs.estimators.to_onnx(rs.RRClassifier().fit(X, y), X)
    onnx.checker.check_model(graph, full_check=True)
    rs.estimators.to_onnx(rs.RRClassifier().fit(X, y > 0), X)  # labels True and False
    rs.estimators.to_onnx(rs.RRClassifier().fit(X, y + 0.0), X)
    Z, t = load_diabetes(return_X_y=True)
    rs.estimators.to_onnx(rs.RRRegressor(penalty="l1", l1=1.0).fit(Z, np.c_[t, t**2]), Z)
    rs.estimators.to_onnx(rs.RRRegressorCV(lambdas=5).fit(Z, t), Z)


@pytest.mark.parametrize("target", ["buys", "spend"])
def test_a_pipeline_with_columns(people: Path, target: str) -> None:
    """skl2onnx alone fails here: it joins columns of single and of double precision."""
    table = pd.read_csv(people).fillna({"colour": "none"})
    y = table.pop(target)
    table = table[["colour", "age", "income"]]
    columns = ColumnTransformer(
        [("text", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
         ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"])]
    )  # fmt: skip
    model = rs.RRClassifier() if target == "buys" else rs.RRRegressor()
    pipeline = Pipeline([("columns", columns), ("model", model)]).fit(table, y)
    graph = rs.estimators.to_onnx(pipeline, table)
    assert [i.name for i in graph.graph.input] == ["colour", "age", "income"]


def test_what_has_no_converter_is_named(people: Path) -> None:
    X, y = load_iris(return_X_y=True)
    own = make_pipeline(FunctionTransformer(np.cbrt), rs.RRClassifier()).fit(X, y)
    with pytest.raises(InputError, match=r"cannot convert this pipeline \(functiontransformer"):
        rs.estimators.to_onnx(own, X)
    with pytest.raises(InputError, match="ends in one, got StandardScaler"):
        rs.estimators.to_onnx(StandardScaler().fit(X), X)


def test_probabilities_of_other_links(capfd: pytest.CaptureFixture[str]) -> None:
    """The complementary log-log is exported, and probit refused: ONNX Runtime has no error function of doubles."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] + rng.standard_normal(80) > 0, "yes", "no")
    model = rs.RRClassifier(loss="cloglog", l2=0.01).fit(X, y)
    graph = rs.estimators.to_onnx(model, 5.0 * X)
    session = InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, {"X": 5.0 * X})
    assert labels.tolist() == model.predict(5.0 * X).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(5.0 * X), atol=1e-12)
    assert "Removing initializer" not in capfd.readouterr().err
    with pytest.raises(InputError, match="error function in double precision"):
        rs.estimators.to_onnx(rs.RRClassifier(loss="probit").fit(X, y), X)


def test_a_graph_without_the_exposure_of_the_fit_says_so(people: Path, tmp_path: Path) -> None:
    known = ["--loss", "poisson", "--exposure", "income", "--drop-missing-target", "--impute"]
    fit(people, tmp_path / "m", "-t", "age", *known)
    done = run("export", tmp_path / "m/model.npz", "--onnx", tmp_path / "model.onnx")
    assert "--exposure, which the graph does not take" in done.stdout + done.stderr
