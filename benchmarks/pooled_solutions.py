"""Does ExactFedRR, as it comes, reach the pooled solution? On drawn, named and random federations.

``python -m benchmarks.pooled_solutions --drawn --named --random 300 --out found.csv`` runs it on each with its defaults until
(P - P*)/f(0) ≤ 1e-8, for at most 1,000 rounds on the drawn ones and 300 on the others, and exits with status 1 where one is missed.
A row is written as soon as it is known, and a second call with the same file goes on after the last: the whole takes some
minutes. P* is that of FISTA on the pooled problem, certified to 1e-11 of f(0) or by a gradient mapping as small.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import click
import numpy as np
from rich.console import Console

import reshuffle as rs
from benchmarks.federation_cases import DRAWN, NAMED, Case, random_federation

ACCURACY = 1e-8
ROUNDS = {"drawn": 1000, "named": 300, "random": 300}


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    kind: str
    name: str
    rounds: int
    """To the accuracy; -1 where it was not reached."""
    lowest: float
    """(P - P*)/f(0), at its least."""
    passes: str
    shortened: float
    """The last step over the first."""
    certified: bool
    """Whether P* is."""
    seconds: float
    """Of the processor, for the federated run."""

    @property
    def line(self) -> str:
        told = f"{self.rounds} rounds" if self.rounds >= 0 else f"missed, {self.lowest:.1e}"
        doubt = "" if self.certified else " (P* is not certified)"
        return f"{self.name}: {told}, {self.passes} passes{doubt}"


def judge(kind: str, case: Case, most: int, method: rs.ExactFedRR | None = None) -> Outcome:
    """Run the method (by default ``ExactFedRR()``) until it is there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pooled = case.pooled()
        best = rs.FISTA(tol=1e-11, epochs=30_000, check_every=20, eval_every=1000).solve(pooled)
        minimum, scale = pooled.objective(best.x), abs(pooled.value(np.zeros(pooled.shape)))
        clients, clock = case.federation(pooled), time.process_time()

        def there(result: rs.Result) -> bool:
            return bool(result.trace["objective"][-1] - minimum <= ACCURACY * scale)

        solver = replace(method or rs.ExactFedRR(), rounds=most)
        result = solver.solve(clients, callbacks=[there])
    gaps, steps = (result.trace["objective"] - minimum) / scale, result.trace["step"]
    reached = result.epoch if gaps[-1] <= ACCURACY else -1
    passes = result.trace.header["local passes"]
    seconds = time.process_time() - clock
    shortened = float(steps[-1] / steps[0])
    return Outcome(
        kind, case.name, reached, float(gaps.min()), passes, shortened, best.reached, seconds
    )


def outcomes(cases: Iterable[tuple[str, Case]], out: Path | None) -> Iterable[Outcome]:
    """What the file has already, and the rest as it comes."""
    known: dict[str, Outcome] = {}
    if out is not None and out.is_file():
        with open(out, newline="", encoding="utf-8") as file:
            known = {row["name"]: _read(row) for row in csv.DictReader(file)}
    for kind, case in cases:
        if case.name in known:
            yield known[case.name]
            continue
        outcome = judge(kind, case, ROUNDS[kind])
        if out is not None:
            _append(out, outcome)
        yield outcome


def _read(row: dict[str, str]) -> Outcome:
    kinds = {"int": int, "float": float, "str": str, "bool": lambda text: text == "True"}
    return Outcome(**{f.name: kinds[str(f.type)](row[f.name]) for f in fields(Outcome)})  # type: ignore[operator]


def _append(out: Path, outcome: Outcome) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = not out.is_file()
    with open(out, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)])
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(outcome))


@click.command()
@click.option("--drawn", is_flag=True, help="Unit Gaussian rows, hardly any strong convexity.")
@click.option("--named", is_flag=True, help="Many clients, penalties of all kinds.")
@click.option("--random", "count", default=0, help="So many random federations, by seed.")
@click.option("--first", default=0, help="The first seed.")
@click.option("--out", type=click.Path(path_type=Path), help="A CSV file, to which rows are added.")
def main(drawn: bool, named: bool, count: int, first: int, out: Path | None) -> None:
    """Count how often the pooled solution is reached; status 1 where it is not."""
    cases = [("drawn", case) for case in DRAWN] if drawn else []
    cases += [("named", case) for case in NAMED] if named else []
    cases += [("random", random_federation(seed)) for seed in range(first, first + count)]
    console, found = Console(width=140), []
    for outcome in outcomes(cases, out):
        found.append(outcome)
        console.print(outcome.line, highlight=False, markup=False, soft_wrap=True)
    for kind in dict.fromkeys(outcome.kind for outcome in found):
        mine = [outcome for outcome in found if outcome.kind == kind]
        there = [outcome.rounds for outcome in mine if outcome.rounds >= 0]
        text = f"{kind}: {len(there)} of {len(mine)} to {ACCURACY:g}"
        if there:
            text += f", rounds: median {np.median(there):.0f}, largest {max(there)}"
        halved = sum(outcome.shortened < 1.0 for outcome in mine)
        console.print(f"{text}; steps shortened in {halved}", highlight=False)
    sys.exit(1 if any(outcome.rounds < 0 for outcome in found) else 0)


if __name__ == "__main__":
    main()
