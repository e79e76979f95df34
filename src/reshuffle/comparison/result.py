"""The result of a comparison: a table, a figure, and all numbers for further use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.bands import across
from reshuffle.comparison.table import Line, Spread, Table
from reshuffle.errors import InputError
from reshuffle.files import write_atomically, write_csv
from reshuffle.html_tables import html_table
from reshuffle.trace import Result
from reshuffle.validation import check_positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Runs = dict[str, dict[int, Result]]
"""The result of each method and seed."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of ``compare``."""

    runs: Runs
    """The result of each method (by name) and seed."""
    n: int
    """The number of samples; this many gradients are one pass over the data."""
    minimum: float
    """P*."""

    def table(self, accuracy: float = 1e-3) -> Table:
        """The final gap of each method, and its cost to reach an accuracy: least, median and most over the seeds.

        ``accuracy`` is relative to the start: P(x) - P* ≤ accuracy·(P(x_0) - P*).
        """
        check_positive("accuracy", accuracy)
        start = max(r.trace["objective"][0] for by in self.runs.values() for r in by.values())
        wanted = accuracy * (float(start) - self.minimum)
        return Table(accuracy, wanted, [self._line(name, wanted) for name in self.runs])

    def _line(self, name: str, wanted: float) -> Line:
        results = list(self.runs[name].values())
        gaps = [result.trace["objective"] - self.minimum for result in results]
        rows = [np.flatnonzero(gap <= wanted) for gap in gaps]

        def cost(unit: str) -> Spread:
            costs = [across(result, unit, self.n) for result in results]
            return Spread.of(
                [c[r[0]] if r.size else np.inf for c, r in zip(costs, rows, strict=True)]
            )

        return Line(
            name,
            len(results),
            sum(bool(r.size) for r in rows),
            sum(result.message == "diverged" for result in results),
            Spread.of([gap[-1] for gap in gaps]),
            cost("passes"),
            cost("prox_evals"),
            cost("seconds"),
        )

    def plot(self, against: str = "passes", *, ax: Axes | None = None, legend: bool = True) -> Axes:
        """P(x) - P* against "passes", "prox_evals", "seconds", "epoch", "rounds" or "bytes".

        Lines are medians over the seeds, bands go from the smallest to the largest.
        """
        from reshuffle.plotting import plot_gap

        named = {name: list(by.values()) for name, by in self.runs.items()}
        return plot_gap(named, self.minimum, against, n=self.n, ax=ax, legend=legend)

    def columns(self) -> dict[str, list[object]]:
        """Every row of every trace: method, seed, passes, gap, and the columns of the trace.

        A column that a trace does not have is NaN there.
        """
        every = [(name, seed, r) for name, by in self.runs.items() for seed, r in by.items()]
        names = dict.fromkeys(column for *_, result in every for column in result.trace)
        first = ("method", "seed", "passes", "gap_to_minimum")
        table: dict[str, list[object]] = {column: [] for column in (*first, *names)}
        for name, seed, result in every:
            trace, rows = result.trace, result.trace.rows()
            table["method"] += [name] * rows
            table["seed"] += [seed] * rows
            table["passes"] += across(result, "passes", self.n).tolist()
            table["gap_to_minimum"] += (trace["objective"] - self.minimum).tolist()
            for column in names:
                table[column] += trace[column].tolist() if column in trace else [np.nan] * rows
        return table

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write ``columns`` as a CSV file."""
        columns = self.columns()
        write_csv(path, columns, zip(*columns.values(), strict=True))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write ``columns`` as a Parquet file; it needs pandas and pyarrow."""
        try:
            import pandas as pd

            content = pd.DataFrame(self.columns()).to_parquet(engine="pyarrow", index=False)
        except ImportError as error:
            raise InputError(f"to_parquet needs pandas and pyarrow ({error})") from None
        write_atomically(path, content)

    def to_latex(
        self, path: str | os.PathLike[str] | None = None, *, accuracy: float = 1e-3
    ) -> str:
        """The table as LaTeX (package booktabs), written to ``path`` if it is given."""
        text = self.table(accuracy).to_latex()
        if path is not None:
            write_atomically(path, text.encode())
        return text

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        table = self.table()
        rows = [line.cells() for line in table.lines]
        return html_table(table.title, table.columns, rows, f"P* = {self.minimum:.10g}")
