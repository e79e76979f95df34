"""The methods of ``examples/methods`` beside those of the package, in one figure.

    python -m examples.compare_methods [--out docs/images/methods.png] [--seeds 3] [--workers 1]

(a) a1a, elastic net with λ1 = 0.02 λ_max and λ2 = L_f/n, against passes over the data. (b) mushrooms by label among
10 clients, λ2 = L_f/N inside f, no R, against rounds. Of each method the step is the best of a grid, chosen by
the lowest value that it reaches with seed 0; the others are drawn with these steps and seeds 1, 2, …
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import reshuffle as rs
from examples.methods import (
    FedDR,
    MomentumRR,
    Nastya,
    ProxSkip,
    SarahRR,
    Scaffnew,
    Scaffold,
    SvrgRR,
)

PASSES, ROUNDS = 60, 100
Grids = dict[str, list[Any]]


def single() -> tuple[rs.Problem, Grids]:
    """The problem of (a), and each method with the steps to choose from."""
    X, y = rs.datasets.load_libsvm("a1a")
    plain = rs.Problem(X, y)
    l1, l2 = (
        0.02 * rs.Problem(X, y, penalty=rs.penalties.L1(1.0)).lambda_max(),
        plain.smoothness.L_f / plain.n,
    )
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1, l2))
    L, falling = plain.smoothness.L_max, rs.steps.InverseTime
    rough = [falling(initial=c / L, rate=1.0) for c in (1.0, 0.3, 0.1, 0.03)]
    return problem, {
        "ProxRR": [rs.ProxRR(step=step, epochs=PASSES) for step in rough],
        "with momentum": [MomentumRR(step=step, epochs=PASSES) for step in rough],
        "ProxSkip": [
            ProxSkip(probability=p, epochs=round(PASSES * p) + 1)
            for p in (1.0, 0.5, 0.2, problem.n**-0.5)
        ],
        "SVRG, reshuffled": [SvrgRR(step=c / L, epochs=PASSES // 2) for c in (1.0, 0.5, 0.2)],
        "SARAH, reshuffled": [SarahRR(step=c / L, epochs=PASSES // 3) for c in (0.5, 0.2, 0.1)],
        "ExactProxRR": [rs.ExactProxRR(tol=1e-12, finish=False, eval_every=1, epochs=PASSES)],
    }  # fmt: skip


def federated() -> tuple[rs.federated.Federation, Grids]:
    """The federation of (b), and each method with the steps to choose from."""
    X, y = rs.datasets.load_libsvm("mushrooms")
    plain = rs.Problem(X, y)
    clients = rs.federated.split(
        rs.Problem(X, y, ridge=plain.smoothness.L_f / plain.n), clients=10, by="label", seed=0
    )
    L, L_f = clients.smoothness.L_max, clients.smoothness.L_f
    tau = (L_f * clients.strong_convexity) ** -0.5 * 10 / clients.n  # γ with γN/M = 1/√(L_f·μ)
    common: Any = {"rounds": ROUNDS}
    return clients, {
        "FedRR": [rs.FedRR(step=c / L, **common) for c in (0.1, 0.03, 0.01, 0.003)],
        "Nastya": [Nastya(step=c / (L * 812), server_step=s / L_f, **common) for c in (1.0, 0.1) for s in (1.0, 1.9)],
        "SCAFFOLD": [Scaffold(step=c / L, **common) for c in (0.1, 0.03, 0.01)],
        "FedDR": [FedDR(step=c * tau, local_steps=50, **common) for c in (1.0, 0.3, 0.1)],
        "Scaffnew": [Scaffnew(communication=p, **common) for p in (0.05, 0.02, 0.01)],
        "ExactFedRR": [rs.ExactFedRR(**common)],
    }  # fmt: skip


def best(problem: Any, grids: Grids) -> dict[str, Any]:
    """Of each method the solver that comes lowest with seed 0; one that diverges is left out."""
    chosen = {}
    for name, grid in grids.items():
        found = rs.compare(problem, {str(k): s for k, s in enumerate(grid)}, seeds=[0], minimum=0.0)
        lowest = {
            k: by[0].trace["objective"][-1]
            for k, by in found.runs.items()
            if by[0].message != "diverged"
        }
        chosen[name] = grid[int(min(lowest, key=lambda k: lowest[k]))]
    return chosen  # fmt: skip


def main() -> None:
    """Choose, run, draw."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("docs/images/methods.png"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for ax, (problem, grids), against, letter in zip(
        panels, (single(), federated()), ("passes", "rounds"), "ab", strict=True
    ):
        solvers = {name: replace(solver) for name, solver in best(problem, grids).items()}
        found = rs.compare(problem, solvers, seeds=range(1, asked.seeds + 1), workers=asked.workers)
        print(found.table(accuracy=1e-4), end="\n\n")
        found.plot(against, ax=ax)
        ax.set_title(f"({letter})", loc="left")
        ax.set_ylim(bottom=1e-13)
        ax.set_xlim(0, PASSES if letter == "a" else ROUNDS)
    figure.savefig(asked.out, dpi=150)


if __name__ == "__main__":
    main()
