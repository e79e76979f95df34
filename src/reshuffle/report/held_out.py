"""Scores of a model on rows that it has not seen, compared with a constant prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.numbers import explained_deviance

BINS = 10
"""At most this many groups of rows are compared with their predicted probability."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The scores of the model, those of a constant prediction, and the values from which pictures are drawn."""

    rows: int
    scores: dict[str, float]
    constant: dict[str, float]
    """The scores of the best constant prediction, on the same rows."""
    true: AnyArray
    predicted: AnyArray
    probabilities: NDArray[np.float64] | None = None
    classes: AnyArray | None = None

    def by_class(self) -> list[tuple[str, int, float, float, float]]:
        """For each class: its name, its rows, and the precision, recall and F1 score of predicting it.

        With t rows of the class, p rows predicted as it and b rows that are both, precision is b/p (NaN where nothing
        is predicted so), recall b/t (NaN if there is no such row) and F1 2b/(p + t).
        """
        found = []
        for one in () if self.classes is None else self.classes:
            is_so, said = self.true == one, self.predicted == one
            t, p, both = (int(np.count_nonzero(a)) for a in (is_so, said, is_so & said))
            nan = float("nan")
            f1 = 2 * both / (p + t) if p + t else nan
            found.append((str(one), t, both / p if p else nan, both / t if t else nan, f1))
        return found


def held_out_numbers(
    model: Linear,
    X: object,
    y: AnyArray,
    trained_on: AnyArray,
    known: Mapping[str, AnyArray],
) -> HeldOut | None:
    """Scores on these rows, with their offset and exposure if there are any; None if there are no rows."""
    if not y.size:
        return None
    predicted = model.predict(X, **known)
    proba = model.predict_proba(X, **known) if hasattr(model, "predict_proba") else None
    return scored(model, y, predicted, proba, trained_on, shift_of(known))


def shift_of(known: Mapping[str, AnyArray]) -> NDArray[np.float64] | None:
    """The part of the margins that comes from offset and exposure."""
    if not known:
        return None
    offset, exposure = known.get("offset", 0.0), known.get("exposure", 1.0)
    return np.asarray(offset + np.log(exposure), dtype=np.float64)


def scored(
    model: Any,
    y: AnyArray,
    predicted: AnyArray,
    proba: AnyArray | None,
    trained_on: AnyArray,
    shift: NDArray[np.float64] | None = None,
) -> HeldOut:
    """Scores of a model's predictions, of classes or of numbers; ``trained_on`` are the targets that give the constant.

    Where the loss is half of a deviance, D², the share of it that is explained, comes first; ``shift`` is what offsets
    and exposures add to the margins. A model of the logarithm is also judged by the R² of that: in its own units a few large targets decide.
    """
    classes: AnyArray | None = getattr(model, "classes_", None)
    if classes is not None:
        return _classes(y, predicted, proba, classes, trained_on)
    scores, constant = (_errors(y, guess) for guess in (predicted, trained_on.mean()))
    if getattr(model.loss_, "log_link", False):
        mean = np.full(y.size, max(float(trained_on.mean()), np.finfo(float).tiny))
        scores = {"D²": explained_deviance(model.loss_, y, predicted, None, shift)} | scores
        constant = {"D²": explained_deviance(model.loss_, y, mean, None, shift)} | constant
    if getattr(model, "log_target_", False) and y.min() > 0:
        for found, guess in ((scores, np.log(predicted)), (constant, np.log(trained_on).mean())):
            if "R²" in (of_log := _errors(np.log(y), guess)):
                found["R² of the logarithm"] = of_log["R²"]
    return HeldOut(y.size, scores, constant, y, predicted)


def _classes(
    y: AnyArray,
    predicted: AnyArray,
    proba: AnyArray | None,
    classes: AnyArray,
    trained_on: AnyArray,
) -> HeldOut:
    from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

    counts = np.array([np.count_nonzero(trained_on == c) for c in classes])
    usual = classes[np.argmax(counts)]
    scores = {"accuracy": float(np.mean(predicted == y))}
    constant = {"accuracy": float(np.mean(y == usual))}
    if np.unique(y).size > 1:
        scores["balanced accuracy"] = float(balanced_accuracy_score(y, predicted))
        constant["balanced accuracy"] = 1.0 / np.unique(y).size
    if proba is not None:
        flat = np.tile(counts / counts.sum(), (y.size, 1))
        scores["log loss"] = float(log_loss(y, proba, labels=classes))
        constant["log loss"] = float(log_loss(y, flat, labels=classes))
        if classes.size == 2 and np.unique(y).size == 2:
            scores["area under the ROC curve"] = float(roc_auc_score(y == classes[1], proba[:, 1]))
            constant["area under the ROC curve"] = 0.5
    return HeldOut(y.size, scores, constant, y, predicted, proba, classes)


def _errors(y: AnyArray, guess: AnyArray) -> dict[str, float]:
    error, spread = y - guess, np.sum((y - y.mean()) ** 2)
    found = {"R²": float(1.0 - np.sum(error**2) / spread)} if spread > 0 else {}
    found["root mean squared error"] = float(np.sqrt(np.mean(error**2)))
    found["mean absolute error"] = float(np.mean(np.abs(error)))
    found["median absolute error"] = float(np.median(np.abs(error)))
    return found


def calibrated(held: HeldOut) -> tuple[Array, Array, Array]:
    """Predicted probabilities in bins of equally many rows, the observed frequencies, and the numbers of rows.

    The probabilities are those of the second class if there are two classes, otherwise those of the predicted class.
    """
    if held.probabilities is None or held.classes is None:
        raise ValueError("this model has no probabilities")
    if held.classes.size == 2:
        said, found = held.probabilities[:, 1], held.true == held.classes[1]
    else:
        said, found = held.probabilities.max(axis=1), held.true == held.predicted
    order = np.argsort(said, kind="stable")
    parts = [p for p in np.array_split(order, min(BINS, max(1, said.size // 5))) if p.size]
    means = [(said[p].mean(), found[p].mean(), p.size) for p in parts]
    return tuple(map(np.array, zip(*means, strict=True)))  # type: ignore[return-value]
