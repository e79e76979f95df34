"""Options of several commands, and the objects made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reshuffle.cli.common import Command, Folder, together

if TYPE_CHECKING:
    from reshuffle.cli.fitting import Choices
    from reshuffle.datasets import Reading

    TextType = click.ParamType[str, str]
else:
    TextType = click.ParamType  # generic since click 8.4


class LossName(TextType):
    """The name of a loss, optionally with parameters, such as tweedie(1.7)."""

    name = "loss"

    def get_metavar(self, *_: object, **__: object) -> str:
        from reshuffle.losses.names import OF_CLASSES, OF_NUMBERS

        return f"[{'|'.join((*OF_CLASSES, *OF_NUMBERS))}]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        from reshuffle.errors import InputError
        from reshuffle.losses.names import OF_CLASSES, OF_NUMBERS, loss_by_name

        try:
            loss_by_name(str(value), OF_CLASSES | OF_NUMBERS)
        except InputError as error:
            self.fail(str(error), param, ctx)
        return str(value).strip()


LOSSES = LossName()
FORMATS = click.Choice(["csv", "parquet", "libsvm", "npz"])
ENGINES = click.Choice(["threads", "ray"])
COUNT = click.IntRange(min=1)
SEED = click.IntRange(min=0)
STRENGTH = click.FloatRange(min=0.0)
POSITIVE = click.FloatRange(min=0.0, min_open=True)
SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)


def flag(name: str, told: str) -> Callable[[Command], Command]:
    """An option without a value."""
    return click.option(name, is_flag=True, help=told)


def columns(*names: str, told: str) -> Callable[[Command], Command]:
    """An option that names a column, and may be given for several."""
    return click.option(*names, multiple=True, metavar="COLUMN", help=f"{told} May be repeated.")


def out_option(
    folder: str, told: str = "Folder for model and report."
) -> Callable[[Command], Command]:
    """The option ``--out``, a folder."""
    return click.option("--out", type=Folder(), default=Path(folder), help=told)


file_options = together(
    click.option("--format", type=FORMATS, help="Format of FILE.  [default: detected from its name and first bytes]"),
    click.option("--separator", help="Character between the values of a CSV file.  [default: comma; tab in .tsv]"),
)  # fmt: skip
table_options = together(
    click.option("--target", "-t", help="The column to predict. For NPZ: a member, or a file of targets."),
    file_options,
    flag("--no-header", "The first line holds values; columns are c1, c2, …"),
    columns("--drop", told="Leave a column out."),
    columns("--categorical", told="Take every value of a column as a category."),
    click.option("--missing", multiple=True, metavar="TEXT", help="A further text that stands for no value, as an empty cell, NA, N/A, NaN, null and ? do. May be repeated."),
    flag("--impute", "Fill in missing values: the median, or the most frequent category."),
    columns("--date", "dates", told="Take the dates of a column (2024-01-31 or 2024/01/31) as days since 1970-01-01."),
    flag("--drop-missing-target", "Leave out rows whose target has no value; the report counts them."),
    flag("--raw", "Leave columns of numbers in their units. By default those of a table are brought to mean 0 and standard deviation 1, so that the penalty treats them alike."),
)  # fmt: skip
penalty_options = together(
    click.option("--l1", type=STRENGTH, help="Strength λ1 of ‖w‖₁."),
    click.option("--l2", type=STRENGTH, help="Strength λ2 of ‖w‖²/2.  [default: 1e-4]"),
)
rows_options = together(
    click.option("--groups", metavar="COLUMN", help="Rows with the same value of this column are held out together. It is no feature."),
    click.option("--time", metavar="COLUMN", help="Hold out the latest rows, and let folds learn from the rows before those they are judged by. It is no feature, unless --date names it too."),
    click.option("--offset", metavar="COLUMN", help="Add the numbers of this column to the margins, as they are. It is no feature."),
    click.option("--exposure", metavar="COLUMN", help="Years under risk and the like, of a loss with a log link: the logarithm of this column is added to the margins. It is no feature."),
    flag("--log-target", "Fit the logarithm of a positive target; predictions are in its own units again."),
)  # fmt: skip
intercept_option = flag("--no-intercept", "Fit no constant term.")
model_options = together(
    click.option("--loss", type=LOSSES, help="The loss of a sample; parameters may follow its name: tweedie(1.7).  [default: logistic for classes, squared for numbers]"),
    click.option("--class-weight", type=click.Choice(["balanced"]), help="Give each class the same weight."),
    flag("--positive", "Let no coefficient be negative."),
    intercept_option,
    click.option("--holdout", type=click.FloatRange(0.0, 1.0, max_open=True), default=0.2, help="Share of rows to judge the model by; 0 to learn from all."),
    click.option("--tol", type=STRENGTH, default=1e-10, help="Relative accuracy of the objective at which to stop."),
    click.option("--epochs", type=COUNT, default=1000, help="The most passes over the data."),
    click.option("--seed", type=SEED, default=0, help="Draws held-out rows, folds and the orders of rows."),
)  # fmt: skip
path_options = together(
    click.option("--l1-ratio", type=click.FloatRange(0.0, 1.0, min_open=True), default=0.5, help="Share of ℓ1 in the elastic net along a path."),
    click.option("--lambdas", type=click.IntRange(min=2), default=50, help="How many strengths λ a path has."),
    click.option("--smallest", type=SHARE, default=1e-3, help="The smallest λ of a path, as a share of the largest."),
    click.option("--folds", type=click.IntRange(min=2), default=5, help="Parts of the rows, drawn by --seed with the same share of each class; see --groups and --time."),
    click.option("--rule", type=click.Choice(["1se", "min"]), default="1se", help="Take the largest λ within one standard error of the best, or the λ with the lowest held-out loss."),
)  # fmt: skip


def reading_and_choices(options: dict[str, Any]) -> tuple[Reading, Choices, dict[str, Any]]:
    """The options about the file, those about the model, and the others."""
    from reshuffle.cli.fitting import Choices

    reading, others = reading_of(options)
    if "no_intercept" in others:
        others["intercept"] = not others.pop("no_intercept")
    of_model = {f.name for f in fields(Choices)} & set(others)
    return reading, Choices(**{name: others.pop(name) for name in of_model}), others


def reading_of(options: dict[str, Any]) -> tuple[Reading, dict[str, Any]]:
    """The options about the file as a ``Reading``, and the other options."""
    from reshuffle.datasets import Reading
    from reshuffle.datasets.chunks import MISSING

    aside = map(options.get, ("groups", "time", "offset", "exposure"))
    others = options | {
        "separator": separator_of(options["separator"]),
        "header": not options.get("no_header"),
        "standardise": not options.get("raw"),
        "aside": tuple(dict.fromkeys(filter(None, aside))),
        "missing": (*MISSING, *options.get("missing", ())),
    }
    for name in ("no_header", "raw"):
        others.pop(name, None)
    of_file = {f.name for f in fields(Reading)} & set(others)
    return Reading(**{name: others.pop(name) for name in of_file}), others


def separator_of(given: str | None) -> str | None:
    """Check that the separator is one character; a tab may be written as \\t."""
    found = {"\\t": "\t", "tab": "\t"}.get(given or "", given)
    if found is not None and len(found) != 1:
        raise click.UsageError(f"--separator must be one character, got {given!r}")
    return found
