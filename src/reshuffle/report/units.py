"""Describes in plain words the change of a feature to which its coefficient refers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from reshuffle.estimators.folds import readable
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import loss_word
from reshuffle.estimators.summary import dense


class Unit(NamedTuple):
    """The change of a feature to which its coefficient refers."""

    short: str
    """A short form, for use beside the feature's name; empty if the unit is unknown."""
    rise: str
    """A longer form, to be used in a sentence."""


def columns_of(model: object) -> Sequence[Any]:
    """The columns of the table that a model was fitted to; empty for other data."""
    found: Sequence[Any] = getattr(getattr(model, "encoding_", None), "columns", ())
    return found


def standardised(columns: Sequence[Any]) -> bool:
    """Whether columns of numbers were brought to a common scale."""
    return any(getattr(part, "scale", 1.0) != 1.0 for part in columns)


def units(model: object, names: Sequence[str]) -> list[Unit]:
    """For each feature, the change to which its coefficient refers."""
    if not columns_of(model):
        return [Unit("", f"a rise of {name} by 1") for name in names]
    found: list[Unit] = []
    for part in columns_of(model):
        name = names[len(found)]
        if hasattr(part, "levels"):
            own = names[len(found) :][: len(part.levels)]
            found += [Unit("1 if so, else 0", f"{n}, compared with a row without it,") for n in own]
        elif part.scale != 1.0:
            by = f"{readable(part.scale)}{' days' if part.date else ''}"
            rise = f"a rise of {name} by {by} (one standard deviation)"
            found.append(Unit(f"per {by} (1 s.d.)", rise))
        else:
            short = "per day" if part.date else "per unit"
            found.append(Unit(short, f"a rise of {name} by 1{' day' if part.date else ''}"))
    return found


def meaning(model: Linear, unit: Unit, value: float) -> str:
    """A coefficient as a sentence: how the prediction changes with its feature."""
    classes = getattr(model, "classes_", None)
    word = loss_word(model.loss_)
    begin, times = f"For example, {unit.rise}", readable(float(np.exp(min(value, 700.0))))
    if classes is not None and word == "logistic":
        return f"{begin} adds {value:.3g} to the log-odds of {classes[1]}, which multiplies its odds by {times}."
    if classes is not None:
        return f"{begin} adds {value:.3g} to the score; scores above zero mean {classes[1]}."
    if of := _logarithm(model):
        return f"The model is one of the logarithm of {of}. {begin} multiplies the prediction by {times}."
    return f"{begin} adds {readable(value)} to the prediction."


def _logarithm(model: Linear) -> str:
    """The quantity whose logarithm the model predicts linearly, or None."""
    if getattr(model, "log_target_", False):
        return "the target"
    return "the mean of the target" if getattr(model.loss_, "log_link", False) else ""


def intercept(model: Linear) -> str:
    """The constant term, and the feature values at which the prediction equals it."""
    values = np.atleast_1d(dense(model.intercept_))
    if not model.fit_intercept:
        return "There is no intercept: where all features are zero, so is the score."
    columns = columns_of(model)
    scaled = standardised(columns)
    where = "every column of numbers is at its mean" if scaled else "every number is zero"
    if any(hasattr(part, "levels") for part in columns):
        where += " and no category applies"
    if values.size == 1:
        said = f"The intercept is {readable(float(values[0]), 4)}"
    else:
        names = getattr(model, "classes_", range(values.size))
        some = [f"{name} {value:.3g}" for name, value in list(zip(names, values, strict=True))[:12]]
        said = f"The intercepts are {', '.join(some)}{', …' if values.size > 12 else ''}"
    what = "the score" if hasattr(model, "classes_") else "the prediction"
    what = f"the logarithm of {what}" if _logarithm(model) else what
    return f"{said}: {what} where {where}."
