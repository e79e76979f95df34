"""The minimisers are those of scikit-learn's estimators, to 1e-6, where it has one for the same objective."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    QuantileRegressor,
    Ridge,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import reshuffle as rs
from reshuffle.estimators import (
    strengths_from_alpha,
    strengths_from_C,
    strengths_from_huber_alpha,
    strengths_from_ridge_alpha,
)

NEW = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
CLASSES = {
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "iris": load_iris,
}
Data = tuple[Any, Any]


def classifier(**settings: Any) -> rs.RRClassifier:
    """To 1e-14 in P, which is 1e-7 or better in the coefficients."""
    return rs.RRClassifier(tol=1e-14, **settings)


def regressor(**settings: Any) -> rs.RRRegressor:
    return rs.RRRegressor(tol=1e-14, **settings)


def data(name: str) -> Data:
    X, y = CLASSES[name](return_X_y=True)
    return StandardScaler().fit_transform(X), y


def two(name: str) -> Data:
    X, y = data(name)
    return X, np.where(y == y[0], "first", "other")


def theirs(C: float, l1_ratio: float = 0.0, **settings: Any) -> Any:
    """LogisticRegression, by the parameters of its versions before and from 1.8 on."""
    names = {0.0: "l2", 1.0: "l1"}
    ratio = {"l1_ratio": l1_ratio} if NEW or l1_ratio not in names else {}
    penalty = {} if NEW else {"penalty": names.get(l1_ratio, "elasticnet")}
    limits = {"tol": 1e-12, "max_iter": 100_000}
    return LogisticRegression(C=C, **ratio, **penalty, **limits | settings)


def check(ours: Any, other: Any, atol: float = 1e-6) -> None:
    assert ours.converged_
    scale = max(1.0, np.abs(other.coef_).max())
    np.testing.assert_allclose(ours.coef_, other.coef_, rtol=0, atol=atol * scale)
    scale = max(scale, np.abs(other.intercept_).max())
    np.testing.assert_allclose(ours.intercept_, other.intercept_, rtol=0, atol=atol * scale)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_l2(name: str, C: float, fit_intercept: bool) -> None:
    X, y = two(name)
    other = theirs(C, solver="newton-cholesky", fit_intercept=fit_intercept).fit(X, y)
    ours = classifier(
        penalty="elasticnet", **strengths_from_C(C, len(y)), fit_intercept=fit_intercept
    )
    check(ours.fit(X, y), other)
    assert ours.classes_.tolist() == other.classes_.tolist()
    near = theirs(C, solver="lbfgs", fit_intercept=fit_intercept).fit(X, y)
    check(ours, near, 2e-5)  # as near as lbfgs comes, by its objective


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_logistic_elastic_net(name: str, ratio: float) -> None:
    X, y = two(name)
    other = theirs(0.1, ratio, solver="saga").fit(X, y)
    strengths = strengths_from_C(0.1, len(y), ratio)
    check(classifier(penalty="elasticnet", **strengths).fit(sp.csr_matrix(X), y), other)


@pytest.mark.parametrize("name", CLASSES)
def test_logistic_l1_without_an_intercept(name: str) -> None:
    X, y = two(name)
    other = theirs(0.5, 1.0, solver="liblinear", fit_intercept=False).fit(X, y)
    ours = classifier(penalty="l1", l1=1 / (0.5 * len(y)), fit_intercept=False)
    check(ours.fit(X, y), other)


@pytest.mark.parametrize("name", CLASSES)
def test_logistic_with_sample_and_class_weights(name: str) -> None:
    X, y = two(name)
    weights = np.random.default_rng(0).integers(0, 4, len(y)) * 0.7
    by_class = {"first": 3.0, "other": 0.5}
    other = theirs(1.0, solver="newton-cholesky", class_weight=by_class)
    total = weights * np.where(y == "first", 3.0, 0.5)
    strengths = strengths_from_C(1.0, total)
    ours = classifier(penalty="elasticnet", **strengths, class_weight=by_class)
    check(ours.fit(X, y, weights), other.fit(X, y, weights))
    balanced = theirs(1.0, solver="newton-cholesky", class_weight="balanced").fit(X, y)
    ours = classifier(
        penalty="elasticnet", **strengths_from_C(1.0, len(y)), class_weight="balanced"
    )
    check(ours.fit(X, y), balanced)


@pytest.mark.parametrize("name", ["wine", "iris", "digits"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_multinomial(name: str, fit_intercept: bool) -> None:
    X, y = load_digits(return_X_y=True) if name == "digits" else data(name)
    if name == "digits":
        X, y = X[y < 4, :40] / 16.0, y[y < 4]
    other = theirs(1.0, solver="newton-cg", fit_intercept=fit_intercept).fit(X, y)
    strengths = strengths_from_C(1.0, len(y))
    ours = classifier(penalty="elasticnet", **strengths, fit_intercept=fit_intercept)
    check(ours.fit(X, y), other)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_multinomial_l1() -> None:
    X, y = data("iris")
    other = theirs(1.0, 1.0, solver="saga").fit(X, y)
    ours = classifier(penalty="l1", l1=1 / len(y)).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-6)


@pytest.mark.parametrize("name", CLASSES)
def test_squared_hinge(name: str) -> None:
    X, y = two(name)
    other = LinearSVC(C=0.1, fit_intercept=False, dual=False, tol=1e-12, max_iter=10_000).fit(X, y)
    # its loss is twice ours: Σ max(0, 1 - yz)² against the mean of halves
    ours = classifier(loss="squared_hinge", l2=1 / (2 * 0.1 * len(y)), fit_intercept=False)
    check(ours.fit(X, y), other)


def numbers() -> dict[str, Data]:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    wide, target = load_breast_cancer(return_X_y=True)
    wide = StandardScaler().fit_transform(wide)
    return {
        "diabetes": (StandardScaler().fit_transform(X), y),
        "diabetes, raw": (X, y),
        "breast cancer": (wide[:, 1:], wide[:, 0] + 0.1 * target),
    }


@pytest.mark.parametrize("name", numbers())
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_elastic_net_and_lasso(name: str, alpha: float) -> None:
    X, y = numbers()[name]
    for ratio, other in ((0.3, ElasticNet(alpha, l1_ratio=0.3)), (1.0, Lasso(alpha))):
        other.set_params(tol=1e-14, max_iter=1_000_000).fit(X, y)
        ours = regressor(penalty="elasticnet", **strengths_from_alpha(alpha, ratio))
        check(ours.fit(X, y), other)
    other = Lasso(alpha, positive=True, tol=1e-14, max_iter=1_000_000).fit(X, y)
    check(regressor(penalty="l1", l1=alpha, positive=True).fit(X, y), other)


@pytest.mark.parametrize("name", numbers())
def test_ridge_and_least_squares(name: str) -> None:
    X, y = numbers()[name]
    weights = np.random.default_rng(1).random(len(y))
    ours = regressor(penalty="elasticnet", **strengths_from_ridge_alpha(2.0, len(y)))
    check(ours.fit(X, y), Ridge(2.0, solver="cholesky").fit(X, y))
    ours = regressor(penalty="elasticnet", **strengths_from_ridge_alpha(2.0, weights))
    check(ours.fit(X, y, weights), Ridge(2.0, solver="cholesky").fit(X, y, weights))
    check(regressor(penalty=None).fit(X, y), LinearRegression().fit(X, y))


@pytest.mark.parametrize("name", ["diabetes", "breast cancer"])
def test_huber_at_the_scale_that_was_fitted(name: str) -> None:
    X, y = numbers()[name]
    other = HuberRegressor(epsilon=1.35, alpha=0.5, tol=1e-10, max_iter=10_000).fit(X, y)
    strengths = strengths_from_huber_alpha(0.5, other.scale_, len(y))
    loss = rs.losses.Huber(delta=1.35 * other.scale_)
    ours = regressor(loss=loss, penalty="elasticnet", **strengths).fit(X, y)
    objective = rs.Problem(X, y, loss, ours.penalty_, fit_intercept=True).objective
    assert ours.objective_ <= objective(np.append(other.coef_, other.intercept_)) * (1 + 1e-12)
    check(ours, other, 1e-3)  # as near as its lbfgs comes; the objective says who is nearer
    slopes = np.clip(ours.predict(X) - y, -loss.delta, loss.delta)
    gradient = X.T @ slopes / len(y) + strengths["l2"] * ours.coef_
    assert max(np.abs(gradient).max(), abs(slopes.mean())) < 1e-9 * np.abs(y).max()


@pytest.mark.parametrize("level", [0.25, 0.5, 0.9])
def test_quantiles_in_the_limit_of_the_width(level: float) -> None:
    X, y = numbers()["diabetes"]
    other = QuantileRegressor(quantile=level, alpha=0.5, solver="highs").fit(X, y)
    differences = []
    for width in (10.0, 1.0, 0.1, 0.01):
        loss = rs.losses.Quantile(level=level, width=width)
        ours = regressor(loss=loss, penalty="l1", l1=0.5).fit(X, y)
        r = y - other.predict(X)
        theirs = np.mean(np.where(r > 0, level * r, (level - 1) * r)) + 0.5 * np.sum(
            abs(other.coef_)
        )
        r = y - ours.predict(X)
        mine = np.mean(np.where(r > 0, level * r, (level - 1) * r)) + 0.5 * np.sum(abs(ours.coef_))
        assert mine - theirs <= width / 2 * max(level, 1 - level) ** 2 + 1e-9
        differences.append(mine - theirs)
    assert differences[-1] < 1e-3


def test_factors_and_free_features() -> None:
    X, y = numbers()["diabetes"]
    factors = np.array([0.0, 1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 0.0, 1.0])
    ours = regressor(penalty="l1", l1=2.0, penalty_factors=factors).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled = X / np.where(factors > 0, factors, 1e-7)
        other = Lasso(2.0, tol=1e-14, max_iter=1_000_000).fit(scaled, y)
    coef = other.coef_ / np.where(factors > 0, factors, 1e-7)
    np.testing.assert_allclose(ours.coef_, coef, atol=1e-4)
    X, y = data("iris")
    model = classifier(penalty="l1", l1=0.3, penalty_factors=[0.0, 1.0, 1.0, 1.0]).fit(X, y)
    assert np.all(model.coef_[:, 0] != 0)
    assert np.count_nonzero(model.coef_) < 9
