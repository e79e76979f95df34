"""scikit-learn's own checks of an estimator, and its tools around ours."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reshuffle as rs

# scikit-learn compares predictions of weighted and of repeated rows to 1e-7
SETTINGS = [
    "RRClassifier()",
    "RRClassifier(penalty='elasticnet', l1=1e-3, l2=1e-2, warm_start=True, tol=1e-15)",
    "RRClassifier(loss='squared_hinge', class_weight={}, tol=1e-15)",
    "RRClassifier(penalty=rs.penalties.ElasticNet(1e-3, 1e-2), tol=1e-15)",
    "RRClassifier(solver='fista', l2=0.01, tol=1e-15)",
    "RRRegressor()",
    "RRRegressor(penalty='l1', positive=True, tol=1e-15)",
    "RRRegressor(loss='quantile', fit_intercept=False, tol=1e-15)",
    "RRRegressor(loss=rs.losses.Huber(2.0), penalty=rs.penalties.ElasticNet(1e-3, 1e-3), tol=1e-15)",
]
# version 1.6 makes two classes of three by the first row, which differs after its shuffle of the weighted rows alone
SCRIPT = """
import sys, warnings
import sklearn
import reshuffle as rs
from sklearn.utils.estimator_checks import check_estimator
warnings.simplefilter("ignore")
for setting in sys.argv[1:]:
    done = check_estimator(eval("rs." + setting), on_fail=None, on_skip=None)
    assert len(done) > 50
    for check in done:
        theirs = sklearn.__version__ < "1.7" and "squared_hinge" in setting
        theirs = theirs and check["check_name"].startswith("check_sample_weight_equivalence")
        if check["status"] != "passed" and not theirs:
            print(setting, check["check_name"], check["status"], check["exception"])
"""


def test_check_estimator_passes_in_full() -> None:
    """With no check skipped: the one of array APIs wants its variable set before scipy loads."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *SETTINGS],
        capture_output=True,
        text=True,
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.fixture(scope="module")
def cancer() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_pipelines_searches_and_scores(cancer: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), rs.RRClassifier(penalty="l1", l1=0.01))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.95
    grid = {"rrclassifier__l1": [1e-3, 1e-2, 1e-1]}
    found = GridSearchCV(pipe, grid, cv=3, n_jobs=2).fit(X, y)
    assert found.best_score_ > 0.95
    inside = GridSearchCV(
        rs.RRClassifier(penalty=rs.penalties.L1(1.0)), {"penalty__l1": [1e-3, 0.5]}, cv=3
    )
    assert inside.fit(*cancer).best_params_ == {"penalty__l1": 1e-3}


def test_parameters_of_parts_are_set_by_new_parts() -> None:
    penalty = rs.penalties.ElasticNet(0.1, 0.2)
    model = rs.RRRegressor(penalty=penalty, loss=rs.losses.Huber(1.0), solver=rs.FISTA(tol=1e-3))
    model.set_params(penalty__l2=0.5, loss__delta=3.0, solver__tol=1e-6, l1=None)
    assert model.penalty == rs.penalties.ElasticNet(0.1, 0.5)
    assert (model.loss.delta, model.solver.tol, penalty.l2) == (3.0, 1e-6, 0.2)
    assert model.get_params()["penalty__l1"] == 0.1
    assert clone(model).penalty == model.penalty
    with pytest.raises(rs.InputError, match="penalty__strength cannot be set: penalty is"):
        model.set_params(penalty__strength=1.0)
    with pytest.raises(rs.InputError, match="no parameters"):
        rs.RRClassifier(penalty="l1").set_params(penalty__l1=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        model.set_params(nonsense=1)


def test_metadata_is_routed(cancer: Any) -> None:
    X, y = cancer
    weights = np.where(y == 1, 5.0, 1.0)
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = rs.RRClassifier(l2=0.1).set_fit_request(sample_weight=True)
        pipe = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
    alone = rs.RRClassifier(l2=0.1).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(pipe[-1].coef_, alone.coef_, atol=1e-6)


def test_a_model_pickles_with_its_run(cancer: Any) -> None:
    model = rs.RRClassifier(penalty=rs.penalties.L1(0.01)).fit(*cancer)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(cancer[0]), model.predict_proba(cancer[0]))
    assert again.trace_["objective"].tolist() == model.trace_["objective"].tolist()
    assert len(pickle.dumps(model)) < 20_000  # the data are not in it


def test_notebooks_show_it(cancer: Any) -> None:
    html = rs.RRClassifier(penalty=rs.penalties.L1(0.01)).fit(*cancer)._repr_html_()
    assert "RRClassifier" in html
    assert "penalty" in html


class Listener:
    """A callback of scikit-learn's protocol."""

    max_propagation_depth = None

    def __init__(self, stop_after: int = 10**6) -> None:
        self.begun, self.ended, self.stop_after = 0, 0, stop_after
        self.fitted: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.begun = self.ended = 0

    def teardown(self, estimator: Any, context: Any) -> None:
        self.over = True

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.begun += 1

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any, fitted_estimator: Any
    ) -> bool:
        self.ended += 1
        if fitted_estimator is not None:
            self.fitted.append(fitted_estimator.predict_proba(X))
        return self.ended >= self.stop_after


@pytest.mark.skipif(not hasattr(rs.RRClassifier, "set_callbacks"), reason="from scikit-learn 1.9")
def test_scikit_learn_callbacks_hear_every_epoch(cancer: Any) -> None:
    listener = Listener()
    model = rs.RRClassifier().set_callbacks(listener).fit(*cancer)
    assert listener.begun == listener.ended == model.n_iter_ + 2  # the fit, and an empty task
    np.testing.assert_allclose(listener.fitted[-1], model.predict_proba(cancer[0]))
    assert listener.over
    stopped = rs.RRClassifier().set_callbacks(Listener(stop_after=2)).fit(*cancer)
    assert stopped.n_iter_ == 2
    assert not stopped.converged_


@pytest.mark.skipif(not hasattr(rs.RRClassifier, "set_callbacks"), reason="from scikit-learn 1.9")
def test_scikit_learn_scores_every_epoch_by_the_labels_of_the_user(cancer: Any) -> None:
    from sklearn.callback import ScoringMonitor

    X, y = cancer
    monitor = ScoringMonitor(scoring="accuracy")
    model = rs.RRClassifier().set_callbacks(monitor).fit(X, np.where(y, "benign", "malignant"))
    assert model.converged_
    search = GridSearchCV(rs.RRClassifier(), {"l2": [0.01, 0.1]}, cv=2).set_callbacks(Listener())
    assert search.fit(X, y).best_score_ > 0.9


def test_our_callbacks_hear_every_epoch(cancer: Any) -> None:
    seen: list[int] = []

    def look(result: Any) -> bool:
        seen.append(result.epoch)
        return len(seen) == 3

    model = rs.RRClassifier(callbacks=look).fit(*cancer)
    assert seen == [1, 2, 3]
    assert model.message_ == "stopped by a callback"
    with pytest.raises(rs.InputError, match="callbacks must be a function"):
        rs.RRClassifier(callbacks=3).fit(*cancer)


def test_output_can_be_set_in_a_pipeline() -> None:
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    pipe = make_pipeline(StandardScaler(), rs.RRClassifier()).set_output(transform="pandas")
    pipe.fit(X, y)
    assert pipe[-1].feature_names_in_.tolist() == X.columns.tolist()
    assert isinstance(pipe[:-1].transform(X), pd.DataFrame)
    assert pipe.score(X, y) > 0.9


def test_early_stopping_keeps_the_best_model() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = rs.RRRegressor(solver="proxrr", early_stopping=True, n_iter_no_change=3, max_iter=500)
    model.fit(StandardScaler().fit_transform(X), y)
    assert model.validation_losses_.size == model.n_iter_ < 500
    assert np.argmin(model.validation_losses_) == model.n_iter_ - 4
    assert np.isnan(model.certificate_.value)
    wrongs: list[Any] = [0.0, 1.0, 2, "half"]
    for wrong in wrongs:
        with pytest.raises(rs.InputError, match="validation_fraction must lie between 0 and 1"):
            rs.RRRegressor(early_stopping=True, validation_fraction=wrong).fit(X, y)


def test_a_limit_that_is_too_small_is_told_in_our_words(cancer: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="give more than max_iter=2, a larger tol") as told:
        model = rs.RRClassifier(max_iter=2).fit(*cancer)
    assert not model.converged_
    assert len(told) == 1
    assert told[0].filename == __file__


def test_partial_fit_goes_towards_the_minimiser(cancer: Any) -> None:
    X, y = cancer
    exact = rs.RRClassifier(l2=0.1).fit(X, y)
    streamed = rs.RRClassifier(l2=0.1)
    for k in range(300):
        rows = slice(50 * (k % 11), 50 * (k % 11) + 50)
        streamed.partial_fit(X[rows], y[rows], classes=[0, 1])
    assert streamed.n_iter_ == 300
    np.testing.assert_allclose(streamed.coef_, exact.coef_, atol=0.02)
    X, y = load_iris(return_X_y=True)  # sorted: chunks of one class alone
    model = rs.RRClassifier(l2=0.01)
    for k in range(300):
        model.partial_fit(X[k % 3 :: 3], y[k % 3 :: 3], classes=[0, 1, 2])
        model.partial_fit(X[:20], y[:20], sample_weight=np.full(20, 0.1))
    assert model.score(X, y) > 0.9
    with pytest.raises(rs.InputError, match=r"y must hold the classes given at first.*got \[7\]"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(rs.InputError, match="classes must be given in the first call"):
        rs.RRClassifier().partial_fit(X, y)


def test_a_warm_start_saves_epochs_and_survives_other_classes(cancer: Any) -> None:
    X, y = cancer
    model = rs.RRClassifier(solver="fista", l2=0.1, warm_start=True).fit(X, y)
    cold = model.n_iter_
    again = model.fit(X, y).n_iter_
    assert again < cold / 5
    model.fit(X, np.where(y == 1, "yes", np.where(X[:, 0] > 0, "no", "perhaps")))
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.coef_.shape == (3, 30)


def test_summary_names_the_largest_coefficients() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = (X - X.mean()) / X.std()
    text = rs.RRClassifier(penalty="l1", l1=0.02).fit(X, y).summary(largest=2)
    assert "RRClassifier, logistic loss" in text
    assert "worst concave points" in text
    assert "P(x) is within" in text
    assert len(text.splitlines()) == 10


def test_sparse_coefficients_predict_the_same(cancer: Any) -> None:
    X, y = cancer
    model = rs.RRRegressor(penalty="l1", l1=0.05).fit(X, y.astype(float))
    before = model.predict(X)
    np.testing.assert_allclose(model.sparsify().predict(X), before, atol=1e-12)
    np.testing.assert_allclose(model.densify().predict(X), before, atol=1e-12)
    assert model.set_params(warm_start=True).sparsify().fit(X, y.astype(float)).converged_


def test_probabilities_are_those_of_logistic_regression(cancer: Any) -> None:
    X, y = cancer
    theirs = LogisticRegression(C=1 / 5.69, tol=1e-10, solver="newton-cholesky").fit(X, y)
    ours = rs.RRClassifier(l2=0.01).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-4)
    assert not hasattr(rs.RRClassifier(loss="squared_hinge"), "predict_proba")


def test_poisson_is_scikit_learns() -> None:
    from sklearn.linear_model import PoissonRegressor

    X, y = load_diabetes(return_X_y=True)
    for alpha in (1e-3, 0.1):
        ours = rs.RRRegressor(loss="poisson", l2=alpha).fit(X, y)
        theirs = PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-10).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
        np.testing.assert_allclose(ours.to_sklearn().predict(X), ours.predict(X), rtol=1e-12)
        for weights in (None, np.arange(1.0, len(y) + 1.0)):  # D², not R²
            assert ours.score(X, y, weights) == pytest.approx(theirs.score(X, y, weights), abs=1e-8)
    same = np.ones(len(y))  # nothing to explain
    assert rs.RRRegressor(loss="poisson").fit(X, same).score(X, same) == 1.0
    assert ours.score(X, same) == 0.0
    assert ours.score(X, 0.0 * same) == 0.0
    with pytest.raises(rs.InputError, match="no bound on its curvature"):
        rs.RRRegressor(loss="poisson").partial_fit(X, y)


def test_an_intercept_is_a_number_of_numpy_as_in_scikit_learn(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True)
    for model in (rs.RRRegressor().fit(X, y), rs.RRRegressor(fit_intercept=False).fit(X, y)):
        model.save(tmp_path / "model")
        for each in (model, rs.estimators.load(tmp_path / "model"), model.to_sklearn()):
            assert each.intercept_.shape == ()
            assert each.intercept_.dtype == np.float64


def test_several_outputs_are_saved_again_and_again(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True)
    model = rs.RRRegressor(l2=0.1).fit(X, np.c_[y, -y])
    for name in ("first.npz", "second.npz"):
        model.save(tmp_path / name)
        again = rs.estimators.load(tmp_path / name)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        model = again


def test_paths_refuse_what_a_fit_refuses() -> None:
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(rs.InputError, match="needs a convex penalty"):
        rs.rr_path(X, y, loss="squared", penalty=rs.penalties.MCP(1.0), lambdas=3)


def test_a_label_for_each_feature_holds_its_classes_together() -> None:
    X, y = load_iris(return_X_y=True)
    model = rs.RRClassifier(penalty=rs.penalties.GroupLasso(0.1, [0, 0, 1, 1])).fit(X, y)
    held = model.coef_ == 0
    assert (held.all(axis=0) | ~held.any(axis=0)).all()
    assert held[:, 0].all() == held[:, 1].all()
    assert held[:, 2].all() == held[:, 3].all()
