"""``reshuffle federate``: a data file, split among clients and trained on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from reshuffle import datasets
from reshuffle.callbacks import Checkpoint
from reshuffle.cli.board import Board
from reshuffle.cli.common import Output
from reshuffle.cli.federate_picture import draw
from reshuffle.cli.sites_file import is_sites, sites_of
from reshuffle.cli.tables import show
from reshuffle.errors import InputError
from reshuffle.federated import ExactFedRR, Federation, FedNewton, FedRR, LocalSGD, Sites, split
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.penalties import ElasticNet
from reshuffle.problem import Problem
from reshuffle.steps import InverseTime
from reshuffle.trace import Result

METHODS: dict[str, type[FederatedSolver]] = {
    "exact": ExactFedRR,
    "fedrr": FedRR,
    "local-sgd": LocalSGD,
    "newton": FedNewton,
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
    tol: float
    seed: int
    out: Path
    resume: bool
    force: bool
    progress: bool


def run(options: Options, output: Output) -> None:
    """Split or gather, train, print the table, write model, trace and pictures."""
    checkpoint = options.out / "checkpoint.npz"
    if options.resume and not checkpoint.is_file():
        raise InputError(f"--resume: there is no checkpoint {checkpoint}")
    if not (options.resume or options.force):
        _check_free(options.out)
    problem, names = _problem(options)
    if options.split.startswith("column:") and options.clients != len(names):
        output.note(f"--clients is not used with --split {options.split}: it makes {len(names)}")
    output.line(str(problem))
    step = InverseTime() if options.method in ("fedrr", "local-sgd") else None
    solver = METHODS[options.method](
        rounds=options.rounds, step=step, engine=options.engine, seed=options.seed, tol=options.tol
    )
    options.out.mkdir(parents=True, exist_ok=True)
    with Board(names, options.progress) as board:
        problem.watch = board
        result = solver.solve(
            problem,
            callbacks=[Checkpoint(checkpoint)],
            resume=checkpoint if options.resume else None,
        )
    result.save(options.out / "result.npz")
    result.trace.to_csv(options.out / "trace.csv")
    sizes, losses = _clients(problem, board, result)
    draw(result.trace, sizes, losses, options.out / "federation.png", names)
    show(output.console, _table(result))
    output.line(f"model, trace and pictures: {options.out}")
    ended = {"message": result.message, "digest": result.digest, "out": options.out}
    clients = [vars(line) for line in board.lines]
    output.document(
        result.trace.last() | ended | {"nonzeros": np.count_nonzero(result.x), "clients": clients}
    )


def _problem(options: Options) -> tuple[Federation | Sites, list[str]]:
    """The clients, and what they are called."""
    if is_sites(options.data):
        return sites_of(options.data, options.l1, options.l2, options.engine)
    federation = _federation(options)
    return federation, [str(c) for c in range(federation.count)]


def _clients(
    problem: Federation | Sites, board: Board, result: Result
) -> tuple[list[int], list[float]]:
    """Samples and losses of each client; sites have said them, or have not."""
    if isinstance(problem, Sites):
        told = [np.nan if line.loss is None else line.loss for line in board.lines]
        return [line.samples or 0 for line in board.lines], told
    return problem.sizes.tolist(), [float(c.value(result.x)) for c in problem.clients]


def _check_free(out: Path) -> None:
    """Refuse a folder that holds a run: nobody loses one by a name that was used before."""
    there = [name for name in ("checkpoint.npz", "result.npz") if (out / name).exists()]
    if there:
        raise InputError(
            f"{out / there[0]} is of an earlier run: go on with --resume, give another --out, or "
            "overwrite it with --force"
        )


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
