"""Offsets in estimators, files, the command and sites; losses by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.losses.names import OF_CLASSES, OF_NUMBERS, loss_by_name

L = rs.losses
RNG = np.random.default_rng(11)
N = 160
X = RNG.standard_normal((N, 3))
YEARS = RNG.uniform(0.2, 2.0, N)
CLAIMS = RNG.poisson(YEARS * np.exp(0.4 * X[:, 0] - 0.5)).astype(float)
SIGNS = np.where(X[:, 0] + np.log(YEARS) + RNG.logistic(size=N) > 0, "yes", "no")


def test_every_loss_of_one_margin_has_a_name() -> None:
    named = {*OF_CLASSES.values(), *OF_NUMBERS.values()}
    assert {kind for kind in L.LOSSES if not kind.vector} == named


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("tweedie(1.7)", L.Tweedie(1.7)), ("tweedie", L.Tweedie()), (" huber ( 2 ) ", L.Huber(2.0)),
        ("quantile(0.9, 0.1)", L.Quantile(0.9, 0.1)), ("cloglog", L.ComplementaryLogLog()),
    ],
)  # fmt: skip
def test_a_name_may_have_parameters(text: str, loss: Any) -> None:
    assert repr(loss_by_name(text, OF_CLASSES | OF_NUMBERS)) == repr(loss)


@pytest.mark.parametrize(
    "text", ["tweedie(a)", "tweedie(1.5, 2)", "gamma(1)", "tweedie(3", "twedie", "tweedie(1)", ""]
)
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(rs.InputError):
        loss_by_name(text, OF_NUMBERS)


def test_predictions_and_scores_take_exposures() -> None:
    model = rs.RRRegressor(loss="poisson", l2=1e-3).fit(X, CLAIMS, exposure=YEARS)
    np.testing.assert_allclose(model.predict(X, exposure=YEARS), YEARS * model.predict(X))
    np.testing.assert_allclose(model.predict(X, offset=np.log(YEARS)), YEARS * model.predict(X))
    assert model.score(X, CLAIMS, exposure=YEARS) > model.score(X, CLAIMS)
    with pytest.raises(rs.InputError, match="exposure must be 160 numbers"):
        model.predict(X, exposure=YEARS[:5])


def test_a_classifier_takes_an_offset_and_refuses_an_exposure() -> None:
    offset = np.log(YEARS)
    model = rs.RRClassifier(l2=1e-3).fit(X, SIGNS, offset=offset)
    z = model.decision_function(X, offset=offset)
    np.testing.assert_allclose(z, model.decision_function(X) + offset)
    assert (model.predict(X, offset=offset) == np.where(z > 0, "yes", "no")).all()
    np.testing.assert_allclose(model.predict_proba(X, offset)[:, 1], 1 / (1 + np.exp(-z)))
    with pytest.raises(rs.InputError, match="exposure needs"):
        rs.RRClassifier().fit(X, SIGNS, exposure=YEARS)
    with pytest.raises(rs.InputError, match="one margin"):
        rs.RRClassifier().fit(X, np.arange(N) % 3, offset=offset)


def test_rows_of_a_class_without_weight_lose_their_offsets_too() -> None:
    y, weights = np.where(np.arange(N) < 10, "other", SIGNS), np.where(np.arange(N) < 10, 0.0, 1.0)
    whole = rs.RRClassifier(l2=0.01).fit(X, y, weights, offset=np.log(YEARS))
    part = rs.RRClassifier(l2=0.01).fit(X[10:], SIGNS[10:], offset=np.log(YEARS[10:]))
    np.testing.assert_allclose(whole.coef_, part.coef_, atol=1e-9)


def test_cross_validation_keeps_offsets() -> None:
    model = rs.RRRegressorCV(loss="poisson", lambdas=5, cv=3).fit(X, CLAIMS, exposure=YEARS)
    again = rs.RRRegressor(loss="poisson", penalty="l1", l1=model.lambda_).fit(
        X, CLAIMS, exposure=YEARS
    )
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-3)
    with pytest.raises(rs.InputError, match="scoring must be None"):
        rs.RRRegressorCV(loss="poisson", scoring="r2").fit(X, CLAIMS, exposure=YEARS)


def test_a_warm_start_ends_where_a_cold_one_does() -> None:
    cold = rs.RRRegressor(loss="gamma", l2=0.01).fit(X, 1000.0 * (CLAIMS + 0.5))
    warm = rs.RRRegressor(loss="gamma", l2=0.01, warm_start=True).fit(X, CLAIMS + 0.5)
    warm.fit(X, 1000.0 * (CLAIMS + 0.5))
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-8)
    assert warm.intercept_ == pytest.approx(cold.intercept_, abs=1e-8)


@pytest.mark.parametrize("loss", ["probit", "complementary_log_log"])
def test_probabilities_of_other_links(loss: str) -> None:
    model = rs.RRClassifier(loss=loss, l2=1e-3).fit(X, SIGNS)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.predict(X) == model.classes_[proba.argmax(axis=1)]).all()
    with pytest.raises(rs.InputError, match="no model"):
        model.to_sklearn()


@pytest.mark.parametrize(
    "loss", ["gamma", "tweedie(1.7)", "negative_binomial(0.5)", "inverse_gaussian"]
)
def test_models_are_saved_and_exported(loss: str, tmp_path: Path) -> None:
    model = rs.RRRegressor(loss=loss).fit(X, CLAIMS + 0.5)
    model.save(tmp_path / "model.npz")
    again = rs.estimators.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again.loss_) == repr(model.loss_)
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X))


def table(folder: Path, rows: slice = slice(None), name: str = "all.csv") -> Path:
    lines = [f"{a:.6f},{b:.6f},{t:.6f},{int(c)}" for a, b, t, c in zip(X[rows, 0], X[rows, 1], YEARS[rows], CLAIMS[rows], strict=True)]  # fmt: skip
    (folder / name).write_text("\n".join(["a,b,years,claims", *lines]) + "\n")
    return folder / name


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def test_the_command_reads_columns_of_exposure(tmp_path: Path) -> None:
    file, out = table(tmp_path), tmp_path / "out"
    done = run("fit", str(file), "-t", "claims", "--loss", "poisson", "--exposure", "years", "--raw",
               "--holdout", "0", "--l2", "0.001", "--out", str(out), "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    model = rs.estimators.load(out / "model.npz")
    assert model.n_features_in_ == 2
    rounded = np.round(X[:, :2], 6)
    same = rs.RRRegressor(loss="poisson", l2=0.001).fit(
        rounded, CLAIMS, exposure=np.round(YEARS, 6)
    )
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-5)
    totals = run(
        "predict",
        str(out / "model.npz"),
        str(file),
        "--exposure",
        "years",
        "--out",
        str(tmp_path / "p.csv"),
    )
    assert totals.exit_code == 0, totals.output
    found = np.loadtxt(tmp_path / "p.csv", skiprows=1)
    np.testing.assert_allclose(found, same.predict(rounded, exposure=YEARS), rtol=1e-4)
    rates = run("predict", str(out / "model.npz"), str(file), "--out", str(tmp_path / "r.csv"))
    assert "fitted with --exposure" in rates.output
    np.testing.assert_allclose(np.loadtxt(tmp_path / "r.csv", skiprows=1) * YEARS, found, rtol=1e-4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--exposure", "age"), "must name a column"),
        (("--exposure", "claims"), "other columns than the target"),
        (("--exposure", "years", "--loss", "squared"), "exposure needs a loss"),
        (("--loss", "tweedie(1)"), "power must be"),
        (("--loss", "gamma"), "positive"),
        (("--loss", "poisson", "--log-target"), "leave one of the two out"),
    ],
)
def test_the_command_refuses(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    loss = () if "--loss" in words else ("--loss", "poisson")
    done = run(
        "fit", str(table(tmp_path)), "-t", "claims", *loss, *words, "--out", str(tmp_path / "o")
    )
    assert done.exit_code in (1, 2)
    assert said in done.output
    assert not (tmp_path / "o" / "model.npz").exists()


def test_sites_agree_on_exposures(tmp_path: Path) -> None:
    halves = [table(tmp_path, slice(0, 80), "one.csv"), table(tmp_path, slice(80, N), "two.csv")]
    sites = rs.federated.Sites(
        halves, L.Poisson(), rs.penalties.L2(0.01), fit_intercept=True, exposure="years"
    )
    found = rs.FedNewton(tol=1e-10).solve(sites)
    rows, years = np.round(X[:, :2], 6), np.round(YEARS, 6)
    problem = rs.Problem(
        rows, CLAIMS, L.Poisson(), rs.penalties.L2(0.01), fit_intercept=True, exposure=years
    )
    assert found.converged
    np.testing.assert_allclose(found.x, rs.ExactProxRR(tol=1e-12).solve(problem).x, atol=1e-6)
    arrays: list[Any] = [
        {"X": rows[:80], "y": CLAIMS[:80], "exposure": years[:80]},
        {"X": rows[80:], "y": CLAIMS[80:]},
    ]
    with pytest.raises(rs.InputError, match="sites must agree: shifts"):
        rs.FedNewton().solve(rs.federated.Sites(arrays, L.Poisson()))
    arrays[1]["exposure"] = np.zeros(80)
    with pytest.raises(rs.errors.ClientError, match="exposure must be positive"):
        rs.FedNewton().solve(rs.federated.Sites(arrays, L.Poisson()))
    (tmp_path / "sites.toml").write_text(
        'loss = "poisson"\ntarget = "claims"\nexposure = "years"\nintercept = true\nl1 = 0.0\nl2 = 0.01\n'
        '[[site]]\ndata = "one.csv"\n[[site]]\ndata = "two.csv"\n'
    )
    done = run(
        "federate",
        str(tmp_path / "sites.toml"),
        "--method",
        "newton",
        "--out",
        str(tmp_path / "fed"),
        "--json",
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.output[done.output.index("{") :])


def test_classifiers_take_offsets_in_score_and_partial_fit() -> None:
    rng = np.random.default_rng(0)
    A, offset = rng.standard_normal((90, 2)), rng.normal(0.0, 3.0, 90)
    y = A[:, 0] + offset + rng.logistic(size=90) > 0
    weights = rng.random(90)
    for model in (rs.RRClassifier(l2=0.1), rs.RRClassifierCV(lambdas=3)):
        model.fit(A, y, offset=offset)
        hits = model.predict(A, offset=offset) == y
        found = model.score(A, y, sample_weight=weights, offset=offset)
        assert found == pytest.approx(np.average(hits, weights=weights))
        assert found > model.score(A, y, weights) + 0.1
    # an offset is a column whose coefficient is known, so that slopes at zero are those of the offsets
    learned = rs.RRClassifier(penalty="none").partial_fit(A, y, [False, True], offset=offset)
    plain = rs.RRClassifier(penalty="none").partial_fit(A, y, [False, True])
    assert not np.allclose(learned.coef_, plain.coef_)
    with pytest.raises(rs.errors.InputError, match="offset must be 90 numbers"):
        learned.partial_fit(A, y, offset=offset[:3])
    with pytest.raises(rs.errors.InputError, match="all rows of X are zero"):
        rs.RRRegressor(loss="poisson", fit_intercept=False).fit(0.0 * A, y + 1.0)
