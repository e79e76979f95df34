"""``reshuffle demo``: the exact method and the paper's single-machine methods side by side, on bundled data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from reshuffle import datasets, plotting
from reshuffle.cli.common import Output, grid
from reshuffle.orders import ShuffleOnce
from reshuffle.penalties import L1, ElasticNet
from reshuffle.problem import Problem
from reshuffle.solvers import ExactProxRR, ProxRR, ProxSGD, Solver
from reshuffle.solvers.fista import FISTA, stationary
from reshuffle.steps import InverseTime
from reshuffle.trace import Result

TOL = 1e-12
"""Relative accuracy of the exact method: far below what the others reach, yet above the rounding error of P(x) - P*."""


def problem() -> Problem:
    """Logistic loss, λ1 = 1% of the value that makes x* = 0, λ2 = L_f/n as in the paper."""
    X, y = datasets.breast_cancer()
    plain = Problem(X, y)
    strongest = Problem(X, y, penalty=L1(1.0)).lambda_max()
    return Problem(X, y, penalty=ElasticNet(l1=0.01 * strongest, l2=plain.smoothness.L_f / plain.n))


def methods(epochs: int, seed: int) -> dict[str, Solver]:
    """The exact method, then those of the paper's Figure 1, and ProxSO.

    The exact method makes shuffled epochs only, without Newton steps, so that all methods count the same units, and
    it makes as many epochs as it needs. The steps of the others are 1/L_max or 1/(2L_max) at first, then O(1/t).
    """
    step = InverseTime()
    return {
        "ExactProxRR": ExactProxRR(tol=TOL, finish=False, seed=seed, eval_every=1),
        "ProxRR": ProxRR(step=step, epochs=epochs, seed=seed),
        "ProxSO": ProxRR(step=step, order=ShuffleOnce(), epochs=epochs, seed=seed),
        "RR, prox each step": ProxRR(step=step, prox="step", epochs=epochs, seed=seed),
        "ProxSGD": ProxSGD(step=step, epochs=epochs, seed=seed),
    }


def run(*, epochs: int, seed: int, out: Path, output: Output) -> None:
    """Run all methods, print the table, write figure and traces."""
    console = output.console
    task = problem()
    console.print(f"breast cancer: {task.n} samples, {task.features} features, logistic loss")
    console.print(f"penalty: {task.penalty}", soft_wrap=True, highlight=False)
    with console.status("finding the minimum with FISTA"):
        reference = FISTA(tol=0.0).solve(task, callbacks=[stationary(task)])
    minimum = reference.trace["objective"][-1]
    results = _run_all(task, methods(epochs, seed), output.live)
    _show(results, minimum, task, output)
    figure = _draw(results, minimum, out)
    for name, result in results.items():
        stem = name.lower().replace(", ", "-").replace(" ", "-")
        result.trace.to_csv(out / f"{stem}.csv")
    output.line(f"figure: {figure}   traces: {out / '*.csv'}")
    rows = {n: r.trace.last() | {"nonzeros": np.count_nonzero(r.x)} for n, r in results.items()}
    output.document({"minimum": minimum, "methods": rows, "figure": figure})


def _run_all(task: Problem, solvers: dict[str, Solver], progress: bool) -> dict[str, Result]:
    columns = (TextColumn("{task.description:18}"), BarColumn(), MofNCompleteColumn())
    results = {}
    with Progress(
        *columns, TextColumn("epochs"), TimeElapsedColumn(), console=Console(stderr=True),
        disable=not progress,
    ) as bar:  # fmt: skip
        for name, solver in solvers.items():
            line = bar.add_task(name, total=solver.epochs)

            def show(result: Result, line: int = line) -> None:
                bar.update(line, completed=result.epoch)  # type: ignore[arg-type]

            results[name] = solver.solve(task, callbacks=[show])
            bar.update(line, total=results[name].epoch)
    return results


def _show(results: dict[str, Result], minimum: float, task: Problem, output: Output) -> None:
    start = next(iter(results.values())).trace["objective"][0] - minimum
    rows = []
    for name, result in results.items():
        row = result.trace.last()
        rows.append(
            [
                name,
                f"{row['objective'] - minimum:.1e}",  # The third digit of 1e-13 is rounding, which differs between machines.
                f"{row['gradients']:,.0f}",
                f"{row['prox_evals']:,.0f}",
                f"{row['seconds']:.4f}",
                f"{np.count_nonzero(result.x)} of {task.features}",
            ]
        )
    titles = ("method", "P(x) - P*", "gradients", "prox evals", "seconds", "nonzeros")
    told = f"P(x) - P* starts at {start:.2g}; P* = {minimum:.10g} by FISTA to 1e-12"
    output.table(grid(titles, rows, told))


def _draw(results: dict[str, Result], minimum: float, out: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    plotting.plot_gap(results, minimum, "passes", ax=left)
    plotting.plot_gap(results, minimum, "prox_evals", ax=right, legend=False)
    right.set_ylabel("")
    left.set_title("work: passes over the data")
    right.set_title("work: evaluations of the prox")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "gap.png"
    figure.savefig(path, dpi=150)
    return path
