from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.column_penalties import by_columns
from reshuffle.estimators.cox import Array, CoxModel, Survival, solver_for
from reshuffle.estimators.cox_paths import path_along, points_along, result_at
from reshuffle.estimators.cross_validation import CHOSEN, RULES, chosen, in_threads
from reshuffle.estimators.folds import Fold, Paired, folds_of, paired
from reshuffle.estimators.outcome import certificate_of
from reshuffle.estimators.paths import Path, strengths_of, unit_penalty
from reshuffle.estimators.solver_names import ALONG_A_PATH, FittingSolver, seed_of
from reshuffle.inference import Inference
from reshuffle.survival import CoxProblem, concordance

SCORES = ("concordance", "likelihood")


@dataclass(eq=False, repr=False, kw_only=True)
class RRCoxCV(CoxModel):
    """P(w) = -(1/n) log L(w) + λ·ψ(w), with the λ that does best on held-out rows.

    Parameters
    ----------
    penalty, l1_ratio, lambdas, smallest, rule, n_jobs, random_state : as in ``RRClassifierCV``.
    penalty_factors, positive, ties, solver, max_iter : as in ``RRCox``.
    cv : the number of folds (5), with the same share of events in each, or a splitter, as in ``RRClassifierCV``.
    scoring : "concordance" (Harrell's C on the held-out rows of each fold), or "likelihood": log L on all rows less that on the
        rows that the model was fitted to, over the number of held-out events (Verweij and van Houwelingen, 1993). C sees the
        order of the risks alone and changes in steps; the likelihood chooses more steadily if events are few.
    tol : the relative accuracy of P at each λ; by default 1e-8.

    Attributes
    ----------
    lambda_, lambda_min_, lambda_1se_, lambdas_, path_, paired_ : as in ``RRClassifierCV``.
    cv_losses_ : of shape (λ's, folds): minus the scores.
    coef_, baseline_ and others : as in ``RRCox``, of the chosen model.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = rs.survival.outcome(rng.exponential(np.exp(-X[:, 0])), rng.random(200) < 0.8)
    >>> model = rs.RRCoxCV(lambdas=10, scoring="likelihood").fit(X, y)
    >>> bool(model.coef_[0] > 0.5), model.cv_losses_.shape
    (True, (10, 5))
    """

    penalty: object = "l1"
    l1_ratio: float = 0.5
    lambdas: object = 50
    smallest: float = 0.01
    cv: object = None
    scoring: object = "concordance"
    rule: str = "min"
    penalty_factors: object = None
    positive: bool = False
    ties: str = "efron"
    solver: object = "newton"
    tol: float | None = None
    max_iter: int = 200
    random_state: object = 0
    n_jobs: int | None = None

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        strata: object = None,
        groups: object = None,
    ) -> Self:
        """Follow a path on each fold and on all rows, and keep the model at the best strength."""
        inputs.check_flags(self, "positive")
        for name, known in (("rule", RULES), ("scoring", SCORES)):
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}"
                )
        data = self.prepared(X, y, sample_weight, strata)
        codes = data.events.astype(np.int64)
        folds = folds_of(self.cv, data.X, data.times, codes, groups, seed_of(self.random_state))
        counted = data.events if data.weights is None else data.events & (data.weights > 0)
        for k, (rows, held) in enumerate(folds):
            if not (counted[rows].any() and counted[held].any()):
                raise InputError(
                    f"cv: fold {k} has no event among the rows to learn from or among those held out, of positive weight; use fewer folds"
                )
        unit = unit_penalty(
            by_columns(self.penalty, self),
            self.l1_ratio,
            self.penalty_factors,
            self.positive,
            data.X.shape[1:],
        )
        whole = data.problem(unit, self.ties)
        solver = solver_for(whole, self.solver, self.tol, self.max_iter, ALONG_A_PATH)
        self.lambdas_ = strengths_of(whole, self.lambdas, self.smallest)

        def losses(rows: Fold, given_up: Callable[[], bool]) -> Array:
            return self._losses(data, whole, rows, solver, given_up)

        self.cv_losses_ = np.column_stack(in_threads(losses, folds, self.n_jobs))
        self.path_: Path = path_along(
            whole, self.lambdas_, self.solver, solver, self, type(self).__name__
        )
        best, sparser = chosen(self.cv_losses_)
        self.lambda_min_, self.lambda_1se_ = self.lambdas_[best], self.lambdas_[sparser]
        self.paired_: Paired = paired(self.cv_losses_, sparser, best)
        k = best if self.rule == "min" else sparser
        self.lambda_ = float(self.lambdas_[k])
        own, result = result_at(whole, self.lambda_, solver, self.path_.coefs[k])
        self._keep(own, result, certificate_of(result, solver.tol))
        return self

    def inference(self, **settings: object) -> Inference:
        """Refused: the strength was chosen by looking at the same data."""
        raise InputError(CHOSEN.format(type(self).__name__))

    def _losses(
        self,
        data: Survival,
        whole: CoxProblem,
        rows: Fold,
        solver: FittingSolver,
        given_up: Callable[[], bool],
    ) -> Array:
        """Minus the score of the held-out rows at each λ."""
        part, held = data.take(rows[0]).problem(whole.penalty, self.ties), data.take(rows[1])
        points = points_along(part, self.lambdas_, self.solver, solver, given_up)
        if self.scoring == "concordance":
            if (
                held.weights is not None
            ):  # weights do not count in pairs, except that rows of weight zero are left out
                held = held.take(np.flatnonzero(held.weights))
            judged = (held.times, held.events)
            return np.array([-concordance(*judged, held.X @ x, held.strata) for x in points])
        every = np.ones(data.times.size) if data.weights is None else data.weights
        weights = np.zeros(data.times.size)
        weights[rows[0]] = every[rows[0]]
        fitted = data._replace(weights=weights).problem(whole.penalty, self.ties)
        events = float(every[rows[1]] @ held.events)
        lost = [_whole(whole, every, data, x) - _whole(fitted, weights, data, x) for x in points]
        return np.array(lost) / events


def _whole(problem: CoxProblem, weights: Array, data: Survival, x: Array) -> float:
    """-log L with the given weights. A problem scales them to mean 1; weights times s add log s for each event."""
    total, share = float(weights.sum()), problem.n / float(weights.sum())
    return total * problem.value(x) - float(weights @ data.events) * float(np.log(share))
