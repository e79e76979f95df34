"""The sweep against scikit-learn's SGD, against BLAS, and against itself in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

import reshuffle as rs
from benchmarks.blas import blas_epoch
from benchmarks.report import Finding
from benchmarks.timing import Contestant, interleaved, spent
from reshuffle.orders import shuffled

# --- a9a: a step against scikit-learn's --------------------------------------------------------


def a9a(quick: bool) -> list[Finding]:
    """One epoch of ProxRR with its permutation and prox, per step, batch 1."""
    X, y = rs.datasets.load_libsvm("a9a")
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=1e-4, l2=1e-4))
    epochs = 4  # short turns: more of them run undisturbed
    solver = rs.ProxRR(step=0.01, epochs=epochs, eval_every=epochs)
    contestants = {"ProxRR": _solve(solver, problem)} | _sgd(X, y, "elasticnet") | _sgd(X, y, "l2")
    best = interleaved(contestants, rounds=5 if quick else 40)
    step = best["ProxRR"] / (epochs * problem.n)
    findings = []
    for penalty, bar in (("elasticnet", 3.0), ("l2", 2.0)):
        peer = (best[f"{penalty}, long"] - best[f"{penalty}, short"]) / (10 * problem.n)
        detail = f"{step * 1e9:.0f} ns per step, SGDClassifier {peer * 1e9:.0f}"
        what = f"faster than SGDClassifier, {penalty}"
        findings.append(Finding(what, peer / step, "x", "at least", bar, detail))
    return findings


def _sgd(X: Any, y: Any, penalty: str) -> dict[str, Contestant]:
    """scikit-learn for 1 and for 11 epochs: the difference is 10 epochs without the set-up."""

    def fit(count: int) -> Contestant:
        model = SGDClassifier(
            loss="log_loss", penalty=penalty, alpha=1e-4, learning_rate="constant", eta0=0.01,
            fit_intercept=False, max_iter=count, tol=None, random_state=0,
        )  # fmt: skip
        return spent(lambda: model.fit(X, y))

    return {f"{penalty}, short": fit(1), f"{penalty}, long": fit(11)}


# --- data larger than the cache: random order against sequential order ---------------------------


def large(quick: bool) -> list[Finding]:
    """The same kernel over 2,000,000 CSR rows of 20 values in three orders."""
    n = 200_000 if quick else 2_000_000
    X, y = rs.datasets.synthetic(n, 10_000, stored=20)
    problem = rs.Problem(X, y)
    pool = np.arange(n, dtype=np.uint32)
    rng = np.random.default_rng(0)
    drawn = shuffled(pool.copy(), rng)
    stored = problem.take(drawn)
    x = np.zeros(problem.shape)
    contestants = {
        "sequential": spent(lambda: problem.sweep(x, pool, 1e-3)),
        "random": spent(lambda: problem.sweep(x, drawn, 1e-3)),
        "stored": spent(lambda: stored.sweep(x, pool, 1e-3)),
        "draw": spent(lambda: shuffled(pool.copy(), rng)),
    }
    best = interleaved(contestants, rounds=3 if quick else 25)
    base, size = best["sequential"], X.data.nbytes + X.indices.nbytes + X.indptr.nbytes

    def ratio(what: str, seconds: float, bar: float | None) -> Finding:
        detail = f"{seconds / n * 1e9:.0f} ns per step, sequential {base / n * 1e9:.0f}"
        return Finding(what, seconds / base, "x", "at most", bar, detail)

    return [
        ratio("Reshuffle over sequential order", best["random"], 2.2),
        ratio("ShuffleOnce over sequential order", best["stored"], 1.15),
        ratio("the permutation alone", best["draw"], None),
        ratio("Reshuffle with its permutation", best["random"] + best["draw"], None),
        Finding("data", size / 1e6, "MB"),
    ]


# --- dense rows: a step against BLAS -------------------------------------------------------------


def dense(quick: bool) -> list[Finding]:
    """Rows of 1,000 values, more than the cache holds, in sequential order."""
    n = 10_000 if quick else 40_000
    X, y = rs.datasets.synthetic(n, 1000)
    double = rs.Problem(X, y, loss=rs.losses.Squared())
    single = rs.Problem(X.astype(np.float32), y, loss=rs.losses.Squared())
    pool, x, step = np.arange(n, dtype=np.uint32), np.zeros(1000), 1e-3
    contestants = {
        "float64": spent(lambda: double.sweep(x, pool, step)),
        "float32": spent(lambda: single.sweep(x, pool, step)),
        "BLAS": spent(lambda: blas_epoch(X, y, x, step)),
    }
    best = interleaved(contestants, rounds=5 if quick else 15)
    nanoseconds = {name: f"{seconds / n * 1e9:.0f} ns" for name, seconds in best.items()}
    against = f"{nanoseconds['float64']} per step, BLAS {nanoseconds['BLAS']}"
    halves = f"{nanoseconds['float32']} per step, float64 {nanoseconds['float64']}"
    return [
        Finding("over ddot + daxpy", best["float64"] / best["BLAS"], "x", "at most", 1.3, against),
        Finding(
            "float32 faster than float64",
            best["float64"] / best["float32"],
            "x",
            "at least",
            1.5,
            halves,
        ),
    ]


# --- softmax: an epoch against one-vs-rest -------------------------------------------------------


def multinomial(quick: bool) -> list[Finding]:
    """10 classes and 784 dense features: one matrix unknown against ten vectors."""
    n, classes, epochs = 2_000 if quick else 10_000, 10, 1
    X, _ = rs.datasets.synthetic(n, 784)
    y = np.argmax(X[:, :classes], axis=1)
    problem = rs.Problem(X, y, loss=rs.losses.Multinomial())
    solver = rs.ProxRR(step=0.01, epochs=epochs, eval_every=epochs)
    contestants = {"ProxRR": _solve(solver, problem)} | _sgd(X, y, "l2")
    best = interleaved(contestants, rounds=5 if quick else 12)
    ours, peer = best["ProxRR"] / epochs, (best["l2, long"] - best["l2, short"]) / 10
    detail = f"{ours / n * 1e6:.2f} µs per sample, SGDClassifier {peer / n * 1e6:.2f}"
    return [Finding("faster than one-vs-rest", peer / ours, "x", "at least", 2.0, detail)]


def _solve(solver: rs.ProxRR, problem: rs.Problem) -> Contestant:
    """All epochs of a run: draws, sweeps and proxes, without compilation and evaluation."""

    def contestant() -> float:
        seconds = solver.solve(problem).trace["seconds"]
        return float(seconds[-1] - seconds[0])

    return contestant
