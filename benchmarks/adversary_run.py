"""Runs of the adversary: every claim of a solver weighed against a bracket of P* that the package has no part in.

Each problem is solved to every tolerance. The points found narrow the bracket themselves (``Attack.bounds``): they are
witnesses against each other, and their slopes give lower bounds. Where that leaves a claim open, and on one problem in ten
in any case, independent solvers narrow it further (``attack_truth``).
"""

from __future__ import annotations

import json
import multiprocessing
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks.adversary import CHEAP, attack, federation, problem
from benchmarks.attack import Attack
from benchmarks.attack_truth import Bracket, narrow
from reshuffle.errors import DivergenceError

Verdict = Literal[
    "converged, true", "not converged, true", "not converged", "FALSE", "unproved", "no reference", "diverged", "crashed", "killed",
]  # fmt: skip
VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]
MEANINGS: dict[Verdict, str] = {
    "converged, true": "the solver says so, and (P - lower bound)/f(0) ≤ tol",
    "not converged, true": "the solver makes no claim, though its point is that good",
    "not converged": "the solver makes no claim, and its point is not that good, or not known to be",
    "FALSE": "the solver says 'converged', and a point is known that is lower by more than tol·f(0)",
    "unproved": "the solver says 'converged'; no lower point is known, and no bound proves it",
    "no reference": "the same, and no independent solver could be asked",
    "diverged": "the solver says that it diverged, and what to try",
    "crashed": "an exception",
    "killed": "the process died, or took longer than a problem may",
}
TOLERANCES = (1e-3, 1e-6, 1e-9)
ROUNDING = 1e-13  # of f(0): the error of P, summed over the rows in extended or double precision
ALWAYS = 10  # of so many problems, one is given to the independent solvers even if all is proved
GRACE = 8.0  # times the time limit of a run: three runs, compiling and the reference of one problem
SOLVERS = ("ExactProxRR",)
FEDERATED = ("FedNewton", "ExactFedRR")
ROUNDS = 300  # of a federated run: more than those of a test take, fewer than a long one


@dataclass(frozen=True)
class Finding:
    """What a solver said of one problem, and what is so."""

    seed: int
    solver: str
    tol: float
    verdict: Verdict
    reached: float
    """(P - upper)/f(0): above the best point that is known."""
    proved: float
    """(P - lower)/f(0): no more than this above the minimum."""
    certificate: str
    epochs: int
    seconds: float
    by: str
    """Who found the best point that is known."""
    loss: str
    penalty: str
    shape: tuple[int, ...]
    tags: tuple[str, ...]
    message: str
    version: str = rs.__version__


@dataclass
class _Run:
    tol: float
    result: Any
    seconds: float
    crash: str = ""
    diverged: bool = False


def examine(
    seed: int, solvers: tuple[str, ...] = SOLVERS, tolerances: tuple[float, ...] = TOLERANCES,
    time_limit: float = 20.0, most: int | None = None,
) -> list[Finding]:  # fmt: skip
    """All claims about the problem of this seed; ``most`` limits epochs or rounds."""
    hostile = attack(seed)
    found = []
    for name in solvers:
        if name in FEDERATED and not _can_federate(hostile, name):
            continue
        runs = [_run(hostile, name, tol, time_limit, most) for tol in tolerances]
        found += _judged(hostile, name, runs, time_limit)
    return found


def _can_federate(hostile: Attack, name: str) -> bool:
    """Whether the method takes this loss and penalty, in a fraction of a second a round."""
    if hostile.X.shape[0] < 4 or np.prod(hostile.X.shape) > CHEAP:
        return False
    if name == "FedNewton":
        able = hostile.penalty in (
            "slope",
            "fused_lasso",
            "nuclear_norm",
            "l1_ball",
            "l2_ball",
            "simplex",
        )
        return not able and hostile.loss != "squared_outputs"
    return hostile.loss != "poisson"


def _run(hostile: Attack, name: str, tol: float, time_limit: float, most: int | None) -> _Run:
    federated = name in FEDERATED
    limits: dict[str, Any] = {"tol": tol, "time_limit": time_limit}
    if federated or most is not None:
        limits["rounds" if federated else "epochs"] = most or ROUNDS
    clock = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solver = getattr(rs, name)(**limits)
            result = solver.solve(federation(hostile) if federated else problem(hostile))
    except Exception as error:  # a crash is a finding, whatever it is
        text, told = f"{type(error).__name__}: {error}", isinstance(error, DivergenceError)
        return _Run(tol, None, time.perf_counter() - clock, text, told)
    return _Run(tol, result, time.perf_counter() - clock)


def _judged(hostile: Attack, name: str, runs: list[_Run], seconds: float) -> list[Finding]:
    bracket, unit = Bracket(hostile), hostile.at_zero
    values = {}
    for run in runs:
        if run.result is not None:
            values[run.tol] = hostile.objective(run.result.x)
            bracket.see(run.result.x, f"own point, tol {run.tol:g}")

    def proved(run: _Run) -> bool:
        return values[run.tol] - bracket.lower <= (run.tol + ROUNDING) * unit

    open_ = any(run.tol in values and not proved(run) for run in runs)
    asked = narrow(bracket, seconds) if open_ or hostile.seed % ALWAYS == 0 else True
    found = []
    for run in runs:
        about: dict[str, Any] = {
            "seed": hostile.seed, "solver": name, "tol": run.tol, "seconds": run.seconds, "by": bracket.by,
            "loss": hostile.loss, "penalty": hostile.penalty, "shape": (*hostile.X.shape, *hostile.shape[1:]),
            "tags": hostile.tags,
        }  # fmt: skip
        if run.result is None:
            found.append(
                Finding(
                    verdict="diverged" if run.diverged else "crashed",
                    reached=np.nan,
                    proved=np.nan,
                    certificate="",
                    epochs=0,
                    message=run.crash,
                    **about,
                )
            )
            continue
        value, result = values[run.tol], run.result
        reached = (value - bracket.upper) / unit
        verdict: Verdict = "not converged, true" if proved(run) else "not converged"
        if result.converged:
            verdict = "converged, true" if proved(run) else "unproved" if asked else "no reference"
            if not reached <= run.tol + ROUNDING:
                verdict = "FALSE"
        header = result.trace.header.get("certificate", "")
        certificate = header or ("gap" if "gap" in result.trace else "gradient mapping")
        found.append(
            Finding(
                verdict=verdict,
                reached=reached,
                proved=(value - bracket.lower) / unit,
                certificate=certificate,
                epochs=result.epoch,
                message=result.message,
                **about,
            )
        )
    return found


# --- many problems --------------------------------------------------------------------------------


def _serve(pipe: Connection, settings: dict[str, Any]) -> None:
    """Examine one seed after the other, until there are no more."""
    while (seed := pipe.recv()) is not None:
        pipe.send([asdict(finding) for finding in examine(seed, **settings)])


class _Worker:
    """A process that examines one problem at a time, and is replaced if it dies or takes too long."""

    def __init__(self, settings: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, settings), daemon=True)
        self.process.start()
        theirs.close()
        self.seed, self.deadline = -1, np.inf

    def give(self, seed: int | None, patience: float) -> None:
        self.seed, self.deadline = -1 if seed is None else seed, time.monotonic() + patience
        self.pipe.send(seed)

    def end(self) -> None:
        self.process.kill()  # our own child
        self.process.join()
        self.pipe.close()


def examinations(
    seeds: Iterable[int], settings: dict[str, Any], jobs: int, patience: float
) -> Iterator[tuple[int, list[Finding]]]:
    """The findings of every seed, as they come, from so many processes."""
    todo = iter(seeds)
    workers = [_Worker(settings) for _ in range(jobs)]
    busy: list[_Worker] = []
    for worker in workers:
        if (seed := next(todo, None)) is not None:
            worker.give(seed, patience)
            busy.append(worker)
    while busy:
        left = min(worker.deadline for worker in busy) - time.monotonic()
        ready = wait([worker.pipe for worker in busy], max(left, 0.0))
        for worker in list(busy):
            seed, late = worker.seed, time.monotonic() > worker.deadline
            if worker.pipe not in ready and not late:
                continue
            try:
                if worker.pipe not in ready:
                    raise EOFError
                yield seed, [_finding(entry) for entry in worker.pipe.recv()]
            except (EOFError, OSError):
                code = "took too long" if late else "died"
                worker.end()
                busy.remove(worker)
                worker = _Worker(settings)
                busy.append(worker)
                yield seed, [_killed(seed, settings, f"the process {code}")]
            following = next(todo, None)
            if following is None:
                busy.remove(worker)
            else:
                worker.give(following, patience)
        workers = [*{*workers, *busy}]
    for worker in workers:
        if worker.process.is_alive():
            worker.end()


def _killed(seed: int, settings: dict[str, Any], message: str) -> Finding:
    solver = ", ".join(settings["solvers"])
    return Finding(
        seed, solver, np.nan, "killed", np.nan, np.nan, "", 0, np.nan, "", "", "", (), (), message
    )


def _finding(entry: dict[str, Any]) -> Finding:
    names = {field.name for field in fields(Finding)}
    known = {name: value for name, value in entry.items() if name in names}
    return Finding(**known | {name: tuple(known[name]) for name in ("shape", "tags")})


class Log:
    """JSON lines, a line for each claim: a run that is stopped goes on where it was."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.found = path, list[Finding]()
        if path is not None and path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self.found.append(_finding(json.loads(line)))
                except (ValueError, KeyError, TypeError):
                    continue  # the end of a run that was stopped while it wrote
        elif path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def done(self, solvers: tuple[str, ...]) -> set[int]:
        """The seeds whose findings with these solvers, by this version, are known."""
        mine = [f for f in self.found if f.version == rs.__version__]
        return {f.seed for f in mine if f.solver in (*solvers, ", ".join(solvers), "none")}

    def add(self, seed: int, found: list[Finding]) -> None:
        self.found += found
        if self.path is not None:
            text = "".join(json.dumps(asdict(finding)) + "\n" for finding in found)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text)


def campaign(
    seeds: range, solvers: tuple[str, ...], tolerances: tuple[float, ...], time_limit: float,
    most: int | None, jobs: int, log: Log,
) -> list[Finding]:  # fmt: skip
    """The findings of these seeds, those of the log included."""
    settings: dict[str, Any] = {
        "solvers": solvers, "tolerances": tolerances, "time_limit": time_limit, "most": most,
    }  # fmt: skip
    done = log.done(solvers)
    todo = [seed for seed in seeds if seed not in done]
    patience = GRACE * time_limit * len(solvers)
    for seed, found in examinations(todo, settings, jobs, patience):
        log.add(seed, found)
    wanted = set(seeds)
    names = (*solvers, ", ".join(solvers))
    return [finding for finding in log.found if finding.seed in wanted and finding.solver in names]


def report(console: Console, found: list[Finding]) -> int:
    """The counts, and every claim that is false or crashed with the command that repeats it; how many are false."""
    for key in ("solver", "certificate", "loss", "penalty"):
        table = Table(title=f"by {key}", title_justify="left")
        for heading in (key, "tol", "runs", *VERDICTS):
            table.add_column(heading, justify="left" if heading == key else "right")
        for kind in [*dict.fromkeys(str(getattr(f, key)) for f in found)]:
            mine = [f for f in found if str(getattr(f, key)) == kind]
            tolerances = sorted({f.tol for f in mine if f.tol == f.tol}, reverse=True)
            for tol in tolerances if key == "solver" else [0.0]:
                some = [f for f in mine if f.tol == tol or key != "solver"]
                counts = Counter(f.verdict for f in some)
                each = [str(counts[verdict] or "") for verdict in VERDICTS]
                table.add_row(kind, f"{tol:g}" if tol else "all", str(len(some)), *each)
        console.print(table)
    for finding in found:
        if finding.verdict in ("FALSE", "crashed", "killed"):
            option = "--federated" if finding.solver.split(",")[0] in FEDERATED else "--adversary"
            text = (
                f"{finding.verdict}: seed {finding.seed}, {finding.solver}, tol {finding.tol:g}, {finding.loss}, "
                f"{finding.penalty}, {finding.shape}, [{'; '.join(finding.tags)}]: {finding.reached:.1e} above "
                f"{finding.by}; {finding.certificate}: {finding.message}\n"
                f"    python -m benchmarks.honesty {option} 1 --first {finding.seed}"
            )
            console.print(text, soft_wrap=True, highlight=False, markup=False)
    counts = Counter(finding.verdict for finding in found)
    for verdict, meaning in MEANINGS.items():
        console.print(f"{counts[verdict]:7} {verdict}: {meaning}", highlight=False, markup=False)
    return counts["FALSE"]
