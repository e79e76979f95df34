"""``reshuffle reproduce``: runs recipes one after the other, with their numbers and whether the claims hold."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
from rich.markup import escape

from reshuffle import experiments
from reshuffle.cli.common import Output, grid
from reshuffle.experiments import PAPER, RECIPES, Report, Settings

TAKEN_BY = {
    "dataset": ("figure1", "figure2"),
    "l1": ("figure1",),
    "clients": ("figure2", "claims"),
}
"""For each option, the recipes that use it."""


def listed(text: str | None) -> tuple[int, ...]:
    """The numbers of ``--seed-list``."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"--seed-list wants numbers such as 1,2,3, got {text!r}")
    return tuple(dict.fromkeys(int(part) for part in parts))


def run(names: Sequence[str], settings: Settings, output: Output) -> None:
    """Run the recipes of these names (``all``: those of the paper); exit code 1 if a claim fails."""
    wanted = [*PAPER] if "all" in names else list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in RECIPES]:
        raise click.UsageError(f"no recipe {unknown[0]!r}; there are {', '.join(RECIPES)} and all")
    for option, takers in TAKEN_BY.items():
        if getattr(settings, option) is not None and not set(wanted) & set(takers):
            raise click.UsageError(f"--{option} is for {' and '.join(takers)}")
    if settings.seeds is not None and settings.seed_list:
        raise click.UsageError("give --seeds, their number, or --seed-list, not both")
    failed, told = [], {}
    for name in wanted:
        clock = time.perf_counter()
        report = experiments.run(name, settings)
        _show(output, report)
        seconds = time.perf_counter() - clock
        page = settings.out / f"{name}.html"
        output.line(f"{seconds:.1f} s; page: {page}\n")
        told[name] = _document(report) | {"seconds": seconds, "page": page}
        if report.elsewhere:
            output.line(report.conclusion)
            continue
        failed += [
            f"{name}: {c.claim} Found: {c.found}."
            for c in report.checks
            if not (c.holds or c.known)
        ]
    output.document(told)
    if failed:
        raise click.ClickException("a claim does not hold in this run.\n  " + "\n  ".join(failed))


def _show(output: Output, report: Report) -> None:
    console = output.console
    console.rule(escape(report.title))
    for name, value in report.configuration.items():
        console.print(f"{name}: {value}", soft_wrap=True, highlight=False, markup=False)
    for numbers in report.tables:
        output.table(grid(numbers.columns, numbers.rows, numbers.title, framed=False))
    for check in report.checks:
        colour = "green" if check.holds else "yellow" if check.known else "bold red"
        why = f" {escape(check.known)}" if check.known and not check.holds else ""
        word = f"[{colour}]{check.verdict}[/{colour}]"
        console.print(f"{word}: {escape(check.claim)} {escape(check.found)}.{why}", soft_wrap=True)


def _document(report: Report) -> dict[str, object]:
    checks = [
        {"claim": c.claim, "holds": c.holds, "verdict": c.verdict, "found": c.found}
        for c in report.checks
    ]
    tables = [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in report.tables]
    about = {"title": report.title, "configuration": report.configuration}
    return about | {"conclusion": report.conclusion, "checks": checks, "tables": tables}
