"""RRCox and RRCoxCV: a fit, a path, folds, predictions and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from leukemia import EVENT, SEX, TIME, WEIGHTS, X
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reshuffle as rs

Y = rs.survival.outcome(TIME, EVENT)


def test_a_fit_is_the_minimiser() -> None:
    model = rs.RRCox().fit(X, Y)
    expected = rs.ProxNewton(tol=1e-12).solve(rs.CoxProblem(X, TIME, EVENT))
    assert model.converged_
    np.testing.assert_array_equal(model.coef_, expected.x)
    assert model.score(X, Y) == pytest.approx(0.8513323983169705)


def test_other_ways_to_write_y() -> None:
    known = rs.RRCox().fit(X, Y).coef_
    matrix = np.column_stack([TIME, EVENT])
    swapped = np.array(
        list(zip(TIME, EVENT, strict=True)), dtype=[("weeks", "f8"), ("relapse", "?")]
    )
    for y in (matrix, swapped):
        np.testing.assert_array_equal(rs.RRCox().fit(X, y).coef_, known)
    for y in (TIME, X, EVENT):
        with pytest.raises(rs.InputError, match="y must be an array of times and events"):
            rs.RRCox().fit(X, y)
    with pytest.raises(rs.InputError, match="one entry per row of X"):
        rs.RRCox().fit(X[1:], Y)


def test_strata_have_hazards_of_their_own() -> None:
    names = np.where(SEX > 0, "men", "women")
    model = rs.RRCox().fit(X[:, 1:], Y, strata=names)
    alone = model.predict_survival(X[:3, 1:], [5.0, 10.0], strata=["men", "women", "men"])
    assert alone.shape == (3, 2)
    assert np.all(np.diff(alone, axis=1) <= 0)
    swapped = model.predict_survival(X[:3, 1:], [5.0, 10.0], strata=["women", "women", "men"])
    assert not np.allclose(alone[0], swapped[0])
    np.testing.assert_array_equal(alone[1:], swapped[1:])
    with pytest.raises(rs.InputError, match="strata must be given"):
        model.predict_survival(X[:, 1:], [5.0])
    with pytest.raises(rs.InputError, match="strata must be of the fit"):
        model.predict_survival(X[:2, 1:], [5.0], strata=["men", "child"])


def test_a_stratum_of_weight_zero_has_no_hazard() -> None:
    names = np.array(["a", "b", "c"])[np.arange(42) % 3]
    model = rs.RRCox().fit(X, Y, strata=names, sample_weight=(names != "a").astype(float))
    assert model.strata_.tolist() == ["b", "c"]
    kept = names != "a"
    other = rs.RRCox().fit(X[kept], Y[kept], strata=names[kept])
    times = [3.0, 9.0]
    np.testing.assert_allclose(
        model.predict_survival(X[:4], times, strata=["b", "c", "c", "b"]),
        other.predict_survival(X[:4], times, strata=["b", "c", "c", "b"]),
        rtol=1e-10,
    )


def test_penalties_by_name_and_as_objects() -> None:
    by_name = rs.RRCox(penalty="elasticnet", l1=0.05, l2=0.1).fit(X, Y)
    as_object = rs.RRCox(penalty=rs.penalties.ElasticNet(0.05, 0.1)).fit(X, Y)
    np.testing.assert_allclose(by_name.coef_, as_object.coef_, atol=1e-12)
    factors = rs.RRCox(penalty="l1", l1=10.0, penalty_factors=[1, 0, 1]).fit(X, Y)
    assert factors.converged_
    assert np.flatnonzero(factors.coef_).tolist() == [1]
    positive = rs.RRCox(penalty="l1", l1=0.01, positive=True).fit(-X, Y)
    assert np.flatnonzero(positive.coef_).tolist() == [0]
    bent = rs.RRCox(penalty=rs.penalties.MCP(0.05)).fit(X, Y)
    assert not bent.converged_
    assert bent.message_.startswith("stationary")


def test_scikit_learn_around_it() -> None:
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["sex", "wbc", "rx"])
    model = clone(rs.RRCox(penalty="l2", l2=0.1)).fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["sex", "wbc", "rx"]
    again = pickle.loads(pickle.dumps(model))
    assert not hasattr(again, "problem_")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    pipeline = make_pipeline(StandardScaler(), rs.RRCox(penalty="l2"))
    search = GridSearchCV(pipeline, {"rrcox__l2": [0.01, 1.0]}, cv=3).fit(X, Y)
    assert 0.5 < search.best_score_ < 1.0


def test_path_and_cross_validation() -> None:
    path = rs.cox_path(X, Y, lambdas=12)
    assert path.converged.all()
    assert path.nonzeros[0] == 0
    alone = rs.RRCox(penalty="l1", l1=float(path.lambdas[7])).fit(X, Y)
    np.testing.assert_allclose(path.coefs[7], alone.coef_, atol=1e-4)
    for scoring in ("concordance", "likelihood"):
        model = rs.RRCoxCV(lambdas=12, scoring=scoring, cv=4).fit(X, Y, sample_weight=WEIGHTS)
        assert model.cv_losses_.shape == (12, 4)
        assert np.isfinite(model.cv_losses_).all()
        assert model.lambda_ in model.lambdas_
        assert model.coef_[1] > 0.5
    again = rs.RRCoxCV(lambdas=12, cv=4, n_jobs=2, scoring="likelihood").fit(X, Y, WEIGHTS)
    np.testing.assert_array_equal(again.cv_losses_, model.cv_losses_)
    folds = [-concordance_of(rows, held, path.lambdas[7]) for rows, held in halves()]
    given = rs.RRCoxCV(lambdas=[float(path.lambdas[7])], cv=halves()).fit(X, Y)
    np.testing.assert_allclose(given.cv_losses_[0], folds)


def halves() -> list[tuple[Any, Any]]:
    rows = np.arange(42)
    return [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in (0, 1)]


def concordance_of(rows: Any, held: Any, l1: float) -> float:
    model = rs.RRCox(penalty="l1", l1=float(l1)).fit(X[rows], Y[rows])
    return float(model.score(X[held], Y[held]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scoring": "auc"}, "scoring must be one of"),
        ({"rule": "best"}, "rule must be one of"),
        ({"solver": "cg"}, "solver must be"),
        ({"penalty": "none"}, "a path needs a penalty"),
        ({"ties": "exact"}, "ties must be one of"),
        ({"cv": [(np.arange(5), np.arange(5, 42))]}, "no event among"),
    ],
)
def test_what_cross_validation_refuses(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        rs.RRCoxCV(**settings).fit(X, Y)


def test_the_likelihood_of_held_out_rows() -> None:
    """log L of all rows less that of the rows that were fitted, by problems of their own."""
    model = rs.RRCoxCV(lambdas=[0.1], cv=halves(), scoring="likelihood", ties="breslow").fit(X, Y)
    for k, (rows, held) in enumerate(halves()):
        x = rs.RRCox(penalty="l1", l1=0.1, ties="breslow").fit(X[rows], Y[rows]).coef_
        some = rs.CoxProblem(X[rows], TIME[rows], EVENT[rows], ties="breslow")
        whole = rs.CoxProblem(X, TIME, EVENT, ties="breslow")
        lost = (42 * whole.value(x) - len(rows) * some.value(x)) / EVENT[held].sum()
        assert model.cv_losses_[0, k] == pytest.approx(lost, rel=1e-6)


def test_held_out_rows_of_weight_zero_do_not_choose() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    y = rs.survival.outcome(rng.exponential(np.exp(-A[:, 0])), rng.random(60) < 0.8)
    weights = (np.arange(60) < 40).astype(float)
    for scoring in ("concordance", "likelihood"):
        folds = [(np.arange(40), np.arange(40, 60))]
        model = rs.RRCoxCV(lambdas=4, scoring=scoring, cv=folds)
        with pytest.raises(rs.errors.InputError, match="of positive weight"):
            model.fit(A, y, sample_weight=weights)
        folds = [(np.arange(20), np.arange(20, 60)), (np.arange(20, 60), np.arange(20))]
        counted = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
        with_zeros = rs.RRCoxCV(lambdas=4, scoring=scoring, cv=folds)
        with_zeros.fit(A, y, sample_weight=weights)
        without = rs.RRCoxCV(lambdas=4, scoring=scoring, cv=counted).fit(A[:40], y[:40])
        np.testing.assert_allclose(with_zeros.cv_losses_, without.cv_losses_, atol=1e-6)
