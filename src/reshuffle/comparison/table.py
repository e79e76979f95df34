"""The table of a comparison, as numbers, as text and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

LATEX = str.maketrans({c: "\\" + c for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"})  # fmt: skip


class Spread(NamedTuple):
    """The least, the median and the largest value over the seeds; infinite if the accuracy was not reached."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        ordered = np.sort(np.asarray(values, dtype=np.float64))
        low, high = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
        middle = 0.5 * (low + high) if np.isfinite(high) else high
        return cls(float(ordered[0]), float(middle), float(ordered[-1]))

    def text(self, shown: Callable[[float], str], never: str = "–") -> str:
        """The three numbers, or one if they look alike."""
        found = [shown(value) if np.isfinite(value) else never for value in self]
        return found[1] if len(set(found)) == 1 else " / ".join(found)


@dataclass(frozen=True)
class Line:
    """A method: its final gap, and its cost to reach the accuracy."""

    method: str
    runs: int
    reached: int
    """The number of runs that reached the accuracy."""
    diverged: int
    gap: Spread
    """P(x) - P* at the end."""
    passes: Spread
    prox_evals: Spread
    seconds: Spread

    def cells(self, never: str = "–") -> list[str]:
        lost = f", {self.diverged} diverged" if self.diverged else ""
        return [
            self.method,
            self.gap.text(lambda v: f"{v:.1e}"),
            f"{self.reached} of {self.runs}{lost}",
            self.passes.text(lambda v: f"{v:.1f}", never),
            self.prox_evals.text(lambda v: f"{v:,.0f}", never),
            self.seconds.text(lambda v: f"{v:.2g}", never),
        ]


@dataclass(frozen=True)
class Table:
    """A line per method: least / median / most over the seeds, or one number if they are alike."""

    accuracy: float
    """The accuracy relative to P(x_0) - P*."""
    gap: float
    """The accuracy as a value of P(x) - P*."""
    lines: Sequence[Line]

    columns = ("method", "P(x) - P* at the end", "reached", "passes", "prox evaluations", "seconds")

    @property
    def title(self) -> str:
        return (
            f"To P(x) - P* ≤ {self.gap:.2g}, {self.accuracy:g} of the start: least / median / most"
        )

    def __getitem__(self, method: str) -> Line:
        for line in self.lines:
            if line.method == method:
                return line
        raise KeyError(f"{method!r}; there are {', '.join(line.method for line in self.lines)}")

    def __str__(self) -> str:
        rows = [list(self.columns), *(line.cells() for line in self.lines)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.columns))]
        lines = [
            "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in rows
        ]  # fmt: skip
        return "\n".join([self.title, *lines])

    def to_latex(self) -> str:
        """A tabular with the rules of booktabs."""
        head = ["method", "$P(x) - P^*$ at the end", *self.columns[2:]]
        rows = [[cell.translate(LATEX) for cell in line.cells("--")] for line in self.lines]
        body = [" & ".join(row) + r" \\" for row in [head, *rows]]
        top = r"\begin{tabular}{l" + "r" * (len(head) - 1) + "}"
        relative = f"{self.accuracy:g} of the gap at the start"
        parts = [f"% least / median / most over the seeds, to {self.gap:.2g} = {relative}", top]
        parts += [r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}"]
        return "\n".join(parts) + "\n"
