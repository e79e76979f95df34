"""Models in files, and models for other libraries."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime import InferenceSession
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from skops import io as skops_io

import reshuffle as rs
from reshuffle.npz_archive import read_archive, write_archive

MODELS: dict[str, Any] = {
    "two classes": rs.RRClassifier(penalty="l1", l1=0.01, class_weight={0: 2.0, 1: 1.0}),
    "three classes": rs.RRClassifier(penalty=rs.penalties.GroupLasso(0.01)),
    "squared hinge": rs.RRClassifier(loss="squared_hinge", random_state=None),
    "squared": rs.RRRegressor(penalty_factors=np.ones(10)),
    "Huber": rs.RRRegressor(loss=rs.losses.Huber(20.0), fit_intercept=False),
    "Poisson": rs.RRRegressor(loss="poisson", l2=0.1),
    "cross-validated": rs.RRClassifierCV(lambdas=5),
}


def data(name: str) -> tuple[Any, Any]:
    if name == "three classes":
        X, y = load_iris(return_X_y=True, as_frame=True)
        return X, y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    if name in ("squared", "Huber", "Poisson"):
        return load_diabetes(return_X_y=True)  # type: ignore[no-any-return]
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


@pytest.fixture(scope="module", params=MODELS)
def fitted(request: Any) -> tuple[Any, Any, Any]:
    X, y = data(request.param)
    return MODELS[request.param].fit(X, y), X, y


def answers(model: Any, X: Any) -> list[Any]:
    names = ("predict", "decision_function", "predict_proba")
    return [getattr(model, name)(X) for name in names if hasattr(model, name)]


def test_a_loaded_model_answers_the_same(fitted: Any, tmp_path: Path) -> None:
    model, X, y = fitted
    model.save(tmp_path / "model.npz", X, y)
    again = rs.estimators.load(tmp_path / "model.npz")
    assert type(again) is type(model)
    for one, other in zip(answers(model, X), answers(again, X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.summary().splitlines()[1:] == model.summary().splitlines()[1:]
    assert again.score(X, y) == model.score(X, y)
    assert not hasattr(again, "trace_")
    assert os.path.getsize(tmp_path / "model.npz") < 10_000
    with read_archive(tmp_path / "model.npz", "model file", 2) as stored:
        about = stored.about
    assert set(about["data"]) == {"X", "y"}
    assert about["package"] == rs.__version__
    assert again.certificate_ == model.certificate_
    again.save(tmp_path / "again.npz")
    for one, other in zip(
        answers(model, X), answers(rs.estimators.load(tmp_path / "again.npz"), X), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_objects_are_described_and_not_used_to_fit_again(tmp_path: Path) -> None:
    X, y = data("three classes")
    model = rs.RRClassifier(penalty=rs.penalties.GroupLasso(0.01)).fit(X, y)
    model.save(tmp_path / "model")
    again = rs.estimators.load(tmp_path / "model")
    assert "GroupLasso" in repr(again.penalty)
    assert again.classes_.dtype == model.classes_.dtype
    assert again.feature_names_in_.tolist() == X.columns.tolist()
    with pytest.raises(rs.InputError, match=r"penalty must have methods value\(x\) and prox"):
        again.fit(X, y)
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(X.rename(columns={X.columns[0]: "other"}))


def test_the_same_predictions_from_scikit_learn(fitted: Any) -> None:
    model, X, _ = fitted
    theirs = model.to_sklearn()
    assert type(theirs).__module__.startswith("sklearn.")
    for one, other in zip(answers(model, X), answers(theirs, X), strict=True):
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(one, other)


def test_onnx_predicts_the_same(fitted: Any) -> None:
    """In 32 bits, which is what ONNX computes linear models in."""
    model, X, _ = fitted
    rows = np.asarray(X, dtype=np.float32)
    theirs = model.to_sklearn()
    classes = hasattr(model, "classes_")
    options = {"zipmap": False} if type(theirs).__name__ == "LogisticRegression" else {}
    network = to_onnx(theirs, rows[:1], options=options)
    session = InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    found, *more = session.run(None, {"X": rows})
    expected = answers(model, X)
    if not classes:
        np.testing.assert_allclose(found.ravel(), expected[0], rtol=1e-4)
        return
    decided = np.sort(np.atleast_2d(np.c_[-expected[1], expected[1]]))[:, -2:]
    sure = np.abs(np.diff(decided, axis=1)).ravel() > 1e-4  # of the others, rounding decides
    np.testing.assert_array_equal(found[sure], expected[0][sure])
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(more[0], expected[2], atol=1e-4)


def test_skops_keeps_the_same_model(fitted: Any) -> None:
    model, X, _ = fitted
    content = skops_io.dumps(model.to_sklearn())
    unknown = skops_io.get_untrusted_types(data=content)
    assert all(name.startswith("sklearn._loss.") for name in unknown)  # of older versions
    theirs = skops_io.loads(content, trusted=unknown)
    for one, other in zip(answers(model, X), answers(theirs, X), strict=True):
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(one, other)


LABELS: dict[str, Any] = {
    "bytes": np.array([b"no", b"yes"]),
    "dates": np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"),
    "text of numpy": np.array(["no", "yes"], dtype=np.dtypes.StringDType()),
    "flags": np.array([False, True]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_go_to_scikit_learn(kind: str) -> None:
    X, y = data("two classes")
    model = rs.RRClassifier(l2=0.01).fit(X, LABELS[kind][y])
    theirs = model.to_sklearn()
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
    np.testing.assert_array_equal(theirs.classes_, model.classes_)


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    class WithMean(rs.losses.Squared):
        @staticmethod
        def mean(z: Any) -> Any:
            return 2.0 * z

    X, y = load_diabetes(return_X_y=True)
    model = rs.RRRegressor(loss=WithMean()).fit(X, y)
    for act in (model.to_sklearn, lambda: model.save(tmp_path / "model")):
        with pytest.raises(rs.InputError, match="WithMean"):
            act()
    numbers = np.array([0, 1] * 221, dtype=object)
    rs.RRClassifier().fit(X, numbers).save(tmp_path / "model")
    again = rs.estimators.load(tmp_path / "model")
    assert again.predict(X).dtype == object
    (tmp_path / "model").unlink()
    odd = rs.RRClassifier().fit(X, np.array([Fraction(1, 2), Fraction(1, 3)] * 221))
    with pytest.raises(rs.InputError, match="classes_ must be numbers or text"):
        odd.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def forged(change: Any, path: Path) -> bytes:
    """The file again, with another 'about', and a checksum that fits."""
    with read_archive(path, "model file", 2) as stored:
        about, arrays = stored.about, stored.arrays()
    change(about)
    write_archive(path.with_name("forged"), "model file", 2, about, arrays)
    return path.with_name("forged").read_bytes()


def test_other_and_damaged_files_are_refused(tmp_path: Path) -> None:
    X, y = data("two classes")
    good = tmp_path / "good.npz"
    rs.RRClassifier().fit(X, y).save(good)
    whole = good.read_bytes()
    bad = tmp_path / "bad.npz"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.zeros(10**6))
    pickled = io.BytesIO()
    np.savez(pickled, about=np.array([{}], dtype=object))  # needs pickle to read
    contents = {
        "empty": b"",
        "text": b"a,b\n1,2\n",
        "pickle": pickle.dumps({"a": 1}),
        "compressed": buffer.getvalue(),
        "with objects": pickled.getvalue(),
        "another format": forged(lambda about: about.update(kind="other"), good),
        "a later version": forged(lambda about: about.update(version=99), good),
        "another class": forged(lambda about: about.update(estimator="object"), good),
        "no loss": forged(lambda about: about.pop("loss"), good),
        "more features": forged(lambda about: about.update(features=31), good),
        "unknown parameter": forged(lambda about: about["parameters"].update(x=1), good),
    }
    for content in contents.values():
        bad.write_bytes(content)
        with pytest.raises(rs.InputError, match=r"bad\.npz"):
            rs.estimators.load(bad)
    rs.ExactProxRR().solve(rs.Problem(X, 2.0 * y - 1.0)).save(bad)
    with pytest.raises(rs.InputError, match="not a model file"):
        rs.estimators.load(bad)
    with pytest.raises(FileNotFoundError):
        rs.estimators.load(tmp_path / "nothing")
    with pytest.raises(rs.InputError, match="is not a file"):
        rs.estimators.load(tmp_path)
    model = rs.estimators.load(good)
    rng = np.random.default_rng(0)
    for _ in range(300):  # one byte changed, or an end cut off: the same model or an error
        damaged = bytearray(whole)
        if rng.random() < 0.5:
            damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        else:
            del damaged[rng.integers(len(whole)) :]
        bad.write_bytes(damaged)
        try:
            again = rs.estimators.load(bad)
        except rs.InputError:
            continue
        np.testing.assert_array_equal(again.coef_, model.coef_)
        np.testing.assert_array_equal(again.classes_, model.classes_)


def test_a_file_is_a_zip_of_arrays_that_numpy_reads(tmp_path: Path) -> None:
    X, y = data("squared")
    rs.RRRegressor().fit(X, y).save(tmp_path / "model.npz")
    assert zipfile.is_zipfile(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as stored:
        assert stored["coef"].shape == (10,)
