"""``reshuffle reproduce``: recipes one after the other, their numbers and whether claims hold."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reshuffle import experiments
from reshuffle.cli.common import Output
from reshuffle.cli.tables import show
from reshuffle.experiments import RECIPES, Numbers, Report, Settings


def run(names: Sequence[str], settings: Settings, output: Output) -> None:
    """Run the recipes of these names, ``all`` for all of them; exit code 1 if a claim fails."""
    wanted = list(RECIPES) if "all" in names else list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in RECIPES]:
        raise click.UsageError(f"no recipe {unknown[0]!r}; there are {', '.join(RECIPES)} and all")
    console, failed, told = output.console, [], {}
    for name in wanted:
        clock = time.perf_counter()
        report = experiments.run(name, settings)
        _show(console, report)
        seconds = time.perf_counter() - clock
        page = settings.out / f"{name}.html"
        output.line(f"{seconds:.1f} s; page: {page}\n")
        told[name] = _document(report) | {"seconds": seconds, "page": page}
        failed += [f"{name}: {c.claim} Found: {c.found}." for c in report.checks if not c.holds]
    output.document(told)
    if failed:
        raise click.ClickException("a claim does not hold in this run.\n  " + "\n  ".join(failed))


def _show(console: Console, report: Report) -> None:
    console.rule(escape(report.title))
    for name, value in report.configuration.items():
        console.print(f"{name}: {value}", soft_wrap=True, highlight=False, markup=False)
    for numbers in report.tables:
        show(console, _table(numbers))
    for check in report.checks:
        word = "[green]holds[/green]" if check.holds else "[bold red]DOES NOT HOLD[/bold red]"
        console.print(f"{word}: {escape(check.claim)} {escape(check.found)}.", soft_wrap=True)


def _table(numbers: Numbers) -> Table:
    table = Table(title=escape(numbers.title), title_justify="left", box=box.SIMPLE_HEAD)
    for k, column in enumerate(numbers.columns):
        table.add_column(escape(column), justify="right" if k else "left", no_wrap=k == 0)
    for row in numbers.rows:
        table.add_row(*map(escape, row))
    return table


def _document(report: Report) -> dict[str, Any]:
    checks = [{"claim": c.claim, "holds": c.holds, "found": c.found} for c in report.checks]
    tables = [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in report.tables]
    return {"title": report.title, "checks": checks, "tables": tables}
