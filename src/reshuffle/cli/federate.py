"""``reshuffle federate``: trains on sites, or on one data file that is split among clients."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from reshuffle import datasets
from reshuffle.callbacks import Checkpoint
from reshuffle.cli.board import Board
from reshuffle.cli.common import INTERRUPTED, NOT_CONVERGED, Output, grid
from reshuffle.cli.federate_model import file_of_a_run, write_outcome
from reshuffle.cli.private import Private
from reshuffle.cli.sites_file import is_sites, privacy_table, sites_of
from reshuffle.errors import InputError
from reshuffle.estimators.linear import Linear
from reshuffle.federated import (
    ExactFedRR,
    FederatedResult,
    Federation,
    FedNewton,
    FedRR,
    Learned,
    LocalSGD,
    Sites,
    split,
)
from reshuffle.federated.downlink import Downlink
from reshuffle.federated.replies import Tally
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.losses import Logistic
from reshuffle.penalties import ElasticNet
from reshuffle.privacy import Level
from reshuffle.problem import Problem
from reshuffle.steps import InverseTime
from reshuffle.trace import Result

METHODS: dict[str, type[FederatedSolver]] = {
    "exact": ExactFedRR,
    "fedrr": FedRR,
    "local-sgd": LocalSGD,
    "newton": FedNewton,
}
SAMPLED = ("fedrr", "local-sgd")
"""Methods with steps on samples, which have a batch size, a decreasing step, and privacy."""


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
    evaluate: int | None
    transport: str
    downlink: Downlink
    seed: int
    out: Path
    resume: bool
    force: bool
    private: Private


def run(options: Options, output: Output) -> int:
    """Make the clients, train, print the table, write model, report, trace and picture; returns the exit code."""
    checkpoint = options.out / "checkpoint.npz"
    if options.resume and not checkpoint.is_file():
        raise InputError(f"--resume: there is no checkpoint {checkpoint}")
    earlier = file_of_a_run(options.out)
    if earlier is not None and not (options.resume or options.force):
        raise InputError(
            f"{earlier} is of an earlier run: go on with --resume, give another --out, or overwrite it with --force"
        )
    level = _level(options)  # before any data is touched
    problem, learned = _problem(options)
    names = problem.names if isinstance(problem, Sites) else [*map(str, range(problem.count))]
    if options.split.startswith("column:") and options.clients != len(names):
        output.note(f"--clients is not used with --split {options.split}: it makes {len(names)}")
    output.line(str(problem))
    solver = _solver(options, level, isinstance(problem, Sites) and problem.secure is not None)
    options.out.mkdir(parents=True, exist_ok=True)
    clock = time.perf_counter()
    with Board(names, output.live) as board:
        tally = Tally(names, board)
        # Sites count their own samples.
        problem.watch = board if isinstance(problem, Sites) else tally
        resume = checkpoint if options.resume else None
        result = solver.solve(problem, callbacks=[Checkpoint(checkpoint)], resume=resume)
    seconds = time.perf_counter() - clock
    if isinstance(problem, Federation):
        result = replace(result, learned=learned, tally=tally)
        for part, client in zip(result.tally.parts, problem.clients, strict=True):
            part.samples = client.n
            part.loss = None if level is not None else float(client.value(result.x))
    model = write_outcome(result, options.out, _about(options, problem, result, seconds))
    output.table(_table(result))
    if held := result.held_out:
        output.table(grid(("site", *held.metrics), held.cells(), "on held-out rows"))
    output.line(
        f"model: {options.out / 'model.npz'}   report: {options.out / 'report.html'}   "
        f"trace, checkpoint and picture: {options.out}"
    )
    output.document(_document(result, model, board, options))
    if result.interrupted:
        output.note(f"{result.message}: go on with --resume")
        return INTERRUPTED
    return NOT_CONVERGED if options.tol and not result.reached else 0


def _document(
    result: FederatedResult, model: Linear, board: Board, options: Options
) -> dict[str, object]:
    return result.trace.last() | {
        "message": result.message,
        "digest": result.digest,
        "out": options.out,
        "model": options.out / "model.npz",
        "report": options.out / "report.html",
        "converged": result.converged,
        "stationary": result.stationary,
        "certificate": {"measure": model.certificate_.measure, "value": model.certificate_.value},
        "classes": getattr(model, "classes_", None),
        "features": model.n_features_in_,
        "nonzeros": np.count_nonzero(result.x),
        "held_out": result.held_out.table or None,
        "travelled": {kind: vars(one) for kind, one in result.tally.by_kind().items()},
        "clients": [vars(line) for line in board.lines],
        "privacy": None if result.privacy is None else asdict(result.privacy),
    }  # fmt: skip


def _about(
    options: Options, problem: Federation | Sites, result: FederatedResult, seconds: float
) -> dict[str, str]:
    split = {} if isinstance(problem, Sites) else {"split": f"{options.split}, to try things out"}
    return {
        "sites": options.data,
        **split,
        "method": f"{METHODS[options.method].__name__}, at most {options.rounds:,} rounds",
        "ended": result.message,
        "engine": options.engine,
        "seed": str(options.seed),
        "digest of x": result.digest[:16],
        "time": f"{seconds:.3g} s",
    }


def _problem(options: Options) -> tuple[Federation | Sites, Learned | None]:
    """The clients, and for split data also what the model file needs (sites provide that themselves)."""
    if is_sites(options.data):
        return sites_of(options.data, options.l1, options.l2), None
    federation = _federation(options)
    data = datasets.load_data(options.data)
    labels = tuple(np.unique(data.y).tolist())
    loss, penalty, (n, d) = Logistic(), federation.penalty, (federation.n, federation.features)
    return federation, Learned(loss, penalty, False, n, d, labels, (), data.encoding)


def _level(options: Options) -> Level | None:
    """The level of privacy, after checking that the numbers it needs are given."""
    sites = is_sites(options.data)
    table, l2 = privacy_table(options.data) if sites else (None, options.l2)
    level = options.private.level(table)
    if level is None:
        return None
    if options.method not in SAMPLED:
        raise InputError(
            f"privacy is for --method fedrr or local-sgd, got {options.method}: an exact method uses the data again and again "
            "without a bound on one unit's influence"
        )
    if options.l2 is None and l2 is None:
        raise InputError(
            "with privacy the penalty must be given in numbers, since its default L_f/N is found from the data: give --l2"
            + (" or l2 = ... in the file" if sites else "")
        )
    if options.private.step is None:
        raise InputError(
            "with privacy the step must be given in numbers, since its default is found from the data: give --step, for "
            "example 0.5 where rows have norm 1"
        )
    _solver(options, level, secure=False)
    return level


def _solver(options: Options, level: Level | None, secure: bool) -> FederatedSolver:
    private, sampled = options.private, options.method in SAMPLED
    more: dict[str, Any] = {"transport": options.transport}
    if options.method == "exact" and options.transport != "float64":
        # A process that resumes the run does not have the clients' residuals, so the clients begin anew.
        more |= {"state": "clients", "on_lost": "restart"}
    elif options.method == "exact" and secure:
        more |= {"state": "clients"}
    if private.batch_size is not None and not sampled:
        raise InputError("--batch-size is for --method fedrr or local-sgd")
    if sampled:
        more |= {"privacy": level, "batch_size": private.batch_size or 1}
    return METHODS[options.method](
        rounds=options.rounds, step=private.step or (InverseTime() if sampled else None), engine=options.engine, seed=options.seed, tol=options.tol,
        evaluate=options.evaluate, downlink=options.downlink, **more,
    )  # fmt: skip


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
    for cells in (
        ("objective", "not evaluated" if result.privacy else f"{row['objective']:.12g}"),
        ("rounds", f"{result.epoch}"),
        ("gradients", f"{row['gradients']:,.0f}"),
        ("prox evaluations", f"{row['prox_evals']:,.0f}"),
        ("sent to clients", f"{row['bytes_down']:,.0f} bytes"),
        ("sent by clients", f"{row['bytes_up']:,.0f} bytes"),
        ("asked again, refused", f"{row['retries']:.0f}, {row['refused']:.0f}"),
        ("nonzeros", f"{np.count_nonzero(result.x)} of {result.x.size}"),
        ("digest of the model", result.digest[:16]),
    ):
        table.add_row(*cells)
    if result.privacy is not None:
        table.add_row("privacy", str(result.privacy))
    return table
