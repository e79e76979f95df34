"""Five tasks whose prox is costly: seconds of the processor to a relative gap of 1e-4 and 1e-6.

    python -m benchmarks.costly_penalties

ExactProxRR (as it comes, and with one prox an epoch), FISTA with restart, ProxSGD with the best of three decreasing steps, copt's accelerated proximal
gradient (with our gradients and proxes: it has neither restarts nor most of the penalties), and cvxpy with Clarabel, on one thread. P* is the lowest value
that long runs of the first two find. Which epoch reaches a target is found in a first run; what counts is an equal run
that ends there and evaluates nothing else, in user time of this process, so that it matters little what else the machine does.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks.timing import one_thread
from reshuffle import penalties as P
from reshuffle.solvers import Solver

TARGETS = (1e-4, 1e-6)
PATIENCE = 6.0  # seconds of one run: fifty times what the slowest of the others needs
REPEATS = 5  # equal runs, of which the fastest counts
LARGEST = 10_000  # rows of a problem for cvxpy: beyond, it takes minutes
STRONG = 0.3  # |correlation| of two features that an edge joins


def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def mushrooms() -> tuple[Any, Any]:
    data: tuple[Any, Any] = rs.datasets.load_libsvm("mushrooms")
    return data


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
    X, y = mushrooms()
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
DATA: dict[str, Callable[[], tuple[Any, Any]]] = {
    "TotalVariation2D, digits": digits,
    "NuclearNorm, digits": digits,
    "OverlappingGroupLasso, mushrooms": mushrooms,
    "Polyhedron, breast cancer": rs.datasets.breast_cancer,
}
Found = tuple[list[float], float]
Array = NDArray[np.float64]


def levels(problem: rs.Problem, start: Array, best: float) -> list[float]:
    """What P(x) has to come down to."""
    zero = problem.objective(start)
    return [best + target * (zero - best) for target in TARGETS]


def cpu(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The fewest seconds of the processor."""
    spent = []
    for _ in range(repeats):
        clock = time.process_time()
        work()
        spent.append(time.process_time() - clock)
    return min(spent)


def ours(solver: Solver, problem: rs.Problem, best: float) -> Found:
    """Seconds to each target, and proxes to the last one; infinite where it is not reached."""
    start = problem.prox(np.zeros(problem.shape), 1.0)  # inside a constraint
    aims = levels(problem, start, best)
    trace = solver.solve(
        problem, start, callbacks=[lambda r: r.trace.last()["objective"] <= aims[-1]]
    ).trace
    found = []
    for aim in aims:
        there = np.flatnonzero(trace["objective"] <= aim)
        if there.size:
            epochs = max(int(trace["epoch"][there[0]]), 1)
            again = replace(solver, epochs=epochs, eval_every=None, time_limit=None)
            found.append(cpu(lambda again=again: again.solve(problem, start)))  # type: ignore[misc]
        else:
            found.append(np.inf)
    return found, float(trace["prox_evals"][-1])


def copts(problem: rs.Problem, best: float) -> Found:
    """copt's accelerated proximal gradient with backtracking."""
    minimise = import_module("copt").minimize_proximal_gradient
    start = problem.prox(np.zeros(problem.shape), 1.0)
    aims, iterations, proxes = levels(problem, start, best), [0, 0], 0
    until = time.perf_counter() + PATIENCE

    def fun(v: Array) -> tuple[float, Array]:
        x = np.ascontiguousarray(v).reshape(problem.shape)
        return problem.value(x), problem.gradient(x).ravel()

    def prox(v: Array, step: float) -> Array:
        nonlocal proxes
        proxes += 1
        return problem.prox(np.ascontiguousarray(v).reshape(problem.shape), step).ravel()

    def look(seen: dict[str, Any]) -> bool:
        value = problem.objective(np.ascontiguousarray(seen["x"]).reshape(problem.shape))
        for k, aim in enumerate(aims):
            if not iterations[k] and value <= aim:
                iterations[k] = max(seen["n_iterations"], 1)
        return not iterations[-1] and time.perf_counter() < until

    settings: dict[str, Any] = {"prox": prox, "jac": True, "accelerated": True, "tol": 0.0}
    minimise(fun, start.ravel(), max_iter=10**6, callback=look, **settings)
    taken = float(proxes)
    found = [
        cpu(lambda k=k: minimise(fun, start.ravel(), max_iter=k, **settings), 2) if k else np.inf  # type: ignore[misc]
        for k in iterations
    ]
    return found, taken


def by_cones(name: str, problem: rs.Problem, best: float) -> Found:
    """The whole problem as cvxpy states it, to Clarabel's own accuracy; the time without that of stating it."""
    cp: Any = import_module("cvxpy")
    X, y = DATA[name]()
    psi: Any = problem.penalty
    start = problem.prox(np.zeros(problem.shape), 1.0)
    x = cp.Variable(problem.shape)
    seen = x[: problem.features]
    z = X @ seen + (x[-1] if problem.fit_intercept else 0.0)
    if name.startswith("NuclearNorm"):
        chosen = cp.sum(cp.multiply(np.eye(10)[y], z))
        loss = (cp.sum(cp.log_sum_exp(z, axis=1)) - chosen) / problem.n
        psi_x = psi.strength * cp.normNuc(seen)
    else:
        loss = cp.sum(cp.logistic(cp.multiply(-problem.targets, z))) / problem.n
        psi_x = 0.0
    constraints = []
    if name.startswith("TotalVariation2D"):
        image = cp.reshape(seen, psi.image, order="C")
        jumps = cp.norm1(image[1:] - image[:-1]) + cp.norm1(image[:, 1:] - image[:, :-1])
        psi_x = psi.strength * jumps + psi.l1 * cp.norm1(seen)
    elif name.startswith("Overlapping"):
        psi_x = psi.strength * sum(np.sqrt(len(g)) * cp.norm(seen[g]) for g in psi.groups)
    elif name.startswith("Polyhedron"):
        constraints = [psi.A @ x <= psi.b, psi.C @ x == psi.d]
    ridge = 0.5 * problem.ridge * cp.sum_squares(seen)
    model = cp.Problem(cp.Minimize(loss + psi_x + ridge), constraints)
    model.solve(solver="CLARABEL")
    seconds = float(model.solver_stats.solve_time)
    value = problem.objective(problem.prox(np.ascontiguousarray(x.value), 1e-12))
    return [seconds if value <= aim else np.inf for aim in levels(problem, start, best)], 0.0


def methods(problem: rs.Problem) -> dict[str, list[Solver]]:
    limits: dict[str, Any] = {"tol": 0.0, "time_limit": PATIENCE, "eval_every": 1}
    first = 0.5 / problem.smoothness.L_max
    falling = [rs.steps.InverseTime(first / part, 0.1) for part in (1.0, 10.0, 100.0)]
    return {
        "ExactProxRR": [rs.ExactProxRR(epochs=100_000, **limits)],
        "ExactProxRR, one prox an epoch": [
            rs.ExactProxRR(epochs=100_000, steps_per_prox=problem.n, **limits)
        ],
        "FISTA": [rs.FISTA(**limits)],
        "ProxSGD": [rs.ProxSGD(epochs=1000, step=step, **limits) for step in falling],
    }


def lowest(problem: rs.Problem) -> float:
    """P*, by long runs of two methods."""
    solvers = (
        rs.ExactProxRR(tol=1e-13, epochs=20_000, eval_every=100, time_limit=3 * PATIENCE),
        rs.FISTA(tol=1e-12, time_limit=3 * PATIENCE),
    )
    return min(problem.objective(solver.solve(problem).x) for solver in solvers)


def contest(name: str) -> dict[str, Found]:
    problem = TASKS[name]()
    best, results = lowest(problem), {}
    for method, solvers in methods(problem).items():
        runs = [ours(solver, problem, best) for solver in solvers]
        results[method] = min(runs, key=lambda r: (r[0][-1], r[0][0]))
    if find_spec("copt"):
        results["copt, accelerated"] = copts(problem, best)
    if find_spec("cvxpy") and problem.n <= LARGEST:
        results["cvxpy with Clarabel"] = by_cones(name, problem, best)
    return results


def main() -> None:
    names = [f"s to {t:.0e}" for t in TARGETS]
    table = Table("task", "method", *names, "proxes", *(f"times, {t:.0e}" for t in TARGETS))
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in TASKS:
            results = contest(name)
            first = results["ExactProxRR"][0]
            for method, (found, proxes) in results.items():
                ratios = (f"{s / f:.2f}" for s, f in zip(found, first, strict=True))
                count = f"{proxes:,.0f}" if proxes else ""
                table.add_row(name, method, *(f"{s:.3g}" for s in found), count, *ratios)
            table.add_section()
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
