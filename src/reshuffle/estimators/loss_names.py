"""Losses by name, and the mean of the target at a margin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
from scipy.special import expit, ndtr, softmax

from reshuffle import losses
from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.losses import Loss, check_loss
from reshuffle.losses.names import OF_CLASSES as OF_CLASSES
from reshuffle.losses.names import OF_MORE as OF_MORE
from reshuffle.losses.names import OF_NUMBERS as OF_NUMBERS
from reshuffle.losses.names import loss_by_name, split_name

Mean = Callable[[Array], Array]


def some_event(z: Array) -> Array:
    """1 - exp(-exp(z))."""
    with np.errstate(over="ignore"):  # exp(-inf) is 0, as it should be
        probability: Array = -np.expm1(-np.exp(z))
    return probability


MEANS: dict[type[Loss], Mean] = {
    losses.Logistic: expit, losses.Multinomial: partial(softmax, axis=1), losses.Probit: ndtr,
    losses.ComplementaryLogLog: some_event,
}  # fmt: skip
MEANS |= {kind: np.exp for kind in losses.LOSSES if kind.log_link}
"""E[y] at a margin, for losses that stand for a distribution."""


def loss_word(loss: object) -> str:
    """The name of a loss for an estimator or the command.

    The logistic loss of more than two classes (multinomial) has the same name as that of two.
    """
    kinds = OF_CLASSES | OF_NUMBERS | {"logistic": losses.Logistic, "squared": losses.Squared}
    names = {kind.__name__: name for name, kind in reversed(kinds.items())}
    names |= {new.__name__: names[old.__name__] for old, new in OF_MORE.items()}
    names["SquaredOutputs"] = names["Squared"]
    return names.get(type(loss).__name__, repr(loss))


def loss_words(loss: object) -> str:
    """The name of a loss with its parameters, if it has any."""
    word = loss_word(loss)
    if word == repr(loss) or not is_dataclass(loss):
        return word
    given = [f"{f.name} = {getattr(loss, f.name):g}" for f in fields(loss)]
    return f"{word} ({', '.join(given)})" if given else word


def loss_of(given: object, names: dict[str, type[Loss]]) -> Loss:
    """A loss by its name, or the user's own."""
    if not isinstance(given, str):
        if isinstance(given, type):
            raise InputError(f"loss must be an instance, got the class {given.__name__}")
        return check_loss(given)
    return loss_by_name(given, names)


def loss_of_classes(given: object, count: int) -> Loss:
    """The loss for this many classes."""
    loss = loss_of(given, OF_CLASSES)
    if loss.targets in ("real", "counts", "positive"):
        raise InputError(f"loss must be one for classes, got {loss!r}, which is for numbers")
    if count > 2 and loss.targets == "signs":
        several = OF_MORE.get(type(loss))
        if several is None:
            raise InputError(
                "Only binary classification is supported by this loss. The type of the target is multiclass: "
                f"y has {count} classes, and {loss!r} takes two; use loss='logistic', or "
                "sklearn.multiclass.OneVsRestClassifier"
            )
        return several()
    if count == 2 and loss.vector:
        raise InputError(f"y has two classes, and {loss!r} is for more; use loss='logistic'")
    return loss


def takes_more_classes(given: object) -> bool:
    """Whether a loss, given by name or as an object, takes three classes."""
    kind = OF_CLASSES.get(split_name(given)[0]) if isinstance(given, str) else type(given)
    return kind is None or kind in OF_MORE or getattr(kind, "vector", False)


def has_probabilities(given: object) -> bool:
    """Whether a loss, given by name or as an object, has class probabilities."""
    kind = OF_CLASSES.get(split_name(given)[0]) if isinstance(given, str) else type(given)
    return kind in MEANS or hasattr(kind, "mean")


def mean_of(loss: Loss) -> Mean | None:
    """E[y] at a margin: ``mean(z)`` of the loss if it has one, otherwise a known formula."""
    own: Mean | None = getattr(loss, "mean", None)
    return own or MEANS.get(type(loss))
