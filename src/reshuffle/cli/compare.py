"""``reshuffle compare``: several methods on a user's data, side by side."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from reshuffle.cli.common import Output, grid
from reshuffle.cli.fitting import Choices, data_of, estimator, task_of
from reshuffle.comparison import compare
from reshuffle.datasets import Reading
from reshuffle.errors import held_warnings
from reshuffle.estimators.penalty_names import penalty_of
from reshuffle.files import check_apart, write_atomically
from reshuffle.orders import ShuffleOnce
from reshuffle.problem import Problem
from reshuffle.report import compare_page
from reshuffle.report.words import data_table
from reshuffle.solvers import FISTA, ExactProxRR, ProxRR, ProxSGD
from reshuffle.solvers.solver import Solver
from reshuffle.steps import InverseTime


def methods(names: tuple[str, ...], epochs: int) -> dict[str, Solver]:
    """The methods that the command names; those of the paper take steps that decrease as 1/t."""
    step = InverseTime()
    every: dict[str, Solver] = {
        "exact": ExactProxRR(tol=1e-12, epochs=epochs, eval_every=1),
        "proxrr": ProxRR(step=step, epochs=epochs),
        "proxso": ProxRR(step=step, order=ShuffleOnce(), epochs=epochs),
        "rr": ProxRR(step=step, prox="step", epochs=epochs),
        "proxsgd": ProxSGD(step=step, epochs=epochs),
        "fista": FISTA(tol=1e-12, epochs=epochs),
    }
    return {name: every[name] for name in dict.fromkeys(names)}


def run(
    *, file: str, reading: Reading, choices: Choices, names: tuple[str, ...], seeds: int, accuracy: float,
    workers: int, out: Path, output: Output,
) -> None:  # fmt: skip
    """Read, run all, print the table, write figure, numbers and page."""
    for name in ("traces.csv", "report.html"):
        check_apart(out / name, file)
    problem, about = _problem(file, reading, choices)
    output.line(f"{file}: {problem}")
    with held_warnings():  # The table shows which runs did not reach the accuracy.
        found = compare(
            problem, methods(names, choices.epochs), seeds=seeds, workers=workers, folder=out / "runs",
            progress=output.live,
        )  # fmt: skip
    table = found.table(accuracy)
    page = compare_page(found, accuracy, about | {"seeds": str(seeds)})
    found.to_csv(out / "traces.csv")
    write_atomically(out / "report.html", page.encode())
    output.table(grid(table.columns, (line.cells() for line in table.lines), table.title))
    output.line(f"report: {out / 'report.html'}   numbers: {out / 'traces.csv'}")
    told = {
        line.method: {k: v for k, v in asdict(line).items() if k != "method"}
        for line in table.lines
    }
    summary = {"minimum": found.minimum, "accuracy": accuracy, "methods": told}
    output.document(summary | {"report": out / "report.html"})


def _problem(file: str, reading: Reading, choices: Choices) -> tuple[Problem, dict[str, object]]:
    data = data_of(file, reading, choices)
    task = task_of(data, choices)
    model = estimator(task, choices)
    ready = model.prepared(task.X, task.y, None)
    penalty = penalty_of(model.penalty, model.l1, model.l2, None, model.positive, ready.shape)
    about: dict[str, object] = {
        "file": file,
        **data_table(data.encoding, data.filled),
        "target": data.encoding.target or "the labels of the file",
        "loss": task.loss,
    }
    return ready.problem(penalty), about | {"penalty": repr(penalty)}
