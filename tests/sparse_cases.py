"""Problems that few features solve, large enough for working sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs

Array = NDArray[np.float64]
LOSSES: dict[str, rs.losses.Loss] = {
    "signs": rs.losses.Logistic(),
    "real": rs.losses.Squared(),
    "classes": rs.losses.Multinomial(),
}


def rows(n: int = 1500, d: int = 2000, each: int = 30, seed: int = 0) -> sp.csr_matrix:
    """CSR rows with ``each`` values; the last tenth of the columns has none at all."""
    rng = np.random.default_rng(seed)
    used = d - d // 10
    indices = np.concatenate([np.sort(rng.choice(used, each, replace=False)) for _ in range(n)])
    values = rng.standard_normal(n * each)
    return sp.csr_matrix((values, indices, np.arange(0, n * each + 1, each)), shape=(n, d))


def answers(X: Any, kind: str, relevant: int = 10, seed: int = 1) -> NDArray[Any]:
    """Targets that a few features explain, but for some noise."""
    rng = np.random.default_rng(seed)
    outputs = 3 if kind == "classes" else 1
    truth = np.zeros((X.shape[1], outputs))
    truth[rng.choice(X.shape[1] * 9 // 10, relevant, replace=False)] = 3.0
    truth *= rng.standard_normal(truth.shape)
    z: Array = X @ truth + 0.5 * rng.standard_normal((X.shape[0], outputs))
    if kind == "classes":
        classes: NDArray[Any] = np.argmax(z, axis=1)
        return classes
    return np.where(z[:, 0] > 0, 1.0, -1.0) if kind == "signs" else z[:, 0]


def strength(X: Any, y: Any, kind: str, **how: Any) -> float:
    """The l1 from which on x* = 0 (an intercept left out)."""
    plain = rs.Problem(X, y, LOSSES[kind], **how)
    return float(np.abs(plain.gradient(np.zeros(plain.shape))[: plain.features]).max())


def case(name: str) -> tuple[rs.Problem, dict[str, Any]]:
    """A problem that few features solve, and settings of the solver."""
    kind = {"multinomial": "classes", "squared": "real"}.get(name, "signs")
    wide = name.startswith("wide")
    X: Any = rows(1200, 6000) if wide else rows()
    how: dict[str, Any] = {"fit_intercept": name.endswith("intercept")}
    settings: dict[str, Any] = {}
    if name == "unit":
        X.data[:] = 1.0
    elif name == "float32":
        X = X.astype(np.float32)
    elif name == "dense":
        X = np.random.default_rng(0).standard_normal((60, 800))
    elif name == "importance":
        X = sp.csr_matrix(X.multiply(np.geomspace(0.3, 4.0, X.shape[0])[:, None]))
        settings["importance"] = True
    y = answers(X, kind)
    if name == "weights":
        how["sample_weight"] = np.arange(X.shape[0]) % 4.0
    l1: Any = 0.3 * strength(X, y, kind, **how)
    if name in ("unit", "dense", "multinomial"):
        l1 *= 1.5
    penalty: Any = rs.penalties.L1(l1)
    if name == "l1 of each":
        each = np.linspace(l1, 2 * l1, X.shape[1])
        each[::50] = 0.0
        penalty = rs.penalties.L1(each)
    elif name == "non-negative":
        penalty = rs.penalties.NonNegative(l1)
    elif name == "box":
        penalty = rs.penalties.Box(0.0, 0.05)
    elif name == "ridge":
        how["ridge"] = 0.01
    elif name == "once":
        settings["order"] = rs.orders.ShuffleOnce()
    problem = rs.Problem(X, y, LOSSES[kind], penalty, **how)
    if name == "own step":
        settings |= {"step": 0.3 / problem.smoothness.L_max, "steps_per_prox": 7}
    return problem, settings


CASES = [
    "csr", "wide", "intercept", "wide intercept", "multinomial", "squared", "l1 of each",
    "non-negative", "box", "weights", "importance", "float32", "dense", "unit", "ridge", "once",
    "own step",
]  # fmt: skip


def csr(problem: rs.Problem) -> sp.csr_matrix:
    values, indices, indptr = (np.array(a) for a in problem.rows)
    shape = problem.n, problem.features
    return sp.csr_matrix((values, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


def minimum(problem: rs.Problem) -> float:
    return problem.objective(rs.theory.solve(problem))


def shuffled(**settings: Any) -> rs.ExactProxRR:
    """The shuffled method alone; its Newton steps are tested in test_newton and test_any_data."""
    return rs.ExactProxRR(**{"finish": False} | settings)


def watched(
    problem: rs.Problem, x0: Any = None, **settings: Any
) -> tuple[rs.Result, list[rs.Result]]:
    """The result, and what it was after every epoch."""
    past: list[rs.Result] = []
    solver = shuffled(**settings)
    return solver.solve(problem, x0, callbacks=[lambda r: past.append(r.snapshot())]), past


def sizes(past: list[rs.Result]) -> list[int]:
    return [r.state["active"].size for r in past]
