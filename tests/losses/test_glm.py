"""Generalised linear models: the minimisers of statsmodels and scikit-learn, on real sets, to 1e-6."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor

import reshuffle as rs

sm = pytest.importorskip("statsmodels.api")
FAMILIES, LINKS = sm.families, sm.families.links
L, P = rs.losses, rs.penalties
NEAR = 1e-6


@cache
def real(name: str) -> tuple[Any, Any]:
    """Columns at mean 0 and deviation 1, and the target of a set that statsmodels or scikit-learn ships."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    elif name == "cancer":  # three columns that do not separate the classes
        X, y = load_breast_cancer(return_X_y=True)
        X = X[:, [4, 9, 18]]
    else:
        data = getattr(sm.datasets, name).load_pandas()
        X, y = data.exog.to_numpy(float), np.asarray(data.endog, float)
        X, y = X[:600, : 7 if name != "star98" else 4], y[:600]
        y = y if y.ndim == 1 else y[:, 0] / y.sum(axis=1)
    X = X[:, X.std(axis=0) > 0]
    return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0)), y


def counts(name: str) -> Any:
    return np.rint(real(name)[1])


def positive(name: str) -> Any:
    return real(name)[1]


def classes(name: str) -> Any:
    y = real(name)[1]
    return (y > np.mean(y)).astype(float)


CASES: dict[str, tuple[Any, Any, Any, tuple[str, ...]]] = {
    "poisson": (L.Poisson(), FAMILIES.Poisson(), counts, ("fair", "randhie", "committee")),
    "gamma": (L.Gamma(), FAMILIES.Gamma(LINKS.Log()), positive, ("scotland", "strikes", "diabetes")),
    "tweedie": (L.Tweedie(1.5), FAMILIES.Tweedie(LINKS.Log(), var_power=1.5), positive, ("fair", "randhie", "diabetes")),
    "tweedie 1.1": (L.Tweedie(1.1), FAMILIES.Tweedie(LINKS.Log(), var_power=1.1), positive, ("fair", "scotland", "diabetes")),
    "inverse gaussian": (L.InverseGaussian(), FAMILIES.InverseGaussian(LINKS.Log()), positive, ("scotland", "engel", "diabetes")),
    "tweedie 2.5": (L.Tweedie(2.5), FAMILIES.Tweedie(LINKS.Log(), var_power=2.5), positive, ("scotland", "engel", "diabetes")),
    "negative binomial": (L.NegativeBinomial(0.7), FAMILIES.NegativeBinomial(alpha=0.7), counts, ("fair", "randhie", "committee")),
    "probit": (L.Probit(), FAMILIES.Binomial(LINKS.Probit()), classes, ("fair", "star98", "cancer")),
    "cloglog": (L.ComplementaryLogLog(), FAMILIES.Binomial(LINKS.CLogLog()), classes, ("fair", "star98", "cancer")),
    "logistic": (L.Logistic(), FAMILIES.Binomial(), classes, ("fair", "star98", "cancer")),
}  # fmt: skip
PAIRS = [(case, name) for case, (*_, names) in CASES.items() for name in names]


@pytest.mark.parametrize(("case", "name"), PAIRS)
@pytest.mark.parametrize("with_offset", [False, True])
def test_the_minimiser_is_that_of_statsmodels(case: str, name: str, with_offset: bool) -> None:
    loss, family, target, _ = CASES[case]
    X, y = real(name)[0], target(name)
    rng = np.random.default_rng(0)
    offset = rng.normal(0.0, 0.5, len(y)) if with_offset else None
    weights = rng.integers(1, 4, len(y)).astype(float) if with_offset else None
    theirs = sm.GLM(y, sm.add_constant(X), family=family, offset=offset, freq_weights=weights)
    params = theirs.fit(tol=1e-13, maxiter=300).params
    problem = rs.Problem(X, y, loss, sample_weight=weights, fit_intercept=True, offset=offset)
    found = rs.ExactProxRR(tol=1e-13 if loss.convex else 1e-6).solve(problem)
    assert found.converged == loss.convex
    assert loss.convex or found.message.startswith("stationary")
    np.testing.assert_allclose(found.x, np.append(params[1:], params[0]), atol=NEAR)


@pytest.mark.parametrize("name", ["fair", "randhie", "committee"])
@pytest.mark.parametrize("case", ["poisson", "negative binomial"])
def test_exposure_is_that_of_statsmodels(case: str, name: str) -> None:
    loss, family, target, _ = CASES[case]
    X, y = real(name)[0], target(name)
    years = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    params = sm.GLM(y, sm.add_constant(X), family=family, exposure=years).fit(tol=1e-13).params
    model = rs.RRRegressor(loss=loss, penalty="none").fit(X, y, exposure=years)
    np.testing.assert_allclose(model.coef_, params[1:], atol=NEAR)
    np.testing.assert_allclose(model.intercept_, params[0], atol=NEAR)


@pytest.mark.parametrize("name", ["fair", "randhie", "diabetes"])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("power", [1.0, 1.5, 1.9, 2.0])
def test_with_a_ridge_the_minimiser_is_that_of_scikit_learn(
    name: str, alpha: float, power: float
) -> None:
    X, y = real(name)
    y = y + 0.1 if power == 2.0 else y
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    kind: Any = {1.0: PoissonRegressor, 2.0: GammaRegressor}.get(power)
    limits = {"alpha": alpha, "tol": 1e-12, "solver": "newton-cholesky", "max_iter": 300}
    theirs = kind(**limits) if kind else TweedieRegressor(power=power, link="log", **limits)
    theirs.fit(X, y, sample_weight=weights)
    loss = {1.0: "poisson", 2.0: "gamma"}.get(power, f"tweedie({power})")
    model = rs.RRRegressor(loss=loss, l2=alpha).fit(X, y, sample_weight=weights)
    assert model.converged_
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=NEAR)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=NEAR)
    np.testing.assert_allclose(
        model.score(X, y, weights), theirs.score(X, y, sample_weight=weights), rtol=1e-9
    )
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-5)


@pytest.mark.parametrize(("case", "name"), [(c, n) for c, n in PAIRS if n in ("fair", "diabetes")])
def test_with_l1_the_conditions_of_a_minimum_hold(case: str, name: str) -> None:
    """|∂f/∂x_j| ≤ λ where x_j = 0, and = -λ·sign(x_j) elsewhere, by the formula in numpy."""
    loss, _, target, _ = CASES[case]
    X, y = real(name)[0], target(name)
    signs = np.where(y > 0, 1.0, -1.0) if loss.targets == "signs" else y
    offset = np.random.default_rng(3).normal(0.0, 0.3, len(y))
    whole = rs.Problem(X, y, loss, P.L1(1.0), fit_intercept=True, offset=offset)
    strength = 0.1 * whole.lambda_max()
    problem = rs.Problem(X, y, loss, P.L1(strength), fit_intercept=True, offset=offset)
    x = rs.ExactProxRR(tol=1e-13 if loss.convex else 1e-6).solve(problem).x
    z = X @ x[:-1] + x[-1] + offset
    h = 1e-6
    slopes = (loss.oracle(z + h, signs, *loss.params) - loss.oracle(z - h, signs, *loss.params)) / (2 * h)  # fmt: skip
    g = X.T @ slopes / len(y)
    near = 1e-6 * max(1.0, float(np.abs(slopes).max()))
    assert abs(slopes.mean()) <= near
    zero = x[:-1] == 0
    assert (np.abs(g[zero]) <= strength + near).all()
    np.testing.assert_allclose(g[~zero], -strength * np.sign(x[:-1][~zero]), atol=near)
    assert 0 < np.count_nonzero(~zero)


def test_d2_with_exposure_is_against_the_best_rate() -> None:
    X, y = real("randhie")[0], counts("randhie")
    years = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    model = rs.RRRegressor(loss="poisson", penalty="none").fit(X, y, exposure=years)
    theirs = sm.GLM(y, sm.add_constant(X), family=FAMILIES.Poisson(), exposure=years).fit()
    expected = 1.0 - theirs.deviance / theirs.null_deviance
    assert model.score(X, y, exposure=years) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(model.predict(X, exposure=years), theirs.mu, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), theirs.mu / years, rtol=1e-6)


@pytest.mark.parametrize("case", ["poisson", "gamma", "negative binomial"])
def test_standard_errors_with_offsets_are_those_of_statsmodels(case: str) -> None:
    loss, family, target, names = CASES[case]
    X, y = real(names[0])[0], target(names[0])
    offset = np.random.default_rng(4).normal(0.0, 0.5, len(y))
    scale = "X2" if case == "gamma" else None
    theirs = sm.GLM(y, sm.add_constant(X), family=family, offset=offset).fit(tol=1e-13, scale=scale)
    model = rs.RRRegressor(loss=loss, penalty="none").fit(X, y, offset=offset)
    table = model.inference(covariance="model")
    np.testing.assert_allclose(table.estimate[-1], theirs.params[0], atol=NEAR)
    errors = np.sqrt(np.diag(table.covariance))
    np.testing.assert_allclose(errors, np.append(theirs.bse[1:], theirs.bse[0]), rtol=1e-4)
