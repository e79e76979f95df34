"""``reshuffle federate``: a data file, split among clients and trained on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from reshuffle import datasets
from reshuffle.callbacks import Checkpoint
from reshuffle.cli.common import Output
from reshuffle.cli.tables import show
from reshuffle.errors import InputError
from reshuffle.federated import ExactFedRR, Federation, FedRR, LocalSGD, split
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.penalties import ElasticNet
from reshuffle.problem import Problem
from reshuffle.steps import InverseTime
from reshuffle.trace import Result

METHODS: dict[str, type[FederatedSolver]] = {
    "exact": ExactFedRR,
    "fedrr": FedRR,
    "local-sgd": LocalSGD,
}


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    data: str
    clients: int
    split: str
    alpha: float
    method: str
    engine: str
    rounds: int
    l1: float
    l2: float | None
    seed: int
    out: Path
    resume: bool
    progress: bool


def run(options: Options, output: Output) -> None:
    """Split, train, print the table, write model, trace and pictures."""
    federation = _federation(options)
    output.line(str(federation))
    step = None if options.method == "exact" else InverseTime()
    solver = METHODS[options.method](
        rounds=options.rounds, step=step, engine=options.engine, seed=options.seed
    )
    checkpoint = options.out / "checkpoint.npz"
    if options.resume and not checkpoint.is_file():
        raise InputError(f"--resume: there is no checkpoint {checkpoint}")
    if not options.resume and _unfinished(options.out):
        raise InputError(
            f"{checkpoint} is of a run that did not end: go on with --resume, give another --out, "
            "or delete it"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    result = solver.solve(
        federation,
        callbacks=[Checkpoint(checkpoint)],
        progress=options.progress,
        resume=checkpoint if options.resume else None,
    )
    result.save(options.out / "result.npz")
    result.trace.to_csv(options.out / "trace.csv")
    _draw(federation, result, options.out)
    show(output.console, _table(result))
    output.line(f"model, trace and pictures: {options.out}")
    ended = {"message": result.message, "digest": result.digest, "out": options.out}
    output.document(result.trace.last() | ended | {"nonzeros": np.count_nonzero(result.x)})


def _unfinished(out: Path) -> bool:
    """Whether a run left a checkpoint here, and no result after it."""
    checkpoint, result = out / "checkpoint.npz", out / "result.npz"
    if not checkpoint.is_file():
        return False
    return not result.is_file() or result.stat().st_mtime_ns < checkpoint.stat().st_mtime_ns


def _federation(options: Options) -> Federation:
    X, y = datasets.load_libsvm(options.data)
    l2 = options.l2
    if l2 is None:
        plain = Problem(X, y)
        l2 = plain.smoothness.L_f / plain.n
    problem = Problem(X, y, penalty=ElasticNet(options.l1, l2))
    by: Any = options.split.removeprefix("by-")
    if by.startswith("column:"):
        column = by.removeprefix("column:")
        if not column.isdecimal() or int(column) >= X.shape[1]:
            raise InputError(
                f"--split column:J wants a feature 0 … {X.shape[1] - 1}, got {options.split!r}"
            )
        by = np.asarray(X[:, [int(column)]].todense()).ravel()
    return split(problem, options.clients, by, seed=options.seed, alpha=options.alpha)


def _table(result: Result) -> Table:
    row = result.trace.last()
    table = Table(title=result.message, show_header=False)
    for name, value in (
        ("objective", f"{row['objective']:.12g}"),
        ("rounds", f"{result.epoch}"),
        ("gradients", f"{row['gradients']:,.0f}"),
        ("prox evaluations", f"{row['prox_evals']:,.0f}"),
        ("sent to clients", f"{row['bytes_down']:,.0f} bytes"),
        ("sent by clients", f"{row['bytes_up']:,.0f} bytes"),
        ("asked again, refused", f"{row['retries']:.0f}, {row['refused']:.0f}"),
        ("nonzeros", f"{np.count_nonzero(result.x)} of {result.x.size}"),
        ("digest of the model", result.digest[:16]),
    ):
        table.add_row(name, value)
    return table


def _draw(federation: Federation, result: Result, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from reshuffle.plotting import plot_split

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    plot_split(federation, ax=left)
    right.plot(result.trace["epoch"], result.trace["objective"], color="#0072B2", lw=1.8)
    right.set_xlabel("rounds")
    right.set_ylabel("P(x)")
    right.grid(alpha=0.3)
    figure.savefig(out / "federation.png", dpi=150)
    plt.close(figure)
