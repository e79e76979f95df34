"""What a benchmark found, as a line of a table and of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Finding:
    """One measured number and, where there is one, the bar it has to clear."""

    what: str
    measured: float
    unit: str
    sense: Literal["at least", "at most"] = "at most"
    bar: float | None = None
    detail: str = ""

    @property
    def passed(self) -> bool | None:
        """None where there is no bar."""
        if self.bar is None:
            return None
        return self.measured >= self.bar if self.sense == "at least" else self.measured <= self.bar

    @property
    def verdict(self) -> str:
        return {True: "pass", False: "miss", None: ""}[self.passed]


def show(console: Console, title: str, findings: Iterable[Finding]) -> None:
    """A table on the terminal."""
    table = Table(title=title, title_justify="left")
    for heading in ("what", "measured", "bar", "", "detail"):
        table.add_column(heading, justify="right" if heading in ("measured", "bar") else "left")
    colours = {"pass": "green", "miss": "bold red", "": "none"}
    for found in findings:
        bar = "" if found.bar is None else f"{found.sense} {found.bar:.4g}"
        verdict = f"[{colours[found.verdict]}]{found.verdict}[/]"
        table.add_row(found.what, f"{found.measured:.3g} {found.unit}", bar, verdict, found.detail)
    console.print(table)


def write_csv(path: Path, findings: Iterable[Finding], about: Mapping[str, str]) -> None:
    """The same lines, with the versions they were measured with in further columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in fields(Finding)] + ["verdict", *about]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for found in findings:
            writer.writerow(asdict(found) | {"verdict": found.verdict} | dict(about))
