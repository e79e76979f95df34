"""The command ``reshuffle``: thin, and quick to start; each command imports what it needs."""

from __future__ import annotations

from pathlib import Path

import click

from reshuffle import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="reshuffle")
def main() -> None:
    """Regularised learning with shuffled data: one proximal step for many gradient steps."""


@main.command()
@click.option("--epochs", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reshuffle-demo"),
    show_default=True,
    help="Folder for the figure and the traces.",
)
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def demo(epochs: int, seed: int, out: Path, no_progress: bool) -> None:
    """Fit an elastic-net logistic model on breast-cancer data with the paper's methods.

    Prints a table and writes a figure: the gap to the minimum against passes over the data and
    against evaluations of the prox.
    """
    from reshuffle.cli.demo import run

    run(epochs=epochs, seed=seed, out=out, progress=not no_progress)
