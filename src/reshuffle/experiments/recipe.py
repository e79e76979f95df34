"""The arguments and the results of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reshuffle import datasets
from reshuffle.arrays import AnyArray, Array
from reshuffle.files import write_csv
from reshuffle.objective import Objective
from reshuffle.run_cache import RunCache
from reshuffle.solvers.solver import BaseSolver
from reshuffle.trace import Result

Runs = dict[str, list[Result]]
"""The results of each method, one per seed."""


@dataclass(frozen=True)
class Settings:
    """The input, the output folder, and the amount of work; ``None`` leaves the choice to the recipe."""

    out: Path
    data: Path | None = None
    seeds: int | None = None
    epochs: int | None = None
    quick: bool = False
    progress: bool = False
    engine: str = "threads"
    """The engine of the federated recipes."""
    dataset: str | None = None
    """A file or the name of a data set, in place of the paper's."""
    seed_list: Sequence[int] = ()
    """The seeds themselves; if empty, they are 0, 1, … up to the number of seeds."""
    l1: float | None = None
    """λ1; None chooses it as the paper says."""
    clients: int | None = None

    def amounts(
        self, seeds: tuple[int, int] = (10, 3), epochs: tuple[int, int] = (100, 30)
    ) -> tuple[list[int], int]:
        """The numbers of seeds and of epochs to run, each chosen from a pair (normal, quick)."""
        listed = list(self.seed_list) or list(range(self.seeds or seeds[self.quick]))
        return listed, self.epochs or epochs[self.quick]


class RecipeData(NamedTuple):
    """The data of a recipe."""

    X: object
    y: AnyArray
    label: str
    """Its name: that of a known data set if the sha256 agrees."""
    paper: bool
    """Whether it is the data set of the paper's figure."""


def files_of(stem: Path) -> list[Path]:
    """The files of a figure, and of its numbers."""
    return [stem.with_suffix(end) for end in (".png", ".pdf", ".csv")]


def load(settings: Settings, name: str) -> RecipeData:
    """The paper's set of that name, or the data that the settings ask for."""
    asked = settings.dataset or name
    file = datasets.fetch(asked, folder=settings.data, progress=settings.progress)
    X, y = datasets.load_libsvm(file)
    found = datasets.identity(file)
    return RecipeData(X, y, found.label, found.name == name)


@dataclass(frozen=True)
class Numbers:
    """A table: its first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class ClaimCheck:
    """A claim with a stated criterion, and what the run found."""

    claim: str
    holds: bool
    found: str
    known: str = ""
    """Why the claim is not expected to hold, if that is known: it is then reported, but is no failure."""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.holds:
            return "holds"
        return "NOT REPRODUCED" if self.known else "DOES NOT HOLD"


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    title: str
    text: str
    configuration: dict[str, str]
    tables: Sequence[Numbers]
    checks: Sequence[ClaimCheck]
    files: Sequence[Path] = ()
    """The files that were written; the page shows those that end with .png and links to the others."""
    elsewhere: str = ""
    """The name of the data if it is not the paper's, whose claims are then about something else."""

    @property
    def holds(self) -> bool:
        return all(check.holds or check.known for check in self.checks)

    @property
    def conclusion(self) -> str:
        """Whether the claims carry over to other data than the paper's; empty for the paper's own."""
        if not self.elsewhere:
            return ""
        failing = sum(not check.holds for check in self.checks)
        word = (
            f"do NOT carry over ({failing} of {len(self.checks)} fail)" if failing else "carry over"
        )
        return f"The paper does not show this figure for {self.elsewhere}; its claims {word}."


# --- runs with several seeds -----------------------------------------------------------------------


def solve_all(
    store: RunCache,
    problem: Objective,
    seeds: Sequence[int],
    solvers: Callable[[int], Mapping[str, BaseSolver]],
    tick: Callable[[], None],
    suffix: str = "",
) -> Runs:
    """Each of the solvers for each seed, computed or found in the store."""
    runs: Runs = {}
    for seed in seeds:
        for name, solver in solvers(seed).items():
            found = store.solve(f"{name}{suffix}-seed{seed}", solver, problem)
            runs.setdefault(name, []).append(found)
            tick()
    return runs


@dataclass(frozen=True, eq=False)
class Curve:
    """The traces of one method with several seeds, as arrays."""

    epochs: Array
    """Epochs, or rounds of a federation."""
    passes: Array
    prox_evals: Array
    seconds: Array
    gaps: Array
    """P(x) - P*, one row per seed."""

    @classmethod
    def of(cls, results: Sequence[Result], minimum: float, n: int) -> Curve:
        traces = [result.trace for result in results]

        def middle(column: str) -> Array:
            return np.asarray(np.median([trace[column] for trace in traces], axis=0))

        gaps = np.array([trace["objective"] for trace in traces]) - minimum
        passes = middle("gradients") / n
        return cls(middle("epoch"), passes, middle("prox_evals"), middle("seconds"), gaps)

    @property
    def median(self) -> Array:
        return np.asarray(np.median(self.gaps, axis=0))

    @property
    def milliseconds(self) -> float:
        """The time of an epoch."""
        return float(1e3 * self.seconds[-1] / self.epochs[-1])

    def first(self, accuracy: float) -> int | None:
        """The first row whose median gap is this small."""
        reached = np.flatnonzero(self.median <= accuracy)
        return int(reached[0]) if reached.size else None


def write_traces(
    path: Path, runs: Runs, minimum: float, columns: Sequence[str], first: str = "epoch"
) -> None:
    """Write every row of every trace as a CSV line: the method, the seed, these columns and P(x) - P*.

    ``first`` is the heading of the column of epochs.
    """
    rows: list[list[object]] = []
    for name, results in runs.items():
        for result in results:
            seed = int(result.config["seed"])
            trace = [result.trace[column] for column in ("epoch", *columns)]
            gap = result.trace["objective"] - minimum
            rows += ([name, seed, *map(float, row)] for row in zip(*trace, gap, strict=True))
    write_csv(path, ("method", "seed", first, *columns, "gap"), rows)
