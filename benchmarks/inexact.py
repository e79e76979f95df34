"""How exact a prox by iterations has to be: what runs take in epochs and in inner iterations.

    python -m benchmarks.inexact

The error that is allowed is a share of the way from x to its prox (``SHARE`` in solvers/prox_call.py); 0 is as exact as
it can be had.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks.costly_penalties import polyhedron, windows
from reshuffle.solvers import Solver, prox_call

SHARES = (0.0, 0.01, 0.1, 0.3, 1.0)


def edge() -> rs.Problem:
    """Windows of ten that overlap by nine, with a strength at the edge between all groups and none."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((400, 309)), np.zeros(309)
    w[100:130] = 1.0
    y = np.sign(X @ w + rng.standard_normal(400))
    groups = [list(range(k, k + 10)) for k in range(300)]
    return rs.Problem(X, y, penalty=rs.penalties.OverlappingGroupLasso(0.008, groups))


def main() -> None:
    table = Table("task", "method", "share", "epochs", "proxes", "inner", "CPU s", "objective")
    tasks = {"mushrooms, windows": windows(), "edge": edge(), "polyhedron": polyhedron()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, problem in tasks.items():
            solvers: tuple[Solver, ...] = rs.ExactProxRR(tol=1e-8), rs.FISTA(tol=1e-8)
            for solver in solvers:
                for share in SHARES:
                    prox_call.SHARE = share
                    solver.solve(problem)
                    clock = time.process_time()
                    trace = solver.solve(problem).trace
                    spent, last = time.process_time() - clock, trace.last()
                    counts = (last[n] for n in ("epoch", "prox_evals", "inner_iterations"))
                    table.add_row(
                        name, type(solver).__name__, f"{share:g}", *(f"{c:,.0f}" for c in counts),
                        f"{spent:.3f}", f"{last['objective']:.12g}",
                    )  # fmt: skip
            table.add_section()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
