"""Whatever is given to an estimator: a right answer, or an error that names it and says what is wanted."""

from __future__ import annotations

import warnings
from datetime import date
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import DataConversionWarning, NotFittedError

import reshuffle as rs
from reshuffle.estimators.early_stopping import held_out

pd: Any = pytest.importorskip("pandas")
polars: Any = pytest.importorskip("polars")
joblib: Any = pytest.importorskip("joblib")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = (X[:, 0] + 0.3 * RNG.standard_normal(60) > 0).astype(int)
T = X @ [1.0, 2.0, 0.0, -1.0] + 0.1 * RNG.standard_normal(60)
FRAME = pd.DataFrame(X, columns=list("abcd"))


@pytest.fixture(scope="module")
def usual() -> Any:
    return rs.RRClassifier().fit(X, Y)


LABELS: dict[str, Any] = {
    "text": np.where(Y, "yes", "no"),
    "text as objects": np.where(Y, "yes", "no").astype(object),
    "text of numpy": np.where(Y, "yes", "no").astype(np.dtypes.StringDType()),
    "bool": Y == 1,
    "floats": Y * 1.0,
    "far apart": Y * 10**15,
    "unsigned": Y.astype(np.uint8),
    "bytes": np.where(Y, b"yes", b"no"),
    "dates": np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")[Y],
    "a list": Y.tolist(),
    "a series": pd.Series(Y),
    "categories": pd.Series(np.where(Y, "yes", "no"), dtype="category"),
    "nullable": pd.Series(Y, dtype="Int64"),
    "strings of pandas": pd.Series(np.where(Y, "yes", "no"), dtype="string"),
    "numbers as objects": Y.astype(object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(usual: Any, kind: str) -> None:
    labels = LABELS[kind]
    model = rs.RRClassifier().fit(X, labels)
    np.testing.assert_allclose(model.coef_, usual.coef_, atol=1e-9)
    assert model.classes_.shape == (2,)
    np.testing.assert_array_equal(model.classes_[usual.predict(X)], model.predict(X))
    assert np.mean(model.predict(X) == np.asarray(labels)) == usual.score(X, Y)


WRONG_LABELS: dict[str, tuple[Any, str]] = {
    "mixed": (["a" if v else 1 for v in Y], "labels of one type and none missing, got int, str"),
    "mixed objects": (np.array(["a" if v else 1 for v in Y], dtype=object), "got int, str"),
    "None": (np.array(["a" if v else None for v in Y], dtype=object), "got NoneType, str"),
    "NaN": (np.where(Y, 1.0, np.nan), "Input y contains NaN"),
    "NaN as objects": (np.where(Y, 1.0, np.nan).astype(object), "got NaN"),
    "infinity": (np.where(Y, 1.0, np.inf), "Input y contains infinity"),
    "missing text": (pd.Series(["a" if v else None for v in Y], dtype="string"), "none missing"),
    "one class": (np.ones(60), r"y must hold two classes or more, got one class: \[1.0\]"),
    "continuous": (T, "Unknown label type: continuous"),
    "complex": (Y + 0j, "Complex data not supported"),
    "too long": (np.append(Y, 0), "X has 60 rows, y has 61"),
    "two columns": (np.column_stack([Y, Y]), "y should be a 1d array"),
    "nothing": (None, "requires y to be passed"),
    "masked": (np.ma.masked_equal(Y, 1), "y has masked values"),
    "a number": (3, "y should be a 1d array"),
}


@pytest.mark.parametrize("kind", WRONG_LABELS)
def test_labels_that_cannot_be_used(kind: str) -> None:
    labels, told = WRONG_LABELS[kind]
    with pytest.raises(ValueError, match=told):
        rs.RRClassifier().fit(X, labels)


def int64() -> Any:
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def frozen() -> Any:
    copy = X.copy()
    copy.flags.writeable = False
    return copy


DESIGNS: dict[str, Any] = {
    **{kind: sp.csr_matrix(X).asformat(kind) for kind in ("csc", "coo", "lil", "dok", "bsr")},
    "sparse array": sp.csr_array(X),
    "64-bit indices": int64(),
    "read-only": frozen(),
    "by columns": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=0)[::2],
    "longer floats": X.astype(np.longdouble),
    "objects": X.astype(object),
    "lists": X.tolist(),
    "a frame": FRAME,
    "nullable": FRAME.convert_dtypes(),
    "unmasked": np.ma.array(X),
}


@pytest.mark.parametrize("kind", DESIGNS)
def test_tables_of_any_kind(usual: Any, kind: str) -> None:
    design = DESIGNS[kind]
    model = rs.RRClassifier().fit(design, Y)
    np.testing.assert_allclose(model.coef_, usual.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(design), usual.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, bool])
def test_numbers_of_any_kind(dtype: Any) -> None:
    design = (10 * X + 50).astype(dtype) if dtype is not bool else X > 0
    model = rs.RRClassifier(l2=0.1).fit(design, Y)
    other = rs.RRClassifier(l2=0.1).fit(design.astype(np.float64), Y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-5)


WRONG_DESIGNS: dict[str, tuple[Any, str]] = {
    "NaN": (np.where(X > 2, np.nan, X), "X must be finite, got NaN"),
    "infinity": (np.where(X > 2, np.inf, X), "X must be finite, got infinity"),
    "NaN in sparse": (sp.csr_matrix(np.where(X > 2, np.nan, X)), "Input X contains NaN"),
    "NaN in a frame": (FRAME.mask(FRAME > 1.5), "Input X contains NaN"),
    "text": (np.array([["a", "b"]] * 60, dtype=object), "X must hold numbers, got text"),
    "a column of text": (FRAME.assign(e="x"), "got text in the columns 'e'"),
    "a category": (FRAME.assign(e=pd.Categorical(["u", "v"] * 30)), "got text in the columns 'e'"),
    "masked": (np.ma.masked_greater(X, 1.0), "X has masked values"),
    "one dimension": (X[:, 0], "Expected 2D array, got 1D array"),
    "three dimensions": (X[:, :, None], "Found array with dim 3"),
    "no columns": (X[:, :0], r"0 feature\(s\)"),
    "no rows": (X[:0], r"0 sample\(s\)"),
    "complex": (X + 0j, "Complex data not supported"),
}


@pytest.mark.parametrize("kind", WRONG_DESIGNS)
def test_tables_that_cannot_be_used(kind: str) -> None:
    design, told = WRONG_DESIGNS[kind]
    labels = Y[: design.shape[0]]
    for model in (rs.RRClassifier(), rs.RRRegressor(), rs.RRClassifierCV(lambdas=2, cv=2)):
        with pytest.raises(ValueError, match=told):
            model.fit(design, labels)
    if kind not in ("no rows", "no columns", "one dimension", "a column of text", "a category"):
        with pytest.raises(ValueError, match=r"X|array|Complex|features"):
            rs.RRClassifier().fit(X, Y).predict(design)


WEIGHTS: dict[str, tuple[Any, str]] = {
    "negative": (-np.ones(60), "sample_weight must not be negative"),
    "zero": (np.zeros(60), "sample_weight must not be zero everywhere"),
    "NaN": (np.full(60, np.nan), "sample_weight must be finite"),
    "infinity": (np.full(60, np.inf), "sample_weight must be finite"),
    "short": (np.ones(5), "sample_weight must be 60 numbers"),
    "a column": (np.ones((60, 1)), "sample_weight must be 60 numbers"),
    "text": (np.array(["a"] * 60), "sample_weight must be 60 numbers"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_that_cannot_be_used(kind: str) -> None:
    weights, told = WEIGHTS[kind]
    for model, targets in ((rs.RRClassifier(), Y), (rs.RRRegressor(), T)):
        with pytest.raises(rs.InputError, match=told):
            model.fit(X, targets, sample_weight=weights)
        more = {"classes": [0, 1]} if hasattr(model, "class_weight") else {}
        with pytest.raises(rs.InputError, match=told):
            clone(model).partial_fit(X, targets, sample_weight=weights, **more)


def test_weights_as_they_may_be(usual: Any) -> None:
    for weights in (2.0, np.full(60, 1e308), np.full(60, 1e-300), np.ones(60, bool), [1] * 60):
        model = rs.RRClassifier().fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(model.coef_, usual.coef_, atol=1e-9)
    three = np.where(X[:, 1] > 1.0, 2, Y)
    model = rs.RRClassifier().fit(X, three, sample_weight=np.where(three == 2, 0.0, 1.0))
    assert model.classes_.tolist() == [0, 1]  # rows without weight are not there
    with pytest.raises(rs.InputError, match=r"got one class: \[1\]"):
        rs.RRClassifier().fit(X, Y, sample_weight=Y)


def test_columns_of_targets(usual: Any) -> None:
    with pytest.warns(DataConversionWarning):
        model: Any = rs.RRClassifier().fit(X, Y[:, None])
    np.testing.assert_array_equal(model.coef_, usual.coef_)
    with pytest.warns(DataConversionWarning):
        model = rs.RRRegressor().fit(X, T[:, None])
    assert model.predict(X).shape == (60,)
    for texts in (np.array(["a"] * 60), [1.0, "b"] * 30, pd.Series(["12 kg"] * 60)):
        for regression in (rs.RRRegressor(), rs.RRRegressorCV(lambdas=2, cv=2)):
            with pytest.raises(rs.InputError, match=r"y must hold numbers, got .* a classifier"):
                regression.fit(X, texts)
    with pytest.raises(rs.InputError, match=r"y must hold numbers, got \{\}"):
        rs.RRRegressor().fit(X, np.array([{}] * 60))
    with pytest.raises(rs.InputError, match="y must hold numbers, got dates"):
        rs.RRRegressor().fit(X, pd.date_range("2020-01-01", periods=60))
    words = np.array(["1.5", "2"] * 30)  # numbers as text, which scikit-learn takes too
    assert rs.RRRegressor().fit(X, words).converged_


def test_small_and_degenerate_sets() -> None:
    assert rs.RRRegressor().fit(X[:1], [2.0]).predict(X[:1]) == pytest.approx(2.0)
    assert rs.RRClassifier().fit(X[:2], [0, 1]).score(X[:2], [0, 1]) == 1.0
    assert rs.RRClassifier().fit(X[:, :1], Y).coef_.shape == (1, 1)
    constant = rs.RRClassifier().fit(np.column_stack([X, np.ones(60)]), Y)
    assert abs(constant.coef_[0, 4]) < 1e-9  # the intercept does its work, unpenalised
    nothing = rs.RRClassifier().fit(np.zeros((60, 2)), Y)
    np.testing.assert_array_equal(nothing.coef_, 0.0)
    assert nothing.predict_proba(np.zeros((1, 2)))[0, 1] == pytest.approx(Y.mean())
    with pytest.raises(rs.InputError, match="all rows of X are zero"):
        rs.RRClassifier(fit_intercept=False).fit(np.zeros((60, 2)), Y)
    for loss in ("squared", "huber"):
        flat = rs.RRRegressor(loss=loss).fit(X, np.full(60, 3.0))
        np.testing.assert_allclose(flat.predict(X), 3.0)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12, 1e100])
def test_scales_of_columns_do_not_matter_without_a_penalty(scale: float) -> None:
    usual = rs.RRRegressor(penalty=None).fit(X, T).predict(X)
    scaled = X * [scale, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(
        rs.RRRegressor(penalty=None).fit(scaled, T).predict(scaled), usual, atol=1e-6
    )
    wide = rs.RRRegressor(penalty=None).fit(X, scale * T).predict(X)
    np.testing.assert_allclose(wide / scale, usual, atol=1e-6)


def test_targets_beyond_reason_are_refused_in_our_words() -> None:
    with pytest.raises(
        rs.InputError, match=r"the losses overflow; bring y \(or the columns of X\)"
    ):
        rs.RRRegressor().fit(X, 1e200 * T)


PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"penalty": "l3"}, "penalty must be one of 'l1', 'l2', 'elasticnet', 'none', or an object"),
    ({"penalty": rs.penalties.L1}, r"penalty must have methods value\(x\) and prox\(x, step\)"),
    ({"penalty": rs.penalties.L1(np.ones(7))}, "do not fit coordinates of shape"),
    ({"penalty": rs.penalties.L1(0.1), "l1": 0.2}, "l1 is for a penalty that is given by name"),
    (
        {"penalty": rs.penalties.L1(0.1), "positive": True},
        "positive is for a penalty that is given by name",
    ),
    ({"l1": 0.1}, "penalty='l2' has no l1, got l1=0.1; use penalty='l1' or 'elasticnet'"),
    ({"penalty": None, "l2": 0.1}, "penalty='none' has no l2"),
    ({"l2": -1.0}, "l2 must be a number, finite and not negative"),
    ({"l2": np.nan}, "l2 must be a number, finite and not negative"),
    ({"l2": "strong"}, "l2 must be a number, finite and not negative"),
    ({"penalty": "l1", "l1": True}, "l1 must be a number, finite and not negative, got True"),
    ({"l2": np.True_}, "l2 must be a number"),
    ({"penalty": ""}, "penalty must be one of .*, got ''"),
    ({"penalty": False}, r"penalty must have methods value\(x\) and prox"),
    ({"verbose": "a"}, "verbose must be True, False or an integer from 0 on, got 'a'"),
    ({"verbose": -1}, "verbose must be True, False or an integer from 0 on, got -1"),
    ({"verbose": None}, "verbose must be"),
    ({"tol": "tight"}, "tol must be"),
    ({"tol": True}, "tol must be"),
    ({"tol": -1.0}, "tol must be finite and not negative"),
    ({"max_iter": 0}, "max_iter must be a positive integer"),
    ({"max_iter": 2.5}, "max_iter must be a positive integer"),
    ({"random_state": "a"}, "random_state must be None, an integer"),
    ({"random_state": -1}, "random_state must be None, an integer"),
    ({"solver": "sag"}, "solver must be one of 'exact', 'proxrr', 'proxsgd', 'fista'"),
    ({"solver": rs.FISTA}, "solver must be a name or have a method solve"),
    ({"solver": rs.FedRR()}, "FedRR takes a Federation"),
    ({"loss": rs.losses.Logistic}, "loss must be an instance, got the class Logistic"),
    ({"loss": "hinge"}, "loss must be one of"),
    ({"penalty_factors": [1, 2]}, "penalty_factors must be 4 numbers, one per feature"),
    ({"penalty_factors": [1, 2, -3, 4]}, "penalty_factors must not be negative"),
    ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ({"positive": 1}, "positive must be True or False"),
    ({"early_stopping": True, "n_iter_no_change": 0}, "n_iter_no_change must be a positive"),
]


@pytest.mark.parametrize(("settings", "told"), PARAMETERS, ids=lambda value: str(value)[:40])
def test_parameters_that_cannot_be_used(settings: dict[str, Any], told: str) -> None:
    for model, targets in ((rs.RRClassifier, Y), (rs.RRRegressor, T)):
        with pytest.raises(rs.InputError, match=told):
            model(**settings).fit(X, targets)


def test_parameters_of_classes_that_cannot_be_used() -> None:
    three = np.arange(60) % 3
    for settings, labels, told in (
        ({"class_weight": "bal"}, Y, 'class_weight must be None, "balanced" or a dict'),
        ({"class_weight": {0: -1.0, 1: 1.0}}, Y, "class_weight must not be negative"),
        ({"class_weight": {7: 1.0}}, Y, "not in class_weight"),
        ({"loss": rs.losses.Squared()}, Y, "loss must be one for classes"),
        ({"loss": rs.losses.Multinomial()}, Y, "Multinomial.. is for more; use loss='logistic'"),
        ({"loss": "squared_hinge"}, three, "Only binary classification is supported"),
    ):
        with pytest.raises(ValueError, match=told):
            rs.RRClassifier(**settings).fit(X, labels)
    with pytest.raises(rs.InputError, match="loss must be one for numbers"):
        rs.RRRegressor(loss=rs.losses.Logistic()).fit(X, T)


def test_columns_must_be_those_of_the_fit() -> None:
    model = rs.RRClassifier().fit(FRAME, Y)
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="same order"):
        model.predict(FRAME[["b", "a", "c", "d"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    with pytest.raises(ValueError, match="X has 2 features, but RRClassifier is expecting 4"):
        rs.RRClassifier().fit(X, Y).predict(X[:, :2])
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


def test_a_fit_that_failed_leaves_nothing_to_predict_with() -> None:
    model = rs.RRClassifier(l2=-1.0)
    with pytest.raises(rs.InputError):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_random_states() -> None:
    seeds = [0, np.int64(3), np.random.RandomState(0), np.random.default_rng(0), None]
    models = [rs.RRClassifier(random_state=seed).fit(X, Y) for seed in seeds]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-6)


def test_joblib_keeps_a_model(usual: Any, tmp_path: Any) -> None:
    joblib.dump(usual, tmp_path / "model")
    again = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(again.predict_proba(X), usual.predict_proba(X))


def test_a_clone_has_its_own_parts() -> None:
    model = rs.RRClassifier(penalty=rs.penalties.L1(np.full(4, 0.01))).fit(X, Y)
    other = clone(model)
    assert other.penalty == model.penalty
    assert other.penalty is not model.penalty
    assert not hasattr(other, "coef_")


def test_bags_of_words_are_put_in_order_without_a_word(usual: Any) -> None:
    """Rows of text vectorisers have unsorted indices; what the user gave is not touched."""
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.data = matrix.indices[::-1].copy(), matrix.data[::-1].copy()
    matrix = sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr))  # rows in reverse order
    matrix = matrix[::-1]
    matrix.has_sorted_indices = matrix.has_canonical_format = False
    before = matrix.indices.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rs.RRClassifier().fit(matrix, Y)
        np.testing.assert_allclose(model.predict_proba(matrix), usual.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(matrix.indices, before)
    np.testing.assert_allclose(model.coef_, usual.coef_, atol=1e-9)


COSTLY: dict[str, Any] = {
    "total variation": rs.penalties.TotalVariation2D(0.002, image=(8, 8), l1=0.001),
    "fused lasso": rs.penalties.FusedLasso(0.002, 0.001),
    "nuclear norm": rs.penalties.NuclearNorm(0.01),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_costly_penalties_converge_by_default(kind: str) -> None:
    """On digits: 3 or 8, and all ten for the nuclear norm, to the looser of the default accuracies."""
    digits, labels = load_digits(return_X_y=True)
    some = np.isin(labels, (3, 8)) | (kind == "nuclear norm")
    model = rs.RRClassifier(penalty=COSTLY[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(digits[some] / 16.0, labels[some])
    assert model.converged_
    assert model.tol is None
    assert model.certificate_.value <= model.certificate_.tol == 1e-4


def test_the_default_accuracy_is_tight_where_newton_steps_end_the_run(usual: Any) -> None:
    assert usual.certificate_.tol == 1e-13
    three = rs.RRClassifier(penalty=rs.penalties.GroupLasso(0.01)).fit(X, np.arange(60) % 3)
    assert three.certificate_.tol == 1e-13
    assert rs.RRRegressor().fit(X, np.c_[T, -T]).certificate_.tol == 1e-13
    assert rs.RRClassifier(solver="fista", l2=0.1).fit(X, Y).certificate_.tol == 1e-4
    assert rs.RRClassifier(tol=1e-3).fit(X, Y).certificate_.tol == 1e-3
    assert rs.RRClassifierCV(lambdas=3, cv=2).fit(X, Y).certificate_.tol == 1e-8
    path = rs.rr_path(X, T, loss="squared", penalty=rs.penalties.FusedLasso(1.0, 1.0), lambdas=3)
    assert {c.tol for c in path.certificates} == {1e-4}
    assert path.converged.all()


def test_tables_whose_columns_are_no_numbers_or_not_told_apart() -> None:
    model = rs.RRClassifier()
    with pytest.raises(rs.InputError, match="columns of different names, got 'a' twice"):
        model.fit(pd.DataFrame(X, columns=list("abca")), Y)
    with pytest.raises(rs.InputError, match="dates or times in the column 'b'"):
        model.fit(FRAME.assign(b=pd.Timestamp("2020-01-01")), Y)
    with pytest.raises(rs.InputError, match="dates or times in the column 'b'"):
        model.fit(FRAME.assign(b=pd.Timedelta(days=1)), Y)
    model.fit(FRAME, Y)
    with pytest.raises(rs.InputError, match="dates or times in the column 'b'"):
        model.predict(FRAME.assign(b=pd.Timestamp("2020-01-01")))
    with pytest.raises(rs.InputError, match="got a LazyFrame: collect it"):
        model.fit(polars.DataFrame(X).lazy(), Y)
    with pytest.raises(rs.InputError, match="dates or times in the column 'c'"):
        model.fit(polars.DataFrame({"c": [date(2020, 1, 1)] * 60}), Y)


def test_a_table_of_polars_is_read_by_name_like_one_of_pandas() -> None:
    theirs, frame = rs.RRClassifier().fit(FRAME, Y), polars.from_pandas(FRAME)
    ours = rs.RRClassifier().fit(frame, polars.Series(Y))
    assert list(ours.feature_names_in_) == list(FRAME.columns)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.predict(frame), theirs.predict(FRAME))
    with pytest.raises(ValueError, match="feature names"):
        ours.predict(frame.rename({FRAME.columns[0]: "another"}))


def test_early_stopping_that_cannot_stop() -> None:
    model = rs.RRClassifier(early_stopping=True, random_state=0)
    with pytest.raises(rs.InputError, match="early_stopping must be False for partial_fit"):
        model.partial_fit(X, Y, classes=[0, 1])
    watched = held_out(60, Y, 0.1, 0)[1]
    weights = np.ones(60)
    weights[watched] = 0.0
    with pytest.raises(rs.InputError, match="zero in all rows that early_stopping holds out"):
        model.fit(X, Y, sample_weight=weights)
    weights[watched[0]] = 1.0
    assert model.fit(X, Y, sample_weight=weights).validation_losses_[0] > 0


def test_names_of_others_in_the_summary() -> None:
    """A line for a feature, whatever its name: no line ends, no escapes of a terminal, no thousand letters."""
    names = ["a\nb", "\x1b[31mred", "c" * 5000, "Größe"]
    text = rs.RRClassifier().fit(pd.DataFrame(X, columns=names), Y).summary()
    assert "\x1b" not in text
    assert r"\x1b[31mred" in text
    assert r"a\nb" in text
    assert "Größe" in text
    assert max(map(len, text.splitlines())) < 150


def test_numbers_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(rs.InputError, match=r"squares of X overflow.*divide X"):
        rs.RRClassifier().fit(1e200 * X, Y)


def test_targets_whose_squares_vanish_are_refused() -> None:
    """Their losses would be zero, and so would the model."""
    for loss in ("squared", "huber", "quantile"):
        with pytest.raises(rs.InputError, match="y must not lie below 1e-150 throughout"):
            rs.RRRegressor(loss=loss).fit(X, 1e-200 * T)
    small = rs.RRRegressor().fit(X, 1e-100 * T)
    np.testing.assert_allclose(1e100 * small.coef_, rs.RRRegressor().fit(X, T).coef_, rtol=1e-9)
    assert not rs.RRRegressor().fit(X, 0.0 * T).coef_.any()
