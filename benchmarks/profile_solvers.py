"""Solvers of other projects and our own for problems of the corpus: from raw arrays and a tolerance to a point.

A solver takes a problem only where its objective is the same one: liblinear and ``LinearSVC`` penalise an intercept, so they
take problems without; ``HuberRegressor`` fits a scale too, so it takes none. What a user would have to do to the arrays first
(by columns for coordinate descent, double precision, a dense copy) is part of the fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reshuffle as rs
from benchmarks.canonical import canonical
from benchmarks.glm_losses import CLASSES, DISPERSION, GLMS, POWER
from benchmarks.instances import Instance, is_sparse, largest_strength, slopes_at_start
from benchmarks.peers import by_columns

Array = NDArray[np.float64]
Fit = Callable[[float], Array]
OURS, HINDSIGHT, FISTA = "ExactProxRR", "ExactProxRR, hindsight", "FISTA"
OWN = (OURS, HINDSIGHT, FISTA)
MANY = 1_000_000  # iterations: the tolerance is what ends a fit
SQUARE = 5_000  # unknowns up to which a solver may make a matrix with as many rows and columns
DENSE = 1_000_000  # entries up to which a sparse X is copied into a dense one for a solver that needs it


@dataclass(frozen=True, eq=False)
class Contestant:
    """A solver on one problem."""

    name: str
    fit: Fit
    unit: float = 1.0
    """What a tolerance is multiplied by: the size of the slopes at zero where it is an absolute one."""
    loosest: float = 0.1
    """The first tolerance that is tried."""
    direct: bool = False
    """No tolerance to choose."""

    def __call__(self, tol: float) -> Array:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return np.asarray(self.fit(tol * self.unit), dtype=np.float64)


def contestants(instance: Instance, *, bench: bool = True) -> list[Contestant]:
    """Those that can take the problem, ours first; without ``bench``, only those whose packages the tests install too."""
    found = list(_ours(instance))
    if instance.sample_weight is None and np.ndim(instance.l1) == 0 and np.ndim(instance.l2) == 0:
        slope = float(np.abs(slopes_at_start(instance)[1]).max(initial=0.0)) or 1.0
        installed = (
            _sklearn_logistic, _liblinear, _least_squares, _coordinate_descent, _sklearn_glm, _glum, _lbfgsb, _lsq_linear,
        )  # fmt: skip
        extra = (_cyanure, _skglm, _skglm_groups, _celer, _celer_groups)
        for make in installed + (extra if bench else ()):
            found += make(instance, slope)
    return found


def twin(instance: Instance) -> Instance:
    """An easy small problem of the same kind, on which a solver compiles all that it will need."""
    rng = np.random.default_rng(0)
    n, d = 80, 12
    X: Any = rng.standard_normal((n, d)).astype(instance.X.dtype)
    X = type(instance.X)(X) if is_sparse(instance.X) else X
    if instance.loss == "multinomial":
        y = (np.arange(n) % 3).astype(float)
    elif instance.loss in GLMS and instance.loss not in CLASSES:
        y = 1.0 + rng.poisson(2.0, n)
    else:
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        y = y + rng.standard_normal(n) if instance.loss in ("squared", "huber") else y
    labels = None if instance.labels is None else np.arange(d, dtype=np.int64) // 3
    bare = instance.with_(
        X=X, y=y, labels=labels, group_weights=None, sample_weight=None, lower=-0.1, upper=0.1
    )
    most = largest_strength(bare)
    changes: dict[str, Any] = {"strength": 0.2 * most}
    changes |= {name: 0.2 * most for name in ("l1", "l2") if np.any(getattr(instance, name))}
    return bare.with_(**changes)


def _penalties(instance: Instance) -> tuple[float, float, float]:
    """l1, l2 and their sum; the ridge is in l2."""
    l1, l2 = float(instance.l1), float(instance.l2) + instance.ridge
    return l1, l2, l1 + l2


def _plain(instance: Instance) -> bool:
    """Whether ψ is l1‖x‖₁ + (l2/2)‖x‖² and nothing else."""
    return instance.penalty in ("zero", "l1", "l2", "elastic_net")


def _double(instance: Instance) -> Any:
    """Peers keep single precision, with which none gets far: they are given doubles."""
    return instance.X.astype(np.float64, copy=False)


def _joined(instance: Instance, coef: Any, intercept: Any) -> Array:
    """x as the package lays it out: a row a feature, the intercept last, a column a class."""
    d, k = instance.X.shape[1], instance.classes
    x = np.asarray(coef, dtype=np.float64).reshape((d, k) if k > 1 else d)
    if not instance.intercept:
        return x
    last = np.asarray(intercept, dtype=np.float64).reshape((1, k) if k > 1 else 1)
    return np.concatenate((x, last))


# --- ours --------------------------------------------------------------------------------------


def _ours(instance: Instance) -> Iterator[Contestant]:
    def certified(tol: float) -> Array:
        result = rs.ExactProxRR(tol=tol).solve(instance.problem())
        return result.x if result.converged else np.full_like(result.x, np.nan)

    def hindsight(tol: float) -> Array:
        return rs.ExactProxRR(tol=tol).solve(instance.problem()).x

    yield Contestant(OURS, certified)
    yield Contestant(HINDSIGHT, hindsight, loosest=0.01)  # it seldom stops at a looser one
    yield Contestant(FISTA, lambda tol: rs.FISTA(tol=tol).solve(instance.problem()).x)


# --- scikit-learn ------------------------------------------------------------------------------


def _sklearn_logistic(instance: Instance, slope: float) -> Iterator[Contestant]:
    from sklearn.linear_model import LogisticRegression

    l1, _, total = _penalties(instance)
    if instance.loss not in ("logistic", "multinomial") or not _plain(instance):
        return
    C = 1.0 / (len(instance.y) * total) if total > 0 else np.inf

    def run(solver: str) -> Fit:
        def fit(tol: float) -> Array:
            made = LogisticRegression(
                solver=solver, C=C, l1_ratio=l1 / total if total > 0 else 0.0,
                fit_intercept=instance.intercept, tol=tol, max_iter=MANY, random_state=0,
            ).fit(_double(instance), instance.y)  # fmt: skip
            return _joined(instance, made.coef_.T, made.intercept_)

        return fit

    yield Contestant("sklearn saga", run("saga"))
    if l1 == 0:
        yield Contestant("sklearn lbfgs", run("lbfgs"), slope)
        if instance.X.shape[1] * instance.classes <= SQUARE:
            yield Contestant("sklearn newton-cholesky", run("newton-cholesky"), slope)


def _liblinear(instance: Instance, slope: float) -> Iterator[Contestant]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    l1, l2, total = _penalties(instance)
    one = _plain(instance) and (l1 > 0) != (l2 > 0)
    if instance.intercept or not one or instance.loss not in ("logistic", "squared_hinge"):
        return
    C = 1.0 / (len(instance.y) * total)
    common = {"fit_intercept": False, "max_iter": MANY, "random_state": 0}

    def logistic(tol: float) -> Array:
        made = LogisticRegression(
            solver="liblinear", C=C, l1_ratio=float(l1 > 0), tol=tol, **common
        )
        return _joined(instance, made.fit(_double(instance), instance.y).coef_, 0.0)

    def hinge(tol: float) -> Array:
        made = LinearSVC(
            penalty="l1" if l1 > 0 else "l2", C=C / 2, tol=tol,
            dual=False if l1 > 0 else "auto", **common,
        )  # fmt: skip
        return _joined(instance, made.fit(_double(instance), instance.y).coef_, 0.0)

    if instance.loss == "logistic":
        yield Contestant("sklearn liblinear", logistic)
    else:
        yield Contestant("sklearn LinearSVC", hinge)


def _least_squares(instance: Instance, slope: float) -> Iterator[Contestant]:
    from sklearn.linear_model import LinearRegression, Ridge

    l1, l2, _ = _penalties(instance)
    if instance.loss != "squared" or not _plain(instance) or l1 > 0:
        return
    intercept = instance.intercept
    ridge = Ridge(alpha=len(instance.y) * l2, fit_intercept=intercept)
    model = ridge if l2 > 0 else LinearRegression(fit_intercept=intercept)

    def fit(tol: float) -> Array:
        made = model.fit(_double(instance), instance.y)
        return _joined(instance, made.coef_, made.intercept_)

    name = "sklearn Ridge" if l2 > 0 else "sklearn LinearRegression"
    yield Contestant(name, fit, direct=True)


def _coordinate_descent(instance: Instance, slope: float) -> Iterator[Contestant]:
    from sklearn.linear_model import ElasticNet

    l1, _, total = _penalties(instance)
    positive = instance.penalty == "non_negative"
    if instance.loss != "squared" or not (_plain(instance) or positive) or l1 == 0:
        return

    def run(precompute: bool) -> Fit:
        def fit(tol: float) -> Array:
            made = ElasticNet(
                alpha=total, l1_ratio=l1 / total, precompute=precompute, positive=positive,
                fit_intercept=instance.intercept, tol=tol, max_iter=MANY,
            ).fit(by_columns(_double(instance)), instance.y)  # fmt: skip
            return _joined(instance, made.coef_, made.intercept_)

        return fit

    yield Contestant("sklearn ElasticNet", run(False))
    if instance.X.shape[1] <= SQUARE:
        yield Contestant("sklearn ElasticNet, Gram", run(True))


# --- GLMs --------------------------------------------------------------------------------------


def _sklearn_glm(instance: Instance, slope: float) -> Iterator[Contestant]:
    """Up to scikit-learn 1.9.1 these have a ridge and no l1."""
    from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor

    l1, l2, _ = _penalties(instance)
    models: dict[str, Callable[..., Any]] = {
        "poisson": PoissonRegressor, "gamma": GammaRegressor, "tweedie": partial(TweedieRegressor, power=POWER),
    }  # fmt: skip
    if instance.loss not in models or not _plain(instance) or l1 > 0:
        return

    def run(solver: str) -> Fit:
        def fit(tol: float) -> Array:
            made = models[instance.loss](
                alpha=l2, fit_intercept=instance.intercept, solver=solver, tol=tol, max_iter=MANY
            ).fit(_double(instance), instance.y)
            return _joined(instance, made.coef_, made.intercept_)

        return fit

    for solver in ("lbfgs", "newton-cholesky"):
        yield Contestant(f"sklearn GLM {solver}", run(solver), slope)


def _glum(instance: Instance, slope: float) -> Iterator[Contestant]:
    """glum, where it is installed: no extra brings it."""
    if find_spec("glum") is None or not _plain(instance):
        return
    glum = import_module("glum")
    families: dict[str, Any] = {
        "poisson": "poisson", "gamma": "gamma", "tweedie": glum.TweedieDistribution(POWER), "cloglog": "binomial",
        "negative_binomial": glum.NegativeBinomialDistribution(DISPERSION), "logistic": "binomial",
    }  # fmt: skip
    l1, _, total = _penalties(instance)
    if instance.loss not in families:
        return
    link = {"cloglog": "cloglog", "logistic": "logit"}.get(instance.loss, "log")

    def fit(tol: float) -> Array:
        y = (instance.y > 0).astype(float) if families[instance.loss] == "binomial" else instance.y
        made = glum.GeneralizedLinearRegressor(
            alpha=total, l1_ratio=l1 / total if total > 0 else 0.0, family=families[instance.loss], link=link,
            fit_intercept=instance.intercept, gradient_tol=tol, max_iter=10_000,
        ).fit(_double(instance), y)  # fmt: skip
        return _joined(instance, made.coef_, made.intercept_)

    yield Contestant("glum", fit, slope)


# --- cyanure -----------------------------------------------------------------------------------


def _cyanure(instance: Instance, slope: float) -> Iterator[Contestant]:
    from cyanure.estimators import Classifier, Regression

    l1, l2, total = _penalties(instance)
    rows = instance.penalty == "group_lasso" and instance.labels is None
    losses = {
        "logistic": "logistic", "squared_hinge": "sqhinge", "multinomial": "multiclass-logistic",
        "squared": "square",
    }  # fmt: skip
    if instance.loss not in losses or not (_plain(instance) or (rows and l2 == 0)):
        return
    common: dict[str, Any] = {
        "fit_intercept": instance.intercept, "verbose": False, "n_threads": 1, "max_iter": 100_000,
    }  # fmt: skip
    if rows:
        factor = instance.strength * np.sqrt(instance.classes)
        common |= {"penalty": "l1l2", "lambda_1": factor}
    elif l1 > 0 and l2 > 0:
        common |= {"penalty": "elasticnet", "lambda_1": l1, "lambda_2": l2}
    else:
        kind = "l1" if l1 > 0 else "l2" if l2 > 0 else "none"
        common |= {"penalty": kind, "lambda_1": total}
    regression = instance.loss == "squared"
    if not regression:
        common["loss"] = losses[instance.loss]

    def run(solver: str) -> Fit:
        def fit(tol: float) -> Array:
            made = (Regression if regression else Classifier)(solver=solver, tol=tol, **common)
            made.fit(_double(instance), instance.y)
            return _joined(instance, made.coef_, made.intercept_ if instance.intercept else 0.0)

        return fit

    for solver in ("auto", "qning-svrg", "svrg"):
        yield Contestant(f"cyanure {solver}", run(solver))


# --- skglm -------------------------------------------------------------------------------------


def _skglm(instance: Instance, slope: float) -> Iterator[Contestant]:
    from skglm.datafits import Gamma, Huber, Logistic, Poisson, Quadratic
    from skglm.penalties import L1_plus_L2, WeightedL1
    from skglm.solvers import AndersonCD, ProxNewton

    l1, _, total = _penalties(instance)
    positive = instance.penalty == "non_negative"
    datafits: dict[str, Callable[[], Any]] = {
        "logistic": Logistic, "squared": Quadratic, "huber": lambda: Huber(instance.delta),
        "poisson": Poisson, "gamma": Gamma,
    }  # fmt: skip
    if instance.loss not in datafits or not (_plain(instance) or positive):
        return

    def penalty() -> Any:
        if total > 0:
            return L1_plus_L2(total, l1 / total, positive)
        return WeightedL1(1.0, np.zeros(instance.X.shape[1]), positive)

    def run(kind: Any) -> Fit:
        def fit(tol: float) -> Array:
            solver = kind(tol=tol, max_iter=MANY, fit_intercept=instance.intercept)
            X, datafit = by_columns(_double(instance)), datafits[instance.loss]()
            x = solver.solve(X, instance.y, datafit, penalty())[0]
            return np.asarray(x)

        return fit

    bounded = instance.loss not in GLMS  # AndersonCD needs a bound on the curvature
    if bounded:
        yield Contestant("skglm AndersonCD", run(AndersonCD), slope)
    if instance.loss == "logistic" or not bounded:
        yield Contestant("skglm ProxNewton", run(ProxNewton), slope)


def groups_of(instance: Instance) -> tuple[list[list[int]], list[float]]:
    """The coordinates of each group and its weight; one that is not penalised is a group of weight 0."""
    d = instance.X.shape[1]
    labels = np.full(d, -1, dtype=np.int64)
    given = instance.labels
    assert given is not None
    labels[: given.size] = given
    members = [np.flatnonzero(labels == g) for g in range(int(labels.max()) + 1)]
    weights = instance.group_weights
    if weights is None:
        weights = np.sqrt([m.size for m in members])
    free = np.flatnonzero(labels < 0)
    groups = [m.tolist() for m in members] + [[int(j)] for j in free]
    return groups, [*weights.tolist(), *[0.0] * free.size]


def _skglm_groups(instance: Instance, slope: float) -> Iterator[Contestant]:
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton

    wanted = instance.penalty == "group_lasso" and instance.labels is not None
    if not wanted or instance.ridge > 0 or instance.loss not in ("logistic", "squared"):
        return
    if is_sparse(instance.X) and np.prod(instance.X.shape) > DENSE:
        return

    def run(kind: Any) -> Fit:
        def fit(tol: float) -> Array:
            groups, weights = groups_of(instance)
            ends = np.cumsum([0, *map(len, groups)]).astype(np.int32)
            members = np.concatenate([np.asarray(g) for g in groups]).astype(np.int32)
            datafit = LogisticGroup if instance.loss == "logistic" else QuadraticGroup
            penalty = WeightedGroupL2(instance.strength, np.array(weights), ends, members)
            X = _double(instance)
            X = np.asfortranarray(X.toarray() if is_sparse(X) else X)
            solver = kind(tol=tol, max_iter=10_000, fit_intercept=instance.intercept)
            return np.asarray(solver.solve(X, instance.y, datafit(ends, members), penalty)[0])

        return fit

    yield Contestant("skglm GroupBCD", run(GroupBCD), slope)
    if instance.loss == "logistic":
        yield Contestant("skglm GroupProxNewton", run(GroupProxNewton), slope)


# --- celer -------------------------------------------------------------------------------------


def _celer(instance: Instance, slope: float) -> Iterator[Contestant]:
    from celer import ElasticNet, LogisticRegression

    l1, l2, total = _penalties(instance)
    positive = instance.penalty == "non_negative"
    if not (_plain(instance) or positive) or l1 == 0:
        return

    def logistic(tol: float) -> Array:
        made = LogisticRegression(C=1.0 / (len(instance.y) * l1), tol=tol, max_iter=10_000)
        return _joined(instance, made.fit(_double(instance), instance.y).coef_, 0.0)

    def squared(tol: float) -> Array:
        made = ElasticNet(
            alpha=total, l1_ratio=l1 / total, positive=positive, tol=tol, max_iter=10_000,
            fit_intercept=instance.intercept,
        ).fit(by_columns(_double(instance)), instance.y)  # fmt: skip
        return _joined(instance, made.coef_, made.intercept_)

    if instance.loss == "squared":
        yield Contestant("celer", squared)
    elif instance.loss == "logistic" and not (instance.intercept or positive or l2 > 0):
        yield Contestant("celer", logistic)


def _celer_groups(instance: Instance, slope: float) -> Iterator[Contestant]:
    from celer import GroupLasso

    if instance.penalty != "group_lasso" or instance.labels is None or instance.ridge > 0:
        return
    if instance.loss != "squared" or min(groups_of(instance)[1]) == 0:
        return

    def fit(tol: float) -> Array:
        groups, weights = groups_of(instance)
        made = GroupLasso(
            groups=groups, alpha=instance.strength, weights=np.array(weights), tol=tol,
            max_iter=10_000, fit_intercept=instance.intercept,
        ).fit(by_columns(_double(instance)), instance.y)  # fmt: skip
        return _joined(instance, made.coef_, made.intercept_)

    yield Contestant("celer", fit)


# --- scipy, with the objective in numpy --------------------------------------------------------


def _lbfgsb(instance: Instance, slope: float) -> Iterator[Contestant]:
    """Where ψ is smooth within its bounds."""
    from scipy.optimize import minimize

    smooth = instance.penalty in ("zero", "l2", "box", "non_negative")
    if not smooth:
        return

    def fit(tol: float) -> Array:
        model = canonical(instance)
        linear = np.zeros(model.size)
        linear[model.labels >= 0] = model.strengths  # on what is not negative, |x| = x

        def value(x: Array) -> tuple[float, Array]:
            z, shrink = model.margins(x), model.l2 * x
            total = float(model.loss_of(z)) + float(linear @ x + shrink @ x / 2)
            return total, model.pull(model.slopes(z)) + linear + shrink

        start = np.clip(np.zeros(model.size), model.lower, model.upper)
        bounds = np.column_stack((model.lower, model.upper))
        solve: Any = minimize
        found = solve(
            value, start, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"gtol": tol, "ftol": 0.0, "maxiter": MANY, "maxfun": MANY},
        )  # fmt: skip
        x = np.asarray(found.x)
        return x.reshape(-1, instance.classes) if instance.classes > 1 else x

    yield Contestant("scipy L-BFGS-B", fit, slope)


def _lsq_linear(instance: Instance, slope: float) -> Iterator[Contestant]:
    from scipy.optimize import lsq_linear

    if instance.loss != "squared" or instance.penalty != "box" or instance.ridge > 0:
        return
    if is_sparse(instance.X):
        return

    def run(method: str) -> Fit:
        def fit(tol: float) -> Array:
            model = canonical(instance)
            bounds = model.lower, model.upper
            solve: Any = lsq_linear
            found = solve(model.A, instance.y, bounds, method=method, tol=tol, max_iter=MANY)
            return np.asarray(found.x)

        return fit

    for method in ("trf", "bvls"):
        yield Contestant(f"scipy lsq_linear {method}", run(method))
