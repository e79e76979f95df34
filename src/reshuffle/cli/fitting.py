"""From options to a model: decides whether the target is classes or numbers, which rows are held out, and which estimator is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, DataMatrix
from reshuffle.cli.common import counted
from reshuffle.cli.splitting import Split, check_log_target, split
from reshuffle.datasets import Data, Reading, load_data
from reshuffle.datasets.numbers import numbers_of
from reshuffle.errors import InputError
from reshuffle.estimators import (
    RRClassifier,
    RRClassifierCV,
    RRRegressor,
    RRRegressorCV,
    TimeFolds,
)
from reshuffle.estimators.base import LinearEstimator
from reshuffle.estimators.cross_validation import CrossValidated
from reshuffle.estimators.loss_names import OF_CLASSES
from reshuffle.estimators.penalty_names import STRENGTH
from reshuffle.estimators.summary import dense
from reshuffle.labels import as_written
from reshuffle.losses.names import split_name
from reshuffle.penalties import GroupLasso, column_groups
from reshuffle.solvers.solver import Solver

CLASSES = 20
"""A target of whole numbers with at most this many distinct values is taken as classes, unless a loss for numbers is given."""


@dataclass(frozen=True)
class Choices:
    """The user's choices of the model and its evaluation."""

    loss: str | None = None
    penalty: str | None = None
    l1: float | None = None
    l2: float | None = None
    l1_ratio: float = 0.5
    class_weight: str | None = None
    positive: bool = False
    intercept: bool = True
    solver: str | Solver = "exact"
    tol: float = 1e-10
    epochs: int = 1000
    holdout: float = 0.2
    seed: int = 0
    lambdas: int = 50
    smallest: float = 1e-3
    folds: int = 5
    rule: str = "1se"
    groups: str | None = None
    time: str | None = None
    log_target: bool = False
    offset: str | None = None
    exposure: str | None = None
    device: str | None = None


@dataclass(frozen=True, eq=False)
class FitTask:
    """The rows to learn from, the rows held out, and the target."""

    X: DataMatrix
    y: AnyArray
    held_X: object
    held_y: AnyArray
    classes: bool
    loss: str
    groups: AnyArray | None = None
    """The groups or the times of the rows to learn from."""
    log_target: bool = False
    columns: AnyArray | None = None
    """The column of each feature, if there are columns."""
    known: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Offset and exposure of the rows to learn from, if there are any."""
    held_known: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Offset and exposure of the held-out rows."""

    @property
    def held(self) -> int:
        return int(self.held_y.size)

    @property
    def fitted_y(self) -> AnyArray:
        """The targets that the model is fitted to; with ``--log-target`` their logarithms."""
        return np.log(self.y) if self.log_target else self.y


def data_of(file: str, reading: Reading, choices: Choices) -> Data:
    """The data of a file; a table's encoding is learned without the held-out rows."""
    return load_data(file, reading, lambda y, aside: rows_of(y, aside, choices).learn)


def task_of(data: Data, choices: Choices) -> FitTask:
    """The rows, split into those to learn from and those held out, with the target as labels or as numbers."""
    classes = _classes(data.y, choices)
    loss = choices.loss or ("logistic" if classes else "squared")
    y = as_written(data.y) if classes else _numbers(data.y, loss)
    if choices.log_target:
        check_log_target(y, classes, loss)
    rows = rows_of(data.y, data.aside, choices)
    groups = None if rows.groups is None else rows.groups[rows.learn]
    given = {"offset": choices.offset, "exposure": choices.exposure}
    known = {o: numbers_of(data.aside[c], f"--{o} {c}") for o, c in given.items() if c}
    columns = column_groups(data.encoding) if hasattr(data.encoding, "columns") else None
    return FitTask(
        data.X[rows.learn], y[rows.learn], data.X[rows.held], y[rows.held], classes, loss,
        groups, choices.log_target, columns,
        {o: v[rows.learn] for o, v in known.items()}, {o: v[rows.held] for o, v in known.items()},
    )  # fmt: skip


def rows_of(y: AnyArray, aside: Mapping[str, AnyArray], choices: Choices) -> Split:
    """Rows to learn from and rows held out: at random, by whole groups, or the latest."""
    classes = _classes(y, choices)
    codes = np.unique(y, return_inverse=True)[1] if classes else None
    return split(y.size, codes, aside, choices.groups, choices.time, choices.holdout, choices.seed)


def _classes(y: AnyArray, choices: Choices) -> bool:
    return are_classes(y, "squared" if choices.log_target and not choices.loss else choices.loss)


def are_classes(y: AnyArray, loss: str | None) -> bool:
    """Whether the target holds classes: decided by the loss if it is given, otherwise true for text and for few distinct whole numbers."""
    if loss is not None:
        return split_name(loss)[0] in OF_CLASSES
    if y.dtype.kind not in "fiub":
        return True
    found = map(np.unique, (y[: 10 * CLASSES], y))  # The first rows often settle it.
    return all(values.size <= CLASSES and np.all(values == np.rint(values)) for values in found)


def _numbers(y: AnyArray, loss: str) -> NDArray[np.float64]:
    if y.dtype.kind not in "fiub":
        raise InputError(
            f"--loss {loss} is for numbers, and the target holds texts, like {str(y[0])!r}; "
            "--loss logistic takes them for classes"
        )
    return y.astype(np.float64)


def _group_lasso(task: FitTask, choices: Choices, strength: float) -> GroupLasso:
    """A group for each column, so that its categories are kept or left out together."""
    if task.columns is None:
        raise InputError(
            "--penalty group takes the columns of a table as groups, and the file has none: use --penalty l1"
        )
    for option, given in {"--positive": choices.positive, "--l2": choices.l2}.items():
        if given:
            raise InputError(f"{option} does not go with --penalty group: leave one of them out")
    return GroupLasso(strength, task.columns)


def estimator(task: FitTask, choices: Choices) -> LinearEstimator:
    """One model at a given strength."""
    l1, l2 = choices.l1, choices.l2
    named = "elasticnet" if l1 and l2 else "l1" if l1 else "l2"
    options = _shared(task, choices) | {"device": choices.device}
    if choices.penalty == "group":
        options["penalty"] = _group_lasso(task, choices, STRENGTH if l1 is None else l1)
    else:
        options |= {"penalty": choices.penalty or named, "l1": l1, "l2": l2}
    return RRClassifier(**options) if task.classes else RRRegressor(**options)


def cross_validated(task: FitTask, choices: Choices) -> CrossValidated:
    """The model on a path that does best on held-out folds."""
    if choices.l1 is not None or choices.l2 is not None:
        raise InputError("--l1 and --l2 are found by cross-validation here: leave them out")
    penalty: object = choices.penalty or "l1"
    if penalty not in ("l1", "elasticnet", "group"):
        raise InputError(
            f"a path goes down from the λ that holds every feature at zero: --penalty l1, elasticnet or group, got {penalty}"
        )
    if penalty == "group":
        penalty = _group_lasso(task, choices, 1.0)
    if choices.folds > task.y.size:
        rows = f"{counted(task.y.size, 'row', 'rows')} to learn from"
        raise InputError(
            f"--folds {choices.folds} asks for more parts than there are rows: there are {rows}"
        )
    options = _shared(task, choices) | {
        "penalty": penalty, "l1_ratio": choices.l1_ratio, "lambdas": choices.lambdas,
        "smallest": choices.smallest, "cv": TimeFolds(choices.folds) if choices.time else choices.folds, "rule": choices.rule, "n_jobs": -1,
    }  # fmt: skip
    return RRClassifierCV(**options) if task.classes else RRRegressorCV(**options)


def _shared(task: FitTask, choices: Choices) -> dict[str, Any]:
    options: dict[str, object] = {
        "loss": task.loss, "positive": choices.positive, "fit_intercept": choices.intercept,
        "solver": choices.solver, "max_iter": choices.epochs, "random_state": choices.seed, "tol": choices.tol,
    }  # fmt: skip
    if choices.class_weight is not None:
        if not task.classes:
            raise InputError("--class-weight is for classes, and the target is taken for numbers")
        options["class_weight"] = choices.class_weight
    return options


def counting(data: Data) -> list[str]:
    """Columns of numbers that rise by the same amount from row to row."""
    found, start = [], 0
    for part in getattr(data.encoding, "columns", ()):
        if not hasattr(part, "levels") and data.X.shape[0] > CLASSES:
            steps = np.diff(dense(data.X[:, [start]]).ravel())
            if steps[0] and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0):
                found.append(part.name)
        start += len(part.features)
    return found
