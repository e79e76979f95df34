"""Estimators against scikit-learn's, to the same accuracy; what they add to a solve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reshuffle as rs
from benchmarks.hindsight import cheapest
from benchmarks.report import Finding
from benchmarks.timing import interleaved, spent, timed

TARGET = 1e-6  # (P - P*)/(P(0) - P*)
PEERS = {"l2": ("lbfgs", "newton-cholesky", "newton-cg", "saga"), "l1": ("saga",)}
NOT_LARGE = {
    "newton-cholesky"
}  # a Hessian of 20,000 x 20,000, factorised at every step: minutes each
NEW = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)  # penalties by l1_ratio
SETS, LARGE = ("a9a", "mushrooms", "digits", "sparse"), "sparse"
MOST = 10_000, 100  # iterations: of the large set one takes about half a second
PATIENCE = 20.0  # seconds of one fit beyond which no smaller tolerance of that peer is tried
Fit = Callable[[], Any]


def data(name: str) -> tuple[Any, Any]:
    X: Any
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    if name == "sparse":
        rng, n, d, k = np.random.default_rng(0), 200_000, 20_000, 65  # values of a row
        places = (np.repeat(np.arange(n), k), rng.integers(0, d, n * k))  # by scipy's random: 30 GB
        X = sp.csr_matrix((rng.random(n * k), places), shape=(n, d))
        return X, np.sign(X @ (rng.standard_normal(d) * (rng.random(d) < 0.02)) + 0.1)
    return rs.datasets.load_libsvm(name)


def fits(quick: bool, names: tuple[str, ...] = SETS) -> list[Finding]:
    """Seconds of scikit-learn's best solver over ours, to (P - P*)/(P(0) - P*) = 1e-6, with an intercept."""
    rounds = 1 if quick else 5
    chosen = [name for name in names if not quick or name != LARGE or len(names) == 1]
    return [_fit(name, penalty, rounds) for name in chosen for penalty in ("l2", "l1")]


def _fit(name: str, penalty: str, rounds: int) -> Finding:
    X, y = data(name)
    strength = 1.0 / X.shape[0]  # C = 1
    settings: dict[str, Any] = {"penalty": penalty, penalty: strength}
    best = rs.RRClassifier(tol=1e-13, **settings).fit(X, y)
    # the same P for all: through the problem that ours solves
    targets = rs.encode_labels(y)[0]
    loss = rs.losses.Logistic() if best.classes_.size == 2 else rs.losses.Multinomial()
    problem = rs.Problem(X, targets, loss, best.penalty_, fit_intercept=True)
    least, most = best.objective_, problem.objective(np.zeros(problem.shape))

    def accurate(model: Any) -> bool:
        x = np.column_stack([model.coef_, model.intercept_]).T
        at = problem.objective(np.ascontiguousarray(x if x.shape[1] > 1 else x[:, 0]))
        reached = at - least <= TARGET * (most - least)
        return bool(reached and getattr(model, "converged_", True))

    def ours(tol: float) -> Any:
        return rs.RRClassifier(tol=tol, **settings)

    def theirs(solver: str) -> Callable[[float], Any]:
        ratio = float(penalty == "l1")
        named: dict[str, Any] = {"l1_ratio": ratio} if NEW else {"penalty": penalty}
        limits: dict[str, Any] = {"max_iter": MOST[name == LARGE], "random_state": 0}
        return lambda tol: LogisticRegression(C=1.0, solver=solver, tol=tol, **named, **limits)

    contestants = {"ours": ours} | {
        solver: theirs(solver)
        for solver in PEERS[penalty]
        if not (name == LARGE and solver in NOT_LARGE)
    }

    def fitted(make: Callable[[float], Any], tol: float) -> Any:
        return make(tol).fit(X, y)

    chosen = {
        who: cheapest(partial(fitted, make), accurate, PATIENCE)
        for who, make in contestants.items()
    }
    work = {who: spent(fit) for who, fit in chosen.items() if fit is not None}
    seconds = interleaved(work, rounds)
    mine = seconds.pop("ours", np.nan)
    peer = min(seconds, key=lambda who: seconds[who], default="")
    detail = ", ".join(f"{who} {1e3 * s:.0f} ms" for who, s in {"ours": mine, **seconds}.items())
    ratio = seconds[peer] / mine if peer else np.inf
    what = f"{name}, {penalty}: {peer or 'no peer got there;'} over ours"
    return Finding(what, ratio, "times", "at least", 2.0, detail)


def overhead(quick: bool) -> list[Finding]:
    """Milliseconds that fit adds to Problem and solve, on the breast-cancer data."""
    X, y = rs.datasets.breast_cancer()
    model = rs.RRClassifier(penalty="elasticnet", l1=0.01, l2=0.01, tol=1e-6)
    penalty = rs.penalties.ElasticNet(0.01, 0.01)

    def bare() -> None:
        rs.ExactProxRR(tol=1e-6).solve(rs.Problem(X, y, penalty=penalty, fit_intercept=True))

    work: dict[str, Fit] = {"bare": bare, "fit": lambda: model.fit(X, y)}
    best = interleaved({who: timed(do) for who, do in work.items()}, 100 if quick else 1000)
    extra = 1e3 * (best["fit"] - best["bare"])
    detail = f"fit {1e3 * best['fit']:.2f} ms, Problem and solve {1e3 * best['bare']:.2f} ms"
    return [
        Finding("breast cancer: fit less Problem and solve", extra, "ms", "at most", 0.2, detail)
    ]
