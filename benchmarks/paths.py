"""Whole ℓ1 paths of logistic regression against those of others, to the same accuracy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import reshuffle as rs
from benchmarks.estimators import LARGE, data
from benchmarks.hindsight import cheapest
from benchmarks.report import Finding
from benchmarks.timing import interleaved, spent

Array = NDArray[np.float64]
SETS = ("a9a", "mushrooms", "digits", "wide", LARGE)
COUNT, SMALLEST = 50, 0.01  # strengths, and the last one over λ_max
TARGET = 1e-6  # of P(0) - P*: the accuracy at every strength
FEWEST_FITS, TWICE = 8.0, 2.0  # the bars
PATIENCE = 60.0  # seconds of one path beyond which no smaller tolerance of that peer is tried
MANY = 10_000  # iterations, which nobody should need
Path = Callable[[float], Array]
"""Coefficients at each strength, with this tolerance."""


@cache
def _data(name: str) -> tuple[Any, Any]:
    """Two classes; no intercept, which not everybody has."""
    if name == "wide":
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 5000))
        return X, np.sign(X[:, :20].sum(axis=1) + 2.0 * rng.standard_normal(200))
    X, y = data(name)
    return X, np.where(y % 2 == 0, 1.0, -1.0) if name == "digits" else y


def paths(quick: bool, names: tuple[str, ...] = SETS) -> list[Finding]:
    """50 strengths from λ_max to λ_max/100 over one fit at the smallest, and the best peer's path over ours."""
    chosen = [name for name in names if not quick or name != LARGE or len(names) == 1]
    return [found for name in chosen for found in _path(name, 1 if quick else 3)]


def _path(name: str, rounds: int) -> list[Finding]:
    X, y = _data(name)
    n = len(y)
    top = rs.Problem(X, y, penalty=rs.penalties.L1(1.0)).lambda_max()
    lambdas = top * np.geomspace(1.0, SMALLEST, COUNT)
    problems = [rs.Problem(X, y, penalty=rs.penalties.L1(strength)) for strength in lambdas]
    best = rs.rr_path(X, y, lambdas=lambdas, fit_intercept=False, tol=1e-11)
    most = problems[0].objective(np.zeros(X.shape[1]))

    def accurate(coefs: Array) -> bool:
        at = [p.objective(np.ascontiguousarray(x)) for p, x in zip(problems, coefs, strict=True)]
        return bool(np.all(at - best.objectives <= TARGET * (most - best.objectives[-1])))

    def ours(tol: float) -> Array:
        found = rs.rr_path(X, y, lambdas=lambdas, fit_intercept=False, tol=tol)
        return found.coefs.reshape(COUNT, -1)

    runs: dict[str, Path] = {"ours": ours, **_peers(X, y, lambdas)}
    chosen = {who: cheapest(run, accurate, PATIENCE) for who, run in runs.items()}
    one = rs.RRClassifier(penalty="l1", l1=float(lambdas[-1]), fit_intercept=False, tol=TARGET)
    work = {who: spent(run) for who, run in chosen.items() if run is not None}
    work["one fit"] = spent(partial(one.fit, X, y))
    best_of = interleaved(work, rounds)
    fit, mine = best_of.pop("one fit"), best_of.pop("ours")
    peer = min(best_of, key=lambda who: best_of[who], default="")
    times = {"ours": mine, "one fit": fit, **best_of}
    detail = f"n = {n}: " + ", ".join(f"{who} {1e3 * s:.0f} ms" for who, s in times.items())
    missing = sorted(set(runs) - set(work))
    detail += f"; not accurate in {PATIENCE:.0f} s: {', '.join(missing)}" if missing else ""
    ratio = best_of[peer] / mine if peer else np.inf
    return [
        Finding(f"{name}: {peer or 'no peer got there;'} over ours", ratio, "times", "at least", TWICE, detail),
        Finding(f"{name}: the path over one fit", mine / fit, "fits", "at most", FEWEST_FITS),
    ]  # fmt: skip


def _peers(X: Any, y: Any, lambdas: Array) -> dict[str, Path]:
    from celer import celer_path
    from skglm.datafits import Logistic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD, ProxNewton

    n = len(y)
    by_columns: Any = np.asfortranarray(X) if isinstance(X, np.ndarray) else X.tocsc()

    def celer(tol: float) -> Array:
        given = {"alphas": n * lambdas, "tol": tol, "max_iter": MANY}
        return np.asarray(celer_path(by_columns, y, "logreg", **given)[1]).T

    def skglm(kind: Any) -> Path:
        def run(tol: float) -> Array:
            solver, x, found = kind(tol=tol, max_iter=MANY, fit_intercept=False), None, []
            for strength in lambdas:
                start = None if x is None else x.copy()
                fitted = None if start is None else by_columns @ start
                x = solver.solve(by_columns, y, Logistic(), L1(strength), start, fitted)[0]
                found.append(x.copy())
            return np.array(found)

        return run

    def sklearn(solver: str) -> Path:
        def run(tol: float) -> Array:
            model = LogisticRegression(
                solver=solver, l1_ratio=1.0, fit_intercept=False, tol=tol, max_iter=MANY,
                warm_start=True, random_state=0,
            )  # fmt: skip
            each = (model.set_params(C=1.0 / (n * s)).fit(X, y).coef_[0].copy() for s in lambdas)
            return np.array(list(each))

        return run

    return {
        "celer": celer,
        "skglm AndersonCD": skglm(AndersonCD),
        "skglm ProxNewton": skglm(ProxNewton),
        "liblinear": sklearn("liblinear"),
        "saga": sklearn("saga"),
    }
