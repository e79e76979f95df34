from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from reshuffle.errors import InputError, held_warnings
from reshuffle.estimators import inputs
from reshuffle.estimators.cox import Array, CoxModel, Survival, solver_for
from reshuffle.estimators.cox_paths import at_strength, path_along, points_along
from reshuffle.estimators.cross_validation import RULES, GivenUp, StrengthSearch
from reshuffle.estimators.folds import Fold, folds_of
from reshuffle.estimators.outcome import certificate_of
from reshuffle.estimators.paths import Path
from reshuffle.estimators.solver_names import ALONG_A_PATH, FittingSolver, seed_of
from reshuffle.survival import CoxProblem, concordance

SCORES = ("concordance", "likelihood")


@dataclass(eq=False, repr=False, kw_only=True)
class RRCoxCV(StrengthSearch, CoxModel):
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

    smallest: float = 0.01
    scoring: object = "concordance"
    ties: str = "efron"
    solver: object = "newton"
    max_iter: int = 200

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
        inputs.check_choice("rule", self.rule, RULES)
        inputs.check_choice("scoring", self.scoring, SCORES)
        data = self.prepared(X, y, sample_weight, strata)
        codes, seed = data.events.astype(np.int64), seed_of(self.random_state)
        folds = folds_of(self.cv, data.X, data.times, codes, groups, seed)
        counted = data.events if data.weights is None else data.events & (data.weights > 0)
        for k, (rows, held) in enumerate(folds):
            if not (counted[rows].any() and counted[held].any()):
                raise InputError(
                    f"cv: fold {k} has no event among the rows to learn from or among those held out, of positive weight; use fewer folds"
                )
        whole, solver = self.begin(data, seed)
        k = self._choose(partial(self._losses, data, whole, solver), folds)
        self.path_: Path = path_along(whole, solver, self, type(self).__name__)
        own = at_strength(whole, self.lambda_)
        with held_warnings():  # warnings are given for the whole path
            result = solver.solve(own, self.path_.coefs[k])
        self._keep(own, result, certificate_of(result, solver.tol))
        return self

    def _solver_along(self, problem: CoxProblem, seed: int) -> Any:
        return solver_for(problem, self.solver, self.tol, self.max_iter, ALONG_A_PATH)

    def _losses(
        self,
        data: Survival,
        whole: CoxProblem,
        solver: FittingSolver,
        fold: Fold,
        given_up: GivenUp,
    ) -> Array:
        """Minus the score of the held-out rows at each λ."""
        rows, held_out = fold
        part, held = data.take(rows).problem(whole.penalty), data.take(held_out)
        points = points_along(part, solver, self, given_up)
        if self.scoring == "concordance":
            if held.weights is not None:  # They count in no pair, but for rows of weight zero.
                held = held.take(np.flatnonzero(held.weights))
            judged = (held.times, held.events)
            return np.array([-concordance(*judged, held.X @ x, held.strata) for x in points])
        every = np.ones(data.times.size) if data.weights is None else data.weights
        weights = np.zeros(data.times.size)
        weights[rows] = every[rows]
        fitted = data._replace(weights=weights).problem(whole.penalty)
        events = float(every[held_out] @ held.events)
        lost = [_whole(whole, every, data, x) - _whole(fitted, weights, data, x) for x in points]
        return np.array(lost) / events


def _whole(problem: CoxProblem, weights: Array, data: Survival, x: Array) -> float:
    """-log L with the given weights. A problem scales them to mean 1; weights times s add log s for each event."""
    total, share = float(weights.sum()), problem.n / float(weights.sum())
    return total * problem.value(x) - float(weights @ data.events) * float(np.log(share))


def cox_path(
    X: object,
    y: object,
    *,
    penalty: object = "l1",
    l1_ratio: float = 0.5,
    lambdas: object = 100,
    smallest: float = 0.01,
    sample_weight: object = None,
    strata: object = None,
    penalty_factors: object = None,
    positive: bool = False,
    ties: str = "efron",
    solver: object = "newton",
    tol: float | None = None,
    max_iter: int = 200,
) -> Path:
    """The minimisers of -(1/n) log L + λ·ψ for λ from λ_max down, each begun at the one before.

    The parameters are those of ``RRCoxCV``; ``plotting.plot_path`` draws the path.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = rs.survival.outcome(rng.exponential(np.exp(-X[:, 0])), rng.random(200) < 0.8)
    >>> path = rs.cox_path(X, y, lambdas=10)
    >>> path.nonzeros[0], path.nonzeros[-1], bool(path.converged.all())
    (np.int64(0), np.int64(5), True)
    """
    model = RRCoxCV(
        penalty=penalty,
        l1_ratio=l1_ratio,
        lambdas=lambdas,
        smallest=smallest,
        penalty_factors=penalty_factors,
        positive=positive,
        ties=ties,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
    )
    problem, method = model.begin(model.prepared(X, y, sample_weight, strata), 0)
    return path_along(problem, method, model, "cox_path")
