"""Paths of strengths and cross-validation along them."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Event
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import lasso_path
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

import reshuffle as rs
from reshuffle.estimators.cross_validation import chosen, in_threads
from reshuffle.estimators.scaling import Times, scaling

SCRIPT = """
import sys, warnings
import reshuffle as rs
from sklearn.utils.estimator_checks import check_estimator
warnings.simplefilter("ignore")
for setting in sys.argv[1:]:
    done = check_estimator(eval("rs." + setting), on_fail=None, on_skip=None)
    for check in done:
        if check["status"] != "passed":
            print(setting, check["check_name"], check["status"], check["exception"])
"""


@pytest.fixture(scope="module")
def cancer() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_check_estimator_passes_in_full() -> None:
    settings = "(lambdas=2, cv=2, tol=1e-14, smallest=0.1)"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"RRClassifierCV{settings}", f"RRRegressorCV{settings}"],
        capture_output=True,
        text=True,
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_a_path_of_least_squares_is_the_lasso_path() -> None:
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), y - y.mean()
    path = rs.rr_path(X, y, loss="squared", lambdas=20, fit_intercept=False, tol=1e-13)
    _, coefs, _ = lasso_path(X, y, alphas=path.lambdas, tol=1e-14, max_iter=10**6)
    np.testing.assert_allclose(path.coefs, coefs.T, atol=1e-5)
    assert path.lambdas[0] == pytest.approx(np.abs(X.T @ y).max() / len(y))
    assert path.nonzeros[0] == 0
    assert path.nonzeros[-1] == 10
    assert path.converged.all()


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_each_model_of_a_path_is_that_of_a_single_fit(cancer: Any, layout: str) -> None:
    X, y = cancer
    X = sp.csr_matrix(X) if layout == "csr" else X
    path = rs.rr_path(X, y, penalty="elasticnet", l1_ratio=0.7, lambdas=8, tol=1e-13)
    for k in (0, 3, 7):
        lam = path.lambdas[k]
        one = rs.RRClassifier(penalty="elasticnet", l1=0.7 * lam, l2=0.3 * lam).fit(X, y)
        np.testing.assert_allclose(path.coefs[k], one.coef_, atol=1e-5)
        np.testing.assert_allclose(path.intercepts[k], one.intercept_, atol=1e-5)
        assert path.objectives[k] == pytest.approx(one.objective_, abs=1e-10)


def test_objects_and_unknown_penalties_have_paths() -> None:
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    path = rs.rr_path(X, y, penalty=rs.penalties.GroupLasso(1.0), lambdas=5, smallest=0.01)
    assert path.coefs.shape == (5, 3, 4)
    assert np.abs(path.coefs[0]).max() < 1e-3
    assert path.nonzeros[-1] > 0

    class Ridge:
        def value(self, x: Any) -> float:
            return float(0.5 * np.vdot(x, x))

        def prox(self, x: Any, step: float) -> Any:
            return x / (1.0 + step)

    with pytest.raises(rs.InputError, match="cannot tell its λ_max: give lambdas"):
        rs.rr_path(X, y, penalty=Ridge())
    mine = rs.rr_path(X, y, penalty=Ridge(), lambdas=[0.1, 1.0], solver="fista")
    ours = rs.rr_path(X, y, penalty="l2", lambdas=[0.1, 1.0], tol=1e-13)
    np.testing.assert_allclose(mine.coefs, ours.coefs, atol=1e-4)
    with pytest.raises(rs.InputError, match="holds no feature at zero"):
        rs.rr_path(X, y, penalty="l2")
    with pytest.raises(rs.InputError, match="a path needs a penalty"):
        rs.rr_path(X, y, penalty=None)
    for wrong in (0, [], [0.1, -1.0], "many", [np.nan]):
        with pytest.raises(rs.InputError, match="lambdas must be"):
            rs.rr_path(X, y, lambdas=wrong)


def test_scaled_penalties_keep_their_abilities_where_that_is_right() -> None:
    shape = (6,)
    for penalty in (
        rs.penalties.L1(np.arange(6.0)),
        rs.penalties.NonNegative(0.5, 0.1),
        rs.penalties.SparseGroupLasso(0.1, 0.2, groups=[0, 0, 1, 1, 2, 2]),
    ):
        twice = scaling(penalty, shape)(2.0)
        assert type(twice) is type(penalty)
        x = np.linspace(0.1, 1.0, 6)
        np.testing.assert_allclose(twice.prox(x, 0.3), penalty.prox(x, 0.6))
    ball = rs.penalties.L1Ball(1.0)
    twice = scaling(ball, shape)(2.0)
    assert isinstance(twice, Times)
    np.testing.assert_allclose(twice.prox(np.ones(6), 1.0), ball.prox(np.ones(6), 2.0))


def test_threads_change_nothing(cancer: Any) -> None:
    X, y = cancer
    models = [rs.RRClassifierCV(lambdas=12, cv=4, n_jobs=n).fit(X, y) for n in (None, 1, 4, -1)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.cv_losses_, models[0].cv_losses_)
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


def test_the_chosen_model_is_the_one_of_all_rows(cancer: Any) -> None:
    X, y = cancer
    model = rs.RRClassifierCV(lambdas=15, cv=3, tol=1e-13).fit(X, y)
    one = rs.RRClassifier(penalty="l1", l1=model.lambda_).fit(X, y)
    np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-5)
    assert model.penalty_ == one.penalty_
    assert model.lambda_ == model.lambda_min_ == model.lambdas_[model.cv_losses_.mean(1).argmin()]
    sparser = clone(model).set_params(rule="1se").fit(X, y)
    assert sparser.lambda_ == model.lambda_1se_ >= model.lambda_
    assert np.count_nonzero(sparser.coef_) < np.count_nonzero(model.coef_)
    assert model.score(X, y) > 0.97
    scored = clone(model).set_params(scoring="accuracy").fit(X, y)
    assert -1.0 <= scored.cv_losses_.min() < -0.95
    with pytest.raises(rs.InputError, match="rule must be one of 'min', '1se'"):
        clone(model).set_params(rule="best").fit(X, y)
    with pytest.raises(rs.InputError, match="n_jobs must be"):
        clone(model).set_params(n_jobs=0).fit(X, y)


def test_the_one_standard_error_rule_by_hand() -> None:
    losses = np.array([[3.0, 3.0], [1.4, 1.6], [1.0, 2.0], [0.9, 1.9], [2.0, 2.0]])
    # the lowest mean is 1.4, its standard error 0.5: means up to 1.9 will do
    assert chosen(losses) == (3, 1)
    assert chosen(losses[:, :1]) == (3, 3)


def test_held_out_losses_are_those_of_fits_to_the_folds() -> None:
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    weights = np.random.default_rng(0).random(len(y))
    cv = KFold(3)
    model = rs.RRRegressorCV(lambdas=[30.0, 3.0], cv=cv, tol=1e-13).fit(X, y, weights)
    for k, (learn, held) in enumerate(cv.split(X)):
        one = rs.RRRegressor(penalty="l1", l1=3.0).fit(X[learn], y[learn], weights[learn])
        loss = np.average((one.predict(X[held]) - y[held]) ** 2 / 2, weights=weights[held])
        assert model.cv_losses_[1, k] == pytest.approx(loss, rel=1e-6)


def test_one_warning_for_a_path_that_did_not_converge(cancer: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="did not converge at . of 5 strengths") as told:
        rs.rr_path(*cancer, lambdas=5, max_iter=1)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_a_path_is_drawn_with_names() -> None:
    import matplotlib

    matplotlib.use("Agg")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    path = rs.rr_path(X, y, loss="squared", lambdas=10)
    ax = rs.plotting.plot_path(path, largest=3, mark=path.lambdas[4])
    legend = ax.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert set(names[:3]) <= set(X.columns)
    assert len(ax.lines) == 11
    X, y = load_iris(return_X_y=True)
    ax = rs.plotting.plot_path(rs.rr_path(X, y, lambdas=4), names=list("abcd"))
    assert ax.get_ylabel() == "size of the coefficients"
    with pytest.raises(rs.InputError, match="names must be 4"):
        rs.plotting.plot_path(rs.rr_path(X, y, lambdas=4), names=["a"])


def test_folds_in_other_threads_end_when_one_is_interrupted() -> None:
    """Ctrl-C reaches the main thread alone: the others are told."""
    begun, seen = Event(), []

    def work(piece: int, given_up: Any) -> None:
        if piece == 0:
            begun.wait(60)
            raise KeyboardInterrupt
        begun.set()
        while not given_up():
            pass
        seen.append(piece)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, [0, 1, 2, 3], 2)
    assert 1 in seen  # whether others were begun is up to the threads
