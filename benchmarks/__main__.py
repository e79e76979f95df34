"""``python -m benchmarks``: run them, show tables, write CSV files; status 1 where a bar is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial, wraps
from pathlib import Path

import click
from rich.console import Console

import reshuffle as rs
from benchmarks import (
    costly_prox,
    estimators,
    federation,
    first_fit,
    grid,
    groups,
    growth,
    kernel_speed,
    memory,
    paths,
    profile,
    race,
    rounds_to_accuracy,
    sites,
    startup,
    wide,
)
from benchmarks.report import Finding, show, write_csv
from benchmarks.timing import environment

Benchmark = Callable[[bool, Path | None], Iterable[Finding]]


def plain(benchmark: Callable[[bool], Iterable[Finding]]) -> Benchmark:
    """One that has no figure to draw."""

    @wraps(benchmark)
    def drawing_nothing(quick: bool, out: Path | None) -> Iterable[Finding]:
        return benchmark(quick)

    return drawing_nothing


BENCHMARKS: dict[str, Benchmark] = {
    "a9a": plain(kernel_speed.a9a),
    "large": plain(kernel_speed.large),
    "dense": plain(kernel_speed.dense),
    "multinomial": plain(kernel_speed.multinomial),
    "solvers": race.solvers,
    "profile": profile.profile,
    "wide": plain(wide.wide),
    "grid": grid.grid,
    "groups": plain(groups.groups),
    "costly-prox": costly_prox.costly_prox,
    "growth": growth.growth,
    "estimators": plain(estimators.fits),
    "estimator-overhead": plain(estimators.overhead),
    "paths": plain(paths.paths),
    "first-fit": first_fit.first_fit,
    "fit-memory": first_fit.fit_memory,
    "proxes": first_fit.proxes,
    "rounds": rounds_to_accuracy.rounds,
    "rounds-elsewhere": rounds_to_accuracy.elsewhere,
    "federation": plain(federation.federation),
    "sites": plain(sites.sites),
    "memory": plain(memory.memory),
    "startup": plain(startup.startup),
    "first-epoch": plain(startup.first_epoch),
}


ON_ONE_SET: dict[str, Benchmark] = {
    f"{kind}:{name}": plain(wraps(measure)(partial(measure, names=(name,))))
    for kind, measure, names in (
        ("estimators", estimators.fits, estimators.SETS),
        ("paths", paths.paths, paths.SETS),
    )
    for name in names
}
"""The same on one data set alone: parts of those above, so that they are run when they are asked for."""
CHOICES = BENCHMARKS | ON_ONE_SET


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(CHOICES)), help="Run just these.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for CSV files and figures.")
@click.option("--quick", is_flag=True, help="Smaller data, fewer rounds: a look, not a verdict.")
def main(only: tuple[str, ...], out: Path | None, quick: bool) -> None:
    """Measure the package against its peers and its bars."""
    console, missed, left_out = Console(), 0, 0
    about = environment()
    console.print(", ".join(f"{name} {value}" for name, value in about.items()))
    for name in only or BENCHMARKS:
        benchmark = CHOICES[name]
        try:
            findings = list(benchmark(quick, out))
        except (rs.InputError, OSError, ImportError, NotImplementedError) as error:
            console.print(f"[bold]{name}: left out.[/] {error}")
            left_out += 1
            continue
        show(console, f"{name}: {benchmark.__doc__}", findings)
        missed += sum(found.passed is False for found in findings)
        if out is not None:
            write_csv(out / f"{name}.csv", findings, about)
    console.print(f"bars missed: {missed}; benchmarks left out: {left_out}")
    sys.exit(1 if missed and not quick else 0)


if __name__ == "__main__":
    main()
