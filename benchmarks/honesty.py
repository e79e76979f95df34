"""Does 'converged' mean it? A solver on random and named problems whose minima are known otherwise.

``python -m benchmarks.honesty --random 2000 --named`` runs ``ExactProxRR`` at three tolerances and counts: converged and true
((P - P*)/f(0) ≤ tol), converged and false, not converged, and crashed; status 1 where one 'converged' is false. Minima are
kept in a file (``$RESHUFFLE_TRUTH``, or in the user's cache folder), so that a second run is quick.

``python -m benchmarks.honesty --adversary 5000 --federated 500 --log adversary.jsonl`` draws from the other generator
(``adversary``), whose problems are made to break certificates. A run that was stopped goes on where its log ends.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks.adversary_run import FEDERATED, Log, campaign, report
from benchmarks.adversary_run import SOLVERS as ATTACKED
from benchmarks.canonical import canonical
from benchmarks.corpus import CORPUS
from benchmarks.instances import Instance
from benchmarks.random_problems import random_problem
from benchmarks.truth import Minima, Truth, optimum

Verdict = Literal["true", "false", "undecided", "not converged", "crashed"]
VERDICTS: tuple[Verdict, ...] = ("true", "false", "undecided", "not converged", "crashed")
TOLERANCES = (1e-3, 1e-6, 1e-9)
CHUNK = 25  # random problems of one task: enough to make its start-up small


@dataclass(frozen=True)
class Outcome:
    """What a solver said of one problem, and what is so."""

    name: str
    loss: str
    penalty: str
    group: str
    """'random', or the size class of a named problem."""
    half: str
    tol: float
    verdict: Verdict
    reached: float
    """(P - P*)/f(0), NaN after a crash."""
    epochs: int
    seconds: float
    width: float
    """The width of the bracket of P*, over f(0)."""
    message: str


def judge(
    instance: Instance,
    truth: Truth,
    make: Callable[[float], Any],
    tol: float,
    group: str,
    half: str,
) -> Outcome:
    """Run a solver with this tolerance and weigh what it says.

    A 'converged' is false if P is more than tol·f(0) above a point that is known; undecided if only above the lower
    bound, which takes a bracket that is wider than tol.
    """
    about = (instance.name, instance.loss, instance.penalty, group, half, tol)
    clock = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = make(tol).solve(instance.problem())
    except Exception as error:  # a crash is a finding, whatever it is
        return Outcome(
            *about, "crashed", np.nan, 0, time.perf_counter() - clock, truth.width, f"{type(error).__name__}: {error}",
        )  # fmt: skip
    seconds = time.perf_counter() - clock
    value = canonical(instance).objective(np.asarray(result.x, dtype=np.float64).ravel())
    reached = (value - truth.upper) / truth.at_zero
    verdict: Verdict = "not converged"
    if result.converged:
        verdict = "true" if value - truth.lower <= tol * truth.at_zero else "undecided"
        if not reached <= tol:
            verdict = "false"
    return Outcome(*about, verdict, reached, result.epoch, seconds, truth.width, result.message)


def solver_of(name: str, epochs: int | None, time_limit: float | None) -> Callable[[float], Any]:
    """A solver of the package by name, as a function of its tolerance."""
    limits: dict[str, Any] = {"time_limit": time_limit}
    if epochs is not None:
        limits["epochs"] = epochs
    return partial(_make, name, limits)


def _make(name: str, limits: dict[str, Any], tol: float) -> Any:
    return getattr(rs, name)(tol=tol, **limits)


Task = tuple[list[tuple[str, str, str]], tuple[float, ...], Callable[[float], Any]]


def work(task: Task) -> tuple[list[Outcome], dict[str, Any]]:
    """The outcomes of some problems, and the minima that had to be found."""
    problems, tolerances, make = task
    minima, found = Minima(), []
    before = set(minima.known)
    for name, group, half in problems:
        random = group == "random"
        instance = random_problem(int(name)) if random else CORPUS[name].build()
        truth = optimum(instance)[0] if random else minima.of(instance)  # random ones are quick
        found += [judge(instance, truth, make, tol, group, half) for tol in tolerances]
    return found, {key: value for key, value in minima.known.items() if key not in before}


def outcomes(
    random: Iterable[int], named: Iterable[str], tolerances: tuple[float, ...],
    make: Callable[[float], Any], jobs: int = 1,
) -> Iterator[Outcome]:  # fmt: skip
    """All outcomes, in order, from so many processes."""
    seeds = [(str(seed), "random", "") for seed in random]
    tasks: list[Task] = [
        (seeds[k : k + CHUNK], tolerances, make) for k in range(0, len(seeds), CHUNK)
    ]
    tasks += [([(name, CORPUS[name].size, CORPUS[name].half)], tolerances, make) for name in named]
    minima = Minima()
    with ProcessPoolExecutor(jobs) as pool:
        for found, new in pool.map(work, tasks) if jobs > 1 else map(work, tasks):
            yield from found
            if new:
                minima.known |= new
                minima.save()


def show(console: Console, found: list[Outcome], key: str, tolerances: tuple[float, ...]) -> None:
    """How often each verdict was given, by one property of the problems."""
    table = Table(title=f"by {key}", title_justify="left")
    for heading in (key, "tol", "problems", *VERDICTS, "median epochs"):
        table.add_column(heading, justify="left" if heading == key else "right")
    for kind in [*dict.fromkeys(str(getattr(o, key)) for o in found), "all"]:
        for tol in tolerances:
            mine = [o for o in found if o.tol == tol and kind in ("all", str(getattr(o, key)))]
            counts = Counter(o.verdict for o in mine)
            epochs = f"{np.median([o.epochs for o in mine]):.0f}" if mine else ""
            each = [str(counts[verdict] or "") for verdict in VERDICTS]
            table.add_row(kind, f"{tol:g}", str(len(mine)), *each, epochs)
    console.print(table)


@contextmanager
def _csv(path: Path) -> Iterator[csv.DictWriter[str]]:
    """A file that has every outcome as soon as it is known: a long run that is stopped is not lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8", buffering=1) as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)])
        writer.writeheader()
        yield writer


@click.command()
@click.option("--random", "count", default=0, help="How many random problems, by seed.")
@click.option("--first", default=0, help="The first seed.")
@click.option("--named", is_flag=True, help="The named problems too.")
@click.option("--half", type=click.Choice(["tuning", "held-out"]), help="Named ones of one half.")
@click.option("--only", default="", help="Named ones whose name has this in it.")
@click.option("--solver", default="ExactProxRR", help="A solver of the package.")
@click.option("--tol", "tolerances", multiple=True, type=float, default=TOLERANCES)
@click.option("--epochs", type=int, help="The most epochs; the solver's own limit if not given.")
@click.option("--time-limit", default=20.0, help="Seconds after which a run is stopped.")
@click.option("--jobs", default=1, help="Processes.")
@click.option("--out", type=click.Path(path_type=Path), help="A CSV file for every outcome.")
@click.option("--adversary", default=0, help="How many problems of the adversary, by seed.")
@click.option("--federated", default=0, help="How many of them for the federated solvers.")
@click.option("--log", type=click.Path(path_type=Path), help="JSON lines of the adversary.")
def main(
    count: int, first: int, named: bool, half: str | None, only: str, solver: str,
    tolerances: tuple[float, ...], epochs: int | None, time_limit: float, jobs: int, out: Path | None,
    adversary: int, federated: int, log: Path | None,
) -> None:  # fmt: skip
    """Count how often a solver's 'converged' is true; status 1 if ever it is not."""
    if adversary or federated:
        kept, wrong = Log(log), 0
        for number, solvers in ((adversary, ATTACKED), (federated, FEDERATED)):
            if number:
                seeds = range(first, first + number)
                given = campaign(seeds, solvers, tolerances, time_limit, epochs, jobs, kept)
                wrong += report(Console(width=150), given)
        sys.exit(1 if wrong else 0)
    chosen = [
        name for name, entry in CORPUS.items()
        if named and only in name and half in (None, entry.half)
    ]  # fmt: skip
    make = solver_of(solver, epochs, time_limit)
    found: list[Outcome] = []
    with ExitStack() as stack:
        keep = stack.enter_context(_csv(out)) if out is not None else None
        for outcome in outcomes(range(first, first + count), chosen, tolerances, make, jobs):
            found.append(outcome)
            if keep is not None:
                keep.writerow(asdict(outcome))
    console = Console(width=120)
    for key in ("loss", "penalty", "group", *(["half"] if named else [])):
        show(console, found, key, tolerances)
    for outcome in found:
        if outcome.verdict in ("false", "crashed") or (
            outcome.verdict == "not converged" and outcome.group != "random"
        ):
            text = f"{outcome.verdict}: {outcome.name!r} ({outcome.loss}, {outcome.penalty}), tol {outcome.tol:g}, "
            text += f"reached {outcome.reached:.1e} in {outcome.epochs} epochs: {outcome.message}"
            console.print(text, soft_wrap=True, highlight=False, markup=False)
    false = sum(outcome.verdict == "false" for outcome in found)
    console.print(f"{len(found)} runs, {false} false 'converged'")
    sys.exit(1 if false else 0)


if __name__ == "__main__":
    main()
