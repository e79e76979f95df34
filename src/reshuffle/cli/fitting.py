"""From options to a model: whether a target is of classes or of numbers, which rows are held out, which estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.datasets import Data, Reading, load_data
from reshuffle.errors import InputError
from reshuffle.estimators import RRClassifier, RRClassifierCV, RRRegressor, RRRegressorCV
from reshuffle.estimators.early_stopping import held_out
from reshuffle.estimators.loss_names import OF_CLASSES
from reshuffle.estimators.summary import dense
from reshuffle.labels import as_written

CLASSES = 20
"""Whole numbers with at most this many values are taken for classes, unless a loss of numbers is given."""


@dataclass(frozen=True)
class Choices:
    """What to fit."""

    loss: str | None = None
    penalty: str | None = None
    l1: float | None = None
    l2: float | None = None
    l1_ratio: float = 0.5
    class_weight: str | None = None
    positive: bool = False
    intercept: bool = True
    solver: str = "exact"
    tol: float = 1e-10
    epochs: int = 1000
    holdout: float = 0.2
    seed: int = 0
    lambdas: int = 50
    smallest: float = 1e-3
    folds: int = 5
    rule: str = "1se"


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to learn from, rows held out, and what is to be predicted."""

    X: Any
    y: NDArray[Any]
    held_X: Any
    held_y: NDArray[Any]
    classes: bool
    loss: str

    @property
    def held(self) -> int:
        return int(self.held_y.size)


def data_of(file: str, reading: Reading, choices: Choices) -> Data:
    """The data of a file; rows that are held out have no say in how a table is encoded."""
    return load_data(file, reading, lambda y: _split(y, choices)[0])


def task_of(data: Data, choices: Choices) -> Task:
    """The rows, split; the target as labels or numbers."""
    classes = are_classes(data.y, choices.loss)
    loss = choices.loss or ("logistic" if classes else "squared")
    y = labels(data.y) if classes else _numbers(data.y, loss)
    rows, held = _split(data.y, choices)
    return Task(data.X[rows], y[rows], data.X[held], y[held], classes, loss)


def _split(y: NDArray[Any], choices: Choices) -> tuple[Any, Any]:
    """Rows to learn from, and rows held out."""
    if not choices.holdout:
        return slice(None), slice(0)
    classes = are_classes(y, choices.loss)
    codes = np.unique(y, return_inverse=True)[1] if classes else None
    most = y.size if codes is None else int(np.bincount(codes).max())
    if most < 2:
        of = " of a class" if classes else ""
        raise InputError(
            f"--holdout {choices.holdout:g} needs two rows{of} or more, to learn from one and be judged by the other; "
            "give --holdout 0 to learn from all"
        )
    return held_out(y.size, codes, float(choices.holdout), choices.seed)


def are_classes(y: NDArray[Any], loss: str | None) -> bool:
    """Whether a target is of classes: as the loss says; else texts, and few whole numbers."""
    if loss is not None:
        return loss in OF_CLASSES
    if y.dtype.kind not in "fiub":
        return True
    values = np.unique(y[: 10 * CLASSES])
    if values.size > CLASSES or np.any(values != np.rint(values)):
        return False
    values = np.unique(y)
    return values.size <= CLASSES and bool(np.all(values == np.rint(values)))


def labels(y: NDArray[Any]) -> NDArray[Any]:
    """Labels as they were written: whole numbers without a point."""
    return as_written(y)


def _numbers(y: NDArray[Any], loss: str) -> NDArray[np.float64]:
    if y.dtype.kind not in "fiub":
        raise InputError(
            f"--loss {loss} is for numbers, and the target holds texts, like {str(y[0])!r}; "
            "--loss logistic takes them for classes"
        )
    return y.astype(np.float64)


def estimator(task: Task, choices: Choices, callbacks: Any = None) -> Any:
    """One model at a given strength."""
    l1, l2 = choices.l1, choices.l2
    named = "elasticnet" if l1 and l2 else "l1" if l1 else "l2"
    options = _shared(task, choices) | {
        "penalty": choices.penalty or named, "l1": l1, "l2": l2, "callbacks": callbacks,
    }  # fmt: skip
    return RRClassifier(**options) if task.classes else RRRegressor(**options)


def cross_validated(task: Task, choices: Choices) -> Any:
    """The model of a path that does best on held-out folds."""
    if choices.l1 is not None or choices.l2 is not None:
        raise InputError("--l1 and --l2 are found by cross-validation here: leave them out")
    penalty = choices.penalty or "l1"
    if penalty not in ("l1", "elasticnet"):
        raise InputError(f"a path goes down from the λ that holds every feature at zero: --penalty l1 or elasticnet, got {penalty}")  # fmt: skip
    if choices.folds > task.y.size:
        rows = f"{task.y.size} row{'s' if task.y.size > 1 else ''} to learn from"
        raise InputError(f"--folds {choices.folds} asks for more parts than there are rows: there are {rows}")  # fmt: skip
    options = _shared(task, choices) | {
        "penalty": penalty, "l1_ratio": choices.l1_ratio, "lambdas": choices.lambdas,
        "smallest": choices.smallest, "cv": choices.folds, "rule": choices.rule, "n_jobs": -1,
    }  # fmt: skip
    return RRClassifierCV(**options) if task.classes else RRRegressorCV(**options)


def _shared(task: Task, choices: Choices) -> dict[str, Any]:
    options: dict[str, Any] = {
        "loss": task.loss, "positive": choices.positive, "fit_intercept": choices.intercept,
        "solver": choices.solver, "max_iter": choices.epochs, "random_state": choices.seed, "tol": choices.tol,
    }  # fmt: skip
    if choices.class_weight is not None:
        if not task.classes:
            raise InputError("--class-weight is for classes, and the target is taken for numbers")
        options["class_weight"] = choices.class_weight
    return options


def counting(data: Data) -> list[str]:
    """Columns of numbers that go up by the same amount from row to row."""
    found, start = [], 0
    for part in getattr(data.encoding, "columns", ()):
        if not hasattr(part, "levels") and data.X.shape[0] > CLASSES:
            steps = np.diff(dense(data.X[:, [start]]).ravel())
            if steps[0] and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0):
                found.append(part.name)
        start += len(part.features)
    return found


def equip(model: Any, data: Data) -> Any:
    """What a model file says beside the coefficients: names, and how rows come from a file."""
    model.encoding_ = data.encoding
    if hasattr(data.encoding, "columns"):
        model.feature_names_in_ = np.array(data.encoding.feature_names, dtype=object)
    return model
