"""The commands for people with data: ``fit``, ``path``, ``predict``, ``export``, ``compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from reshuffle.cli.common import output_options
from reshuffle.cli.options import (
    COUNT,
    LOSSES,
    SHARE,
    columns,
    file_options,
    flag,
    intercept_option,
    model_options,
    out_option,
    path_options,
    penalty_options,
    reading_and_choices,
    reading_of,
    rows_options,
    table_options,
)
from reshuffle.cli.private import Private, privacy_options, private_solver

FITTED = click.Path(exists=True, dir_okay=False)


@click.command()
@click.argument("file")
@table_options
@click.option(
    "--penalty",
    type=click.Choice(["l1", "l2", "elasticnet", "group", "none"]),
    help="group: whole columns are kept or left out, with strength --l1.  [default: by --l1 and --l2; l2]",
)
@penalty_options
@rows_options
@model_options
@click.option(
    "--solver",
    type=click.Choice(["exact", "proxrr", "proxsgd", "fista"]),
    default="exact",
    help="exact goes to the minimum; the others are the paper's methods and the deterministic reference.",
)
@click.option(
    "--device", type=click.Choice(["cuda"]), help="Fit on the graphics card of this computer."
)
@privacy_options("sample")
@flag("--cv", "Find the strength by cross-validation, as `path` does.")
@path_options
@out_option("reshuffle-fit")
@output_options
def fit(**options: Any) -> int:
    """Fit a model to a table; write it with a report.

    FILE is a CSV or Parquet table, LIBSVM text, or a sparse matrix (NPZ), also packed (.gz, .bz2, .xz); "-" is
    standard input; a name like a9a is a known data set. Text columns become one feature per category. Labels and
    whole numbers of few values are classes, other targets numbers, unless --loss says otherwise. Ctrl-C ends the
    fit and writes the model so far.

    \b
    Examples:
      reshuffle fit passengers.csv --target survived
      reshuffle fit houses.parquet -t price --l1 0.01 --impute
      reshuffle fit a9a --cv --out a9a-model
      zcat big.svm.gz | reshuffle fit - --loss squared_hinge --json
      reshuffle fit policies.csv -t claims --loss poisson --exposure years
      reshuffle fit a9a --privacy sample --clip 1 --epsilon 2 --delta 1e-5 --step 2 --batch-size 500 --epochs 20
    """
    from reshuffle.cli.fit import run

    private = Private.taken(options)
    reading, choices, options = reading_and_choices(options)
    if private.level() is not None or private.step or private.batch_size:
        solver = private_solver(private, reading, choices, options["cv"])
        choices = replace(choices, solver=solver)
    return run(reading=reading, choices=choices, path=False, **options)


@click.command()
@click.argument("file")
@table_options
@click.option("--penalty", type=click.Choice(["l1", "elasticnet", "group"]), default="l1",
              help="group: whole columns are kept or left out.")  # fmt: skip
@rows_options
@model_options
@path_options
@out_option("reshuffle-path")
@output_options
def path(**options: Any) -> int:
    """Choose the strength of the penalty by cross-validation.

    Fits many strengths, from no feature to many. Writes the chosen model and a report with the path, drawn by name, and the loss of rows left out. FILE and its
    options are those of `reshuffle fit`.

    \b
    Examples:
      reshuffle path passengers.csv --target survived
      reshuffle path genes.csv -t outcome --penalty elasticnet --l1-ratio 0.9 --folds 10
      reshuffle path a9a --lambdas 30 --rule min --json
    """
    from reshuffle.cli.fit import run

    reading, choices, options = reading_and_choices(options)
    return run(reading=reading, choices=choices, cv=True, path=True, **options)


@click.command()
@click.argument("model", type=FITTED)
@click.argument("file")
@flag("--proba", "The probability of each class as well.")
@click.option(
    "--out", type=click.Path(dir_okay=False), help="File to write.  [default: standard output]"
)
@columns("--keep", told="Write this column of FILE in front of the predictions.")
@flag("--score", "Score the predictions, if FILE holds the target.")
@click.option("--offset", metavar="COLUMN", help="A column of FILE that is added to the margins.")
@click.option(
    "--exposure",
    metavar="COLUMN",
    help="A column of FILE whose logarithm is added to the margins: predictions are totals.",
)
@file_options
@output_options
def predict(**options: Any) -> None:
    """Predict the rows of a file with a fitted model.

    MODEL is what `reshuffle fit`, `path` or `federate` wrote. Columns are found by name, in any order; others, the target among them, are passed over. Rows are read and
    written some at a time, so that FILE may be larger than memory, or "-" for standard input. The output is CSV
    with a header; with --json, one JSON object on each line. Scores (--score) go to standard error, or to standard output
    where predictions go to a file; rows without a target are predicted, counted, and not scored.

    \b
    Examples:
      reshuffle predict reshuffle-fit/model.npz new.csv
      reshuffle predict reshuffle-fit/model.npz new.csv --keep id --score --out predictions.csv
      reshuffle predict reshuffle-fit/model.npz new.csv --proba --out predictions.csv
      zcat new.csv.gz | reshuffle predict reshuffle-fit/model.npz - | head
    """
    from reshuffle.cli.predict import run

    reading, options = reading_of(options)
    run(reading=reading, **options)


@click.command()
@click.argument("model", type=FITTED)
@click.option(
    "--onnx",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write.",
)
@click.option(
    "--rows",
    metavar="FILE",
    help="Rows to check the graph with.  [default: rows that are made up]",
)
@file_options
@output_options
def export(**options: Any) -> None:
    """Write a fitted model as one ONNX graph.

    The graph holds the encoder too. It takes the columns of the table, each of shape (rows, 1): numbers, with NaN where one is missing, and texts, with ""
    where one is missing. It is run beside `reshuffle predict` before it is written, on your rows or on made-up ones.

    \b
    Examples:
      reshuffle export reshuffle-fit/model.npz --onnx model.onnx --rows passengers.csv
    """
    from reshuffle.cli.export import run

    reading, options = reading_of(options)
    run(reading=reading, **options)


@click.command()
@click.argument("file")
@table_options
@click.option(
    "--method",
    "names",
    multiple=True,
    type=click.Choice(["exact", "proxrr", "proxso", "rr", "proxsgd", "fista"]),
    default=("exact", "proxrr", "proxsgd", "fista"),
    help="May be repeated.",
)
@click.option(
    "--loss",
    type=LOSSES,
    help="The loss of a sample.  [default: logistic for classes, squared for numbers]",
)
@penalty_options
@intercept_option
@click.option("--epochs", type=COUNT, default=50, help="The most passes of a run.")
@click.option("--seeds", type=COUNT, default=3, help="How many runs of each method.")
@click.option(
    "--accuracy",
    type=SHARE,
    default=1e-3,
    help="Show what it costs to reduce the initial gap to this share of it.",
)
@click.option(
    "--workers",
    type=COUNT,
    default=1,
    help="Number of processes; with more than one, seconds are less comparable.",
)
@out_option("reshuffle-compare")
@output_options
def compare(**options: Any) -> None:
    """Compare several methods on your own data.

    Writes a page with a table and pictures. Finished runs are kept in the folder: more seeds or methods later make only the new ones. FILE and its options are
    those of `reshuffle fit`; all rows are used.

    \b
    Examples:
      reshuffle compare passengers.csv --target survived
      reshuffle compare a9a --l1 0.001 --method exact --method proxrr --seeds 5
      reshuffle compare a9a --epochs 20 --accuracy 1e-6 --json
    """
    from reshuffle.cli.compare import run

    reading, choices, options = reading_and_choices(options | {"holdout": 0.0})
    run(reading=reading, choices=choices, **options)
