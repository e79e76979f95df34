"""What a recipe is given, and what it hands back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reshuffle.files import write_csv
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
    write_csv(path, ("method", "seed", first, *columns, "gap"), rows)
    return path
