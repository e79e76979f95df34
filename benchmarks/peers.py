"""Solvers of other projects and our own, each as a function from a budget to a point.

A budget is what the solver's own limit counts: passes over the data where it has such a limit, half decades
of its tolerance where that is the limit to set. A larger budget is a longer and more accurate fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reshuffle as rs
from benchmarks.cases import Case

Array = NDArray[np.float64]
Fit = Callable[[int], Array]
OURS = "ExactProxRR"
NEVER = 1e-30  # a tolerance that no run meets


def fits(case: Case) -> Iterator[tuple[str, Fit]]:
    """The contestants that can solve this case, ours first."""
    for make in (_ours, _cyanure, _saga, _liblinear, _sgd, _coordinate_descent, _skglm, _celer):
        for name, fit in make(case):
            yield name, _quiet(fit)


def _quiet(fit: Fit) -> Fit:
    """Without the warnings that a limited budget causes."""

    def quiet(budget: int) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.ascontiguousarray(fit(budget))

    return quiet


def tolerance(budget: int) -> float:
    return float(10.0 ** (-budget / 2.0))


def by_columns(X: Any) -> Any:
    """What coordinate descent reads best; the conversion is not timed."""
    return X.tocsc() if hasattr(X, "tocsc") else np.asfortranarray(X)


# --- ours --------------------------------------------------------------------------------------


def _ours(case: Case) -> Iterator[tuple[str, Fit]]:
    def run(solver: Callable[[int], Any]) -> Fit:
        return lambda budget: solver(budget).solve(case.problem()).x

    yield OURS, run(lambda k: rs.ExactProxRR(epochs=k, tol=0.0, eval_every=k))
    yield "ProxRR", run(lambda k: rs.ProxRR(epochs=k, eval_every=k, step=rs.steps.InverseTime()))
    yield "ProxSGD", run(lambda k: rs.ProxSGD(epochs=k, eval_every=k, step=rs.steps.InverseTime()))
    yield "FISTA", run(lambda k: rs.FISTA(epochs=k, tol=0.0, eval_every=k))


# --- other projects ----------------------------------------------------------------------------


def _cyanure(case: Case) -> Iterator[tuple[str, Fit]]:
    from cyanure.estimators import Classifier, Regression

    if case.kind == "huber":
        return
    common: dict[str, Any] = {
        "penalty": "elasticnet", "lambda_1": case.l1, "lambda_2": case.l2,
        "fit_intercept": False, "tol": NEVER, "verbose": False, "n_threads": 1,
    }  # fmt: skip
    kind = Regression if case.kind == "squared" else Classifier
    if case.kind != "squared":
        common["loss"] = {"logistic": "logistic", "multinomial": "multiclass-logistic"}[case.kind]

    def run(solver: str) -> Fit:
        def fit(budget: int) -> Array:
            interval = max(budget, 1)
            made = kind(solver=solver, max_iter=budget, duality_gap_interval=interval, **common)
            return np.asarray(made.fit(case.X, case.y).coef_).reshape(case.judge.shape)

        return fit

    for solver in ("svrg", "qning-svrg", "auto"):
        yield f"cyanure {solver}", run(solver)


def _saga(case: Case) -> Iterator[tuple[str, Fit]]:
    from sklearn.linear_model import LogisticRegression

    if case.kind not in ("logistic", "multinomial"):
        return
    total = case.l1 + case.l2

    def fit(budget: int) -> Array:
        made = LogisticRegression(
            solver="saga", C=1.0 / (len(case.y) * total), l1_ratio=case.l1 / total,
            fit_intercept=False, tol=NEVER, max_iter=budget, random_state=0,
        )  # fmt: skip
        coef = np.asarray(made.fit(case.X, case.y).coef_)
        return coef.T if case.kind == "multinomial" else coef.ravel()

    yield "sklearn saga", fit


def _liblinear(case: Case) -> Iterator[tuple[str, Fit]]:
    from sklearn.linear_model import LogisticRegression

    if case.kind != "logistic" or case.l2 > 0:
        return

    def fit(budget: int) -> Array:
        made = LogisticRegression(
            solver="liblinear", C=1.0 / (len(case.y) * case.l1), l1_ratio=1.0,
            fit_intercept=False, tol=tolerance(budget), max_iter=10_000, random_state=0,
        )  # fmt: skip
        return np.asarray(made.fit(case.X, case.y).coef_).ravel()

    yield "sklearn liblinear", fit


def _sgd(case: Case) -> Iterator[tuple[str, Fit]]:
    from sklearn.linear_model import SGDClassifier

    if case.kind != "logistic":
        return
    total = case.l1 + case.l2

    def fit(budget: int) -> Array:
        made = SGDClassifier(
            loss="log_loss", penalty="elasticnet", alpha=total, l1_ratio=case.l1 / total,
            fit_intercept=False, tol=None, max_iter=budget, random_state=0, average=True,
        )  # fmt: skip
        return np.asarray(made.fit(case.X, case.y).coef_).ravel()

    yield "sklearn SGD averaged", fit


def _coordinate_descent(case: Case) -> Iterator[tuple[str, Fit]]:
    from sklearn.linear_model import ElasticNet

    if case.kind != "squared":
        return
    total, X = case.l1 + case.l2, np.asfortranarray(case.X)

    def run(precompute: bool) -> Fit:
        def fit(budget: int) -> Array:
            made = ElasticNet(
                alpha=total, l1_ratio=case.l1 / total, precompute=precompute, fit_intercept=False,
                tol=0.0, max_iter=budget,
            )  # fmt: skip
            return np.asarray(made.fit(X, case.y).coef_)

        return fit

    yield "sklearn ElasticNet", run(False)
    yield "sklearn ElasticNet, Gram", run(True)


def _skglm(case: Case) -> Iterator[tuple[str, Fit]]:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Huber, Logistic, Quadratic
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD, ProxNewton

    if case.kind == "multinomial":
        return
    X = by_columns(case.X)
    total = case.l1 + case.l2
    datafits = {"logistic": Logistic, "squared": Quadratic, "huber": lambda: Huber(1.0)}

    def run(solver: Callable[[float], Any]) -> Fit:
        def fit(budget: int) -> Array:
            penalty = L1_plus_L2(total, case.l1 / total)
            made = GeneralizedLinearEstimator(
                datafits[case.kind](), penalty, solver(tolerance(budget))
            )
            return np.asarray(made.fit(X, case.y).coef_).ravel()

        return fit

    yield (
        "skglm AndersonCD",
        run(lambda tol: AndersonCD(tol=tol, max_iter=1000, fit_intercept=False)),
    )
    if case.kind == "logistic":
        yield (
            "skglm ProxNewton",
            run(lambda tol: ProxNewton(tol=tol, max_iter=1000, fit_intercept=False)),
        )


def _celer(case: Case) -> Iterator[tuple[str, Fit]]:
    from celer import ElasticNet, LogisticRegression

    X = by_columns(case.X)
    if case.kind == "logistic" and case.l2 == 0:

        def fit(budget: int) -> Array:
            made = LogisticRegression(
                C=1.0 / (len(case.y) * case.l1), tol=tolerance(budget), max_iter=1000
            )
            return np.asarray(made.fit(X, case.y).coef_).ravel()

        yield "celer", fit
    elif case.kind == "squared":
        total = case.l1 + case.l2

        def regress(budget: int) -> Array:
            made = ElasticNet(
                alpha=total, l1_ratio=case.l1 / total, tol=tolerance(budget), max_iter=1000,
                fit_intercept=False,
            )  # fmt: skip
            return np.asarray(made.fit(X, case.y).coef_)

        yield "celer", regress
