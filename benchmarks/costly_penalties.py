"""Five tasks whose prox is costly: seconds to a relative gap of 1e-4 and 1e-6.

    python -m benchmarks.costly_penalties

ExactProxRR (as it comes, and with one prox an epoch), FISTA with restart, and ProxSGD with the best of three decreasing steps, on one thread. P* is the
lowest value that long runs of the first two find.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks.timing import one_thread
from reshuffle import penalties as P
from reshuffle.solvers import Solver

TARGETS = (1e-4, 1e-6)
PATIENCE = 6.0  # seconds of one run: fifty times what the slowest of the others needs
REPEATS = 5  # equal runs, of which the fastest counts
STRONG = 0.3  # |correlation| of two features that an edge joins


def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def image() -> rs.Problem:
    """Even and odd digits by a map of coefficients with few pieces."""
    X, y = digits()
    penalty = P.TotalVariation2D(1e-3, image=(8, 8), l1=1e-4)
    return rs.Problem(X, y % 2, penalty=penalty, fit_intercept=True)


def low_rank() -> rs.Problem:
    X, y = digits()
    return rs.Problem(X, y, rs.losses.Multinomial(), P.NuclearNorm(5e-3))


def windows() -> rs.Problem:
    """Mushrooms, with windows of eight neighbouring columns that overlap by half."""
    X, y = rs.datasets.load_libsvm("mushrooms")
    groups = [list(range(k, min(k + 8, X.shape[1]))) for k in range(0, X.shape[1] - 4, 4)]
    return rs.Problem(X, y, penalty=P.OverlappingGroupLasso(1e-3, groups))


def graph() -> rs.Problem:
    """a9a, with an edge between features that go together."""
    X, y = rs.datasets.load_libsvm("a9a")
    dense = X.toarray()
    kept = dense.std(axis=0) > 0
    related = np.zeros((X.shape[1],) * 2)
    related[np.ix_(kept, kept)] = np.corrcoef(dense[:, kept].T)
    edges = np.argwhere(np.triu(np.abs(related), 1) > STRONG)
    return rs.Problem(X, y, penalty=P.GraphFusedLasso(1e-3, edges, l1=5e-4))


def polyhedron() -> rs.Problem:
    """Breast cancer: no coefficient of a worst value is smaller than that of its mean, and all add up to 1."""
    X, y = rs.datasets.breast_cancer()
    A = np.hstack([np.eye(10), np.zeros((10, 10)), -np.eye(10)])
    return rs.Problem(
        X, y, penalty=P.Polyhedron(A, np.zeros(10), np.ones((1, 30)), [1.0]), ridge=0.01
    )


TASKS: dict[str, Callable[[], rs.Problem]] = {
    "TotalVariation2D, digits": image,
    "NuclearNorm, digits": low_rank,
    "OverlappingGroupLasso, mushrooms": windows,
    "GraphFusedLasso, a9a": graph,
    "Polyhedron, breast cancer": polyhedron,
}


def times(solver: Solver, problem: rs.Problem, best: float) -> tuple[list[float], float]:
    """Seconds to each target, and proxes to the last one; infinite where it is not reached."""
    start = problem.prox(np.zeros(problem.shape), 1.0)  # inside a constraint
    zero = problem.objective(start)
    levels = [best + target * (zero - best) for target in TARGETS]
    trace = solver.solve(
        problem, start, callbacks=[lambda r: r.trace.last()["objective"] <= levels[-1]]
    ).trace
    found = []
    for level in levels:
        there = np.flatnonzero(trace["objective"] <= level)
        found.append(float(trace["seconds"][there[0]]) if there.size else np.inf)
    return found, float(trace["prox_evals"][-1])


def methods(problem: rs.Problem) -> dict[str, list[Solver]]:
    limits: dict[str, Any] = {"tol": 0.0, "time_limit": PATIENCE}
    first = 0.5 / problem.smoothness.L_max
    falling = [rs.steps.InverseTime(first / part, 0.1) for part in (1.0, 10.0, 100.0)]
    return {
        "ExactProxRR": [rs.ExactProxRR(epochs=100_000, **limits)] * REPEATS,
        "ExactProxRR, one prox an epoch": [
            rs.ExactProxRR(epochs=100_000, steps_per_prox=problem.n, **limits)
        ]
        * REPEATS,
        "FISTA": [rs.FISTA(eval_every=1, **limits)] * REPEATS,
        "ProxSGD": [rs.ProxSGD(epochs=1000, step=step, **limits) for step in falling],
    }


def lowest(problem: rs.Problem) -> float:
    """P*, by long runs of two methods."""
    solvers = (
        rs.ExactProxRR(tol=1e-13, epochs=20_000, eval_every=100, time_limit=3 * PATIENCE),
        rs.FISTA(tol=1e-12, time_limit=3 * PATIENCE),
    )
    return min(problem.objective(solver.solve(problem).x) for solver in solvers)


def main() -> None:
    table = Table("task", "method", *(f"s to {t:.0e}" for t in TARGETS), "proxes", "times ours")
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in TASKS.items():
            problem = make()
            best = lowest(problem)
            x, clock = np.ones(problem.shape), time.perf_counter()
            problem.prox(x, 1.0)
            cost = time.perf_counter() - clock
            ours = np.inf
            for method, solvers in methods(problem).items():
                runs = [times(solver, problem, best) for solver in solvers]
                found, proxes = min(runs, key=lambda r: (r[0][-1], r[0][0]))
                ours = found[-1] if method == "ExactProxRR" else ours
                ratio = found[-1] / ours
                table.add_row(
                    f"{name} ({1e3 * cost:.2g} ms)", method, *(f"{s:.3g}" for s in found),
                    f"{proxes:,.0f}", f"{ratio:.2f}",
                )  # fmt: skip
            table.add_section()
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
