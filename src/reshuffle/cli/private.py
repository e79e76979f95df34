"""Differential privacy: its settings, from options or the table [privacy] of a sites.toml, and what they refuse in a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from reshuffle.cli.common import Command, together

if TYPE_CHECKING:
    from reshuffle.cli.fitting import Choices
    from reshuffle.datasets import Data, Reading
    from reshuffle.privacy import Guarantee, Level
    from reshuffle.solvers import ProxRR

NAMES = ("clip", "noise", "epsilon", "delta", "noise_at")
"""Settings of a level, which are also the names of options."""
HELD_OUT = "rows that were held out are not protected, nor are their scores"


def privacy_options(*units: str) -> Callable[[Command], Command]:
    """The options of differential privacy for these protected units."""
    at = click.option(
        "--noise-at", type=click.Choice(["sites", "driver"]),
        help="For clients: each site adds its share of the noise, or the driver adds all.  [default: driver]",
    )  # fmt: skip
    return together(
        click.option("--privacy", "unit", type=click.Choice(list(units)),
                     help="The unit that differential privacy hides; needs --step, --clip, --delta, and --epsilon or --noise."),
        click.option("--clip", type=float, help="C, the most that one unit may add to a sum (Euclidean norm)."),
        click.option("--epsilon", type=float, help="ε of the whole run; the noise is computed from it."),
        click.option("--noise", type=float, help="z, in place of --epsilon: each sum gets noise of standard deviation z·C."),
        click.option("--delta", type=float, help="δ of the guarantee, below 1 over the number of units."),
        *([at] if "client" in units else []),
        click.option("--step", type=click.FloatRange(min=0.0, min_open=True), help="Step size γ."),
        click.option("--batch-size", type=click.IntRange(min=1), help="How many samples a step uses.  [default: 1]"),
    )  # fmt: skip


@dataclass(frozen=True)
class Private:
    """The options about privacy and the steps of a private method."""

    unit: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    step: float | None = None
    batch_size: int | None = None

    @classmethod
    def taken(cls, options: dict[str, Any]) -> Private:
        """Take these options out of all options."""
        settings = {n: v for n in NAMES if (v := options.pop(n, None)) is not None}
        return cls(options.pop("unit"), settings, options.pop("step"), options.pop("batch_size"))

    def level(self, table: Mapping[str, object] | None = None) -> Level | None:
        """The level given by the options or by the table of a file; None if there is neither."""
        from reshuffle.errors import InputError
        from reshuffle.privacy import level_of

        if self.unit is None and self.settings:
            option = next(iter(self.settings)).replace("_", "-")
            raise InputError(f"--{option} is for differential privacy: give --privacy as well")
        if table is not None and self.unit is not None:
            raise InputError(
                "privacy is given by the file's [privacy] and by --privacy: leave one of them out"
            )
        if table is not None:
            return level_of(table)
        return None if self.unit is None else level_of({"unit": self.unit, **self.settings})


def private_solver(private: Private, reading: Reading, choices: Choices, cv: bool) -> ProxRR:
    """ProxRR with these settings; options that would reveal data without noise are refused."""
    from reshuffle.errors import InputError
    from reshuffle.solvers import ProxRR

    level: Any = private.level()
    if level is None:
        raise InputError("--step and --batch-size are for --privacy: other solvers find their own")
    wrong = {
        "--cv": (cv, "to choose the strength by the data has no account of ε: give --l1 or --l2"),
        "--impute": (reading.impute, "medians of columns would be known without noise"),
        "--class-weight": (choices.class_weight, "it counts the classes without noise"),
        "--solver": (choices.solver != "exact", "privacy is that of proxrr, which is taken"),
    }
    for option, (given, reason) in wrong.items():
        if given:
            raise InputError(f"{option} does not go with --privacy: {reason}")
    if private.step is None:
        raise InputError(
            "--privacy needs --step, in numbers, since the default is found from the largest row: for example 0.5 where rows "
            "have norm 1"
        )
    return ProxRR(
        step=private.step, batch_size=private.batch_size or 1, epochs=choices.epochs, seed=choices.seed, privacy=level,
    )  # fmt: skip


def check_public_encoding(data: Data) -> None:
    """Refuse columns whose encoding was learned from the data: categories, means and deviations."""
    from reshuffle.errors import InputError

    for part in getattr(data.encoding, "columns", ()):
        if hasattr(part, "levels"):
            raise InputError(
                f"column {part.name!r} has categories, which would be known without noise: encode it by a known list "
                "beforehand, or leave it out with --drop"
            )
        if getattr(part, "scale", 1.0) != 1.0 or getattr(part, "centre", 0.0) != 0.0:
            raise InputError(
                "columns of numbers are brought to mean 0 and deviation 1, which would be known without noise: give --raw, "
                "and bring them to a common size by known ranges beforehand"
            )


def with_held_out(spent: Guarantee) -> Guarantee:
    """The guarantee of a model that was evaluated on held-out rows."""
    return replace(spent, assumed=(*spent.assumed, HELD_OUT))
