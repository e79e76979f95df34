"""The choice of the strength by cross-validation, with a path per fold, in threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from threading import Event
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.metrics import check_scoring

from reshuffle.arrays import Array
from reshuffle.errors import InputError, held_warnings
from reshuffle.estimators.folds import Fold, Paired, folds_of, paired, standard_error
from reshuffle.estimators.inputs import Prepared, check_choice, check_flags, forget
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.outcome import Fitted, certificate_of
from reshuffle.estimators.paths import Path, follow, path_of, strengths_of, unit_penalty, walk
from reshuffle.estimators.scaling import scaling
from reshuffle.estimators.solver_names import (
    ALONG_A_PATH,
    FittingSolver,
    seed_of,
    solver_of,
    tol_of,
)
from reshuffle.inference import Inference
from reshuffle.problem import Problem

GivenUp = Callable[[], bool]
Piece = TypeVar("Piece")
Answer = TypeVar("Answer")


@dataclass(eq=False, repr=False, kw_only=True)
class StrengthSearch(Fitted):
    """A choice among the strengths of a path. The parameters are described in ``RRClassifierCV``."""

    penalty: object = "l1"
    l1_ratio: float = 0.5
    lambdas: object = 50
    smallest: float = 1e-3
    cv: object = None
    scoring: object = None
    rule: str = "min"
    penalty_factors: object = None
    positive: bool = False
    solver: object = "exact"
    tol: float | None = None
    max_iter: int = 1000
    random_state: object = 0
    n_jobs: int | None = None

    def _solver_along(self, problem: Any, seed: int) -> Any:
        """The solver for the models of a path."""
        raise NotImplementedError  # linear models and Cox's have their own

    def begin(self, data: Any, seed: int) -> tuple[Any, FittingSolver]:
        """The problem at λ = 1 and the solver of a path; sets ``lambdas_``."""
        whole = data.problem(unit_penalty(self, data.shape))
        solver = self._solver_along(whole, seed)
        self.lambdas_ = strengths_of(whole, self.lambdas, self.smallest)
        return whole, solver

    def _choose(self, losses: Callable[[Fold, GivenUp], Array], folds: list[Fold]) -> int:
        """Set λ by the losses of held-out rows, and the attributes that tell of the choice; returns its place."""
        self.cv_losses_ = np.column_stack(in_threads(losses, folds, self.n_jobs))
        best, sparser = chosen(self.cv_losses_)
        self.lambda_min_, self.lambda_1se_ = self.lambdas_[best], self.lambdas_[sparser]
        self.paired_: Paired = paired(self.cv_losses_, sparser, best)
        k = best if self.rule == "min" else sparser
        self.lambda_ = float(self.lambdas_[k])
        return k

    def inference(self, **settings: object) -> Inference:
        """Refused: the strength was chosen by looking at the same data."""
        raise InputError(
            f"{type(self).__name__} chose lambda_ by looking at the data, and no interval of its coefficients is valid: fit other rows "
            "with that strength, or take the features it chose and fit other rows with penalty='none'"
        )


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidated(StrengthSearch, Linear):
    """The linear model on a path that does best on held-out rows."""

    loss: object = None
    fit_intercept: bool = True
    device: Any = None

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        groups: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """Follow a path on each fold and on all rows, and keep the model at the best strength.

        Rows with the same entry of ``groups`` are held out together; a splitter given as ``cv`` receives them.
        """
        check_flags(self, "fit_intercept", "positive")
        check_choice("rule", self.rule, RULES)
        data = self.prepared(X, y, sample_weight, offset, exposure)
        if data.offsets is not None and self.scoring is not None:
            raise InputError(
                "scoring must be None with an offset or exposure, which scikit-learn's scorers do not pass on: the mean loss of "
                "held-out rows is compared then"
            )
        seed = seed_of(self.random_state)
        folds = self._folds(data, groups, seed)
        whole, solver = self.begin(data, seed)
        self.loss_ = whole.loss
        k = self._choose(partial(self._losses, data, whole, solver), folds)
        results = walk(whole, self.lambdas_, solver, type(self).__name__)
        self.path_: Path = path_of(results, self.lambdas_, solver, self)
        self.set_solution(results[k].x)
        self.set_ending(results[k], certificate_of(results[k], solver.tol))
        self.n_samples_fit_ = whole.n
        shape = (whole.features, *whole.shape[1:])
        self.penalty_ = scaling(whole.penalty, shape)(self.lambda_)
        return self

    def _solver_along(self, problem: Problem, seed: int) -> Any:
        tol = tol_of(self.tol, self.solver, problem, ALONG_A_PATH, self.device)
        solver = solver_of(self.solver, tol, self.max_iter, seed, traced=False, device=self.device)
        if getattr(solver, "device", None) is not None:  # Refused before any work.
            solver.check_problem(problem)
        return solver

    def _folds(self, data: Prepared, groups: object, seed: int) -> list[Fold]:
        folds = folds_of(self.cv, data.X, data.y, data.codes, groups, seed)
        for k, (rows, held) in enumerate(folds):
            if not (len(rows) and len(held)):
                raise InputError(f"cv: fold {k} has {len(rows)} rows and holds out {len(held)}")
            if data.codes is not None and np.unique(data.codes[rows]).size < self.classes_.size:
                raise InputError(
                    f"cv: the rows to learn from in fold {k} lack a class; use fewer folds (--folds), or a "
                    "splitter that keeps the mixture of classes"
                )
        return folds

    def _losses(
        self, data: Prepared, whole: Problem, solver: FittingSolver, fold: Fold, given_up: GivenUp
    ) -> Array:
        """The mean loss of the held-out rows at each λ, or minus their score; fewer if the work was given up."""
        rows, held_out = fold
        part = data.take(rows).problem(whole.penalty)
        with held_warnings():  # Warnings are given for the path of all rows only.
            path = takewhile(lambda _: not given_up(), follow(part, self.lambdas_, solver))
            points = [result.x for result in path]
        if self.scoring is not None:
            return np.array([-self._score(data.take(held_out), x) for x in points])
        held = whole.take(held_out.astype(np.uint32))
        total = held.weights.sum() if held.weights.size else held.n
        if not total > 0:
            raise InputError("cv: sample_weight must not be zero on all held-out rows of a fold")
        return np.array([held.value(x) for x in points]) * (held.n / total)

    def _score(self, data: Prepared, x: Array) -> float:
        model = copy(self)
        model.set_solution(x)
        forget(model, "feature_names_in_")  # The rows are an array here, without names.
        y = data.y if data.codes is None else self.classes_[data.codes]
        weights = {} if data.weights is None else {"sample_weight": data.weights}
        return float(check_scoring(model, self.scoring)(model, data.X, y, **weights))


RULES = ("min", "1se")


def chosen(losses: Array) -> tuple[int, int]:
    """The λ with the lowest mean loss, and the largest one within a standard error of it.

    The standard error is that of the mean over folds at the λ of the lowest mean. Rows of ``losses`` are λ's from the
    largest down, columns are folds.
    """
    means = losses.mean(axis=1)
    best = int(np.argmin(means))
    return best, int(np.argmax(means <= means[best] + standard_error(losses[best])))


def in_threads(
    work: Callable[[Piece, GivenUp], Answer], pieces: list[Piece], n_jobs: int | None
) -> list[Answer]:
    """The result of the work on each piece, in order; the number of threads affects only the time.

    ``work`` also receives a function that tells whether the other pieces were given up, by Ctrl-C or an error; then it
    should end as well.
    """
    if not (n_jobs is None or (isinstance(n_jobs, (int, np.integer)) and n_jobs != 0)):
        raise InputError(
            f"n_jobs must be None, a positive integer or -1 for all cores, got {n_jobs!r}"
        )
    most, given_up = os.cpu_count() or 1, Event()
    workers = 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(1, most + 1 + n_jobs)
    if workers == 1:
        return [work(piece, given_up.is_set) for piece in pieces]
    with ThreadPoolExecutor(min(workers, len(pieces))) as pool:
        tasks = [pool.submit(work, piece, given_up.is_set) for piece in pieces]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            given_up.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
