"""What a recipe is given, and what it hands back."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reshuffle.files import write_atomically
from reshuffle.trace import Result


@dataclass(frozen=True)
class Settings:
    """Where to read and write, and how much to run; ``None`` is the recipe's own choice."""

    out: Path
    data: Path | None = None
    seeds: int | None = None
    epochs: int | None = None
    quick: bool = False
    progress: bool = False
    engine: str = "threads"
    """Of the federated recipes."""

    def amounts(
        self, seeds: tuple[int, int] = (10, 3), epochs: tuple[int, int] = (100, 30)
    ) -> tuple[int, int]:
        """Seeds and epochs to run, of (normal, quick) ones."""
        return self.seeds or seeds[self.quick], self.epochs or epochs[self.quick]


@dataclass(frozen=True)
class Numbers:
    """A table: its first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Check:
    """A claim with a stated criterion, and what the run found."""

    claim: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    title: str
    text: str
    configuration: dict[str, str]
    tables: Sequence[Numbers]
    checks: Sequence[Check]
    figures: Sequence[Path] = field(default_factory=list)
    """PNG files."""
    files: Sequence[Path] = field(default_factory=list)
    """Others that were written: the figures as PDF, the numbers as CSV."""

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())
    return path


def write_traces(
    path: Path,
    runs: Mapping[str, Sequence[Result]],
    minimum: float,
    columns: Sequence[str],
    first: str = "epoch",
) -> Path:
    """Every row of every trace as a CSV line: the method, the seed, these columns and P(x) - P*.

    ``first`` is what an epoch is called.
    """
    rows: list[list[object]] = []
    for name, results in runs.items():
        for seed, result in enumerate(results):
            trace = [result.trace[column] for column in ("epoch", *columns)]
            gap = result.trace["objective"] - minimum
            rows += ([name, seed, *map(float, row)] for row in zip(*trace, gap, strict=True))
    return write_csv(path, ("method", "seed", first, *columns, "gap"), rows)


@contextmanager
def progress_bar(title: str, total: int, shown: bool) -> Iterator[Callable[[], None]]:
    """A bar on stderr; what it yields is to be called once for each of ``total`` pieces."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
