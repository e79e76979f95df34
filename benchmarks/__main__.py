"""``python -m benchmarks``: run them, show tables, write CSV files; status 1 where a bar is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from rich.console import Console

import reshuffle as rs
from benchmarks import federation, kernel_speed, memory, startup
from benchmarks.report import Finding, show, write_csv
from benchmarks.timing import environment

Benchmark = Callable[[bool], Iterable[Finding]]
BENCHMARKS: dict[str, Benchmark] = {
    "a9a": kernel_speed.a9a,
    "large": kernel_speed.large,
    "dense": kernel_speed.dense,
    "multinomial": kernel_speed.multinomial,
    "federation": federation.federation,
    "memory": memory.memory,
    "startup": startup.startup,
    "first-epoch": startup.first_epoch,
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="Run just these.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for a CSV file of each.")
@click.option("--quick", is_flag=True, help="Smaller data, fewer rounds: a look, not a verdict.")
def main(only: tuple[str, ...], out: Path | None, quick: bool) -> None:
    """Measure the foundations against their bars."""
    console, missed, left_out = Console(), 0, 0
    about = environment()
    console.print(", ".join(f"{name} {value}" for name, value in about.items()))
    for name in only or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        try:
            findings = list(benchmark(quick))
        except (rs.InputError, OSError, NotImplementedError) as error:
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
