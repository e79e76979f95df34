"""``reshuffle fit --privacy``: makes the solver, and refuses settings that would use the data without noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reshuffle.cli.fitting import Choices
from reshuffle.cli.private import Private
from reshuffle.datasets import Data, Reading
from reshuffle.errors import InputError
from reshuffle.privacy import Guarantee
from reshuffle.solvers import ProxRR

HELD_OUT = "rows that were held out are not protected, nor are their scores"


def private_solver(private: Private, reading: Reading, choices: Choices, cv: bool) -> ProxRR:
    """ProxRR with these settings; options that would reveal data without noise are refused."""
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
