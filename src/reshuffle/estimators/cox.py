from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from reshuffle.arrays import AnyArray, DataMatrix
from reshuffle.errors import InputError, shown
from reshuffle.estimators import inputs
from reshuffle.estimators.outcome import Certificate, Fitted
from reshuffle.estimators.penalty_names import penalty_for
from reshuffle.inference import Inference
from reshuffle.penalties import Penalty, weak_convexity
from reshuffle.solvers import FISTA, ProxNewton
from reshuffle.survival import Baseline, CoxProblem, concordance
from reshuffle.survival.outcomes import check_events, check_strata, check_times, parts
from reshuffle.trace import Result
from reshuffle.validation import as_array, check_positive

Array = NDArray[np.float64]
TIGHT = 1e-12
"""``tol=None`` for one model: each Newton step doubles the digits, so this takes only one step more than 1e-6."""
LOOSE = 1e-6
"""``tol=None`` for a penalty that is not convex, for the gradient mapping of FISTA."""


class Survival(NamedTuple):
    """Rows with their times, events, strata and weights, in the form for a problem."""

    X: DataMatrix
    times: Array
    events: NDArray[np.bool_]
    strata: NDArray[np.int64]
    weights: Array | None
    ties: str

    def problem(self, penalty: Penalty) -> CoxProblem:
        """The partial likelihood of these rows plus ψ."""
        X, times, events, strata, weights, ties = self
        return CoxProblem(X, times, events, ties, strata, penalty, 0.0, weights)

    def take(self, rows: AnyArray) -> Survival:
        each = (
            (name, getattr(self, name)) for name in ("X", "times", "events", "strata", "weights")
        )
        return self._replace(**{name: value[rows] for name, value in each if value is not None})

    @property
    def shape(self) -> tuple[int, ...]:
        return self.X.shape[1:]


def solver_for(
    problem: CoxProblem, given: object, tol: float | None, max_iter: int, tight: float
) -> Any:
    """``ProxNewton``, or FISTA for a penalty that is not convex; an object keeps its own limits."""
    check_positive("max_iter", max_iter, integer=True)
    convex = not weak_convexity(problem.penalty) > 0.0
    if given == "newton" and convex:
        return ProxNewton(tol=tight if tol is None else tol, epochs=int(max_iter))
    if given in ("newton", "fista"):
        limits = {"epochs": max(int(max_iter), 10_000), "eval_every": 1000}
        return FISTA(tol=LOOSE if tol is None else tol, **limits)
    if isinstance(given, (str, type)) or not callable(getattr(given, "solve", None)):
        raise InputError(
            f"solver must be 'newton', 'fista' or have a method solve, got {shown(given)}"
        )
    return given


class CoxModel(Fitted):
    """A fitted model of proportional hazards, and predictions from it."""

    ties: str
    strata_: AnyArray
    baseline_: Baseline

    def prepared(self, X: object, y: object, sample_weight: object, strata: object) -> Survival:
        """Check the data and convert them for a problem."""
        X = inputs.design(self, X, reset=True)
        times, events = parts(y)
        inputs.check_length(X, times)
        n = X.shape[0]
        codes = check_strata(strata, n)
        self.strata_ = np.zeros(1) if strata is None else np.unique(as_array("strata", strata))
        weights = inputs.weights_of(sample_weight, n)
        times, events = check_times("y", times, n), check_events("y", events, n)
        return Survival(X, times, events, codes, weights, self.ties)

    def attributes_of(self, x: Array) -> dict[str, Any]:
        """The coefficients of a solution, for a path, where there is no intercept."""
        return {"coef_": x + 0.0, "intercept_": 0.0}  # Adding 0 turns -0 into 0.

    def _keep(self, problem: CoxProblem, result: Result, certificate: Certificate) -> None:
        self.coef_ = result.x + 0.0
        self.strata_ = self.strata_[problem.labels]  # those with a row of positive weight
        self.baseline_, self.penalty_ = Baseline.of(problem, result.x), problem.penalty
        self.set_ending(result, certificate)
        self.problem_ = problem

    # --- predictions ---------------------------------------------------------------------------

    def predict(self, X: object) -> Array:
        """Xw, the logarithm of each row's hazard ratio to a row of zeros: the higher, the earlier the event."""
        check_is_fitted(self)
        rows = inputs.design(self, X, reset=False)
        return np.asarray(rows @ self.coef_)

    def score(self, X: object, y: object, strata: object = None) -> float:
        """Harrell's C: the share of comparable pairs in which the row with the higher risk fails first."""
        times, events = parts(y)
        return concordance(times, events, self.predict(X), strata)

    def predict_cumulative_hazard(
        self, X: object, times: ArrayLike, strata: object = None
    ) -> Array:
        """Λ(t)·exp(Xw), a row for each row of X and a column for each time; constant after the last event of the fit."""
        margins = self.predict(X)
        found = np.empty((margins.size, np.size(times)))
        for code, own in self._by_stratum(strata, margins.size):
            found[own] = self.baseline_.cumulative_hazard(margins[own], times, code)
        return found

    def predict_survival(self, X: object, times: ArrayLike, strata: object = None) -> Array:
        """The probability of no event until each of the times, a row for each row of X and a column for each time."""
        with np.errstate(under="ignore"):
            return np.exp(-self.predict_cumulative_hazard(X, times, strata))

    def _by_stratum(self, strata: object, n: int) -> list[tuple[int, AnyArray]]:
        if self.strata_.size == 1 and strata is None:
            return [(0, np.arange(n))]
        if strata is None:
            raise InputError(
                f"strata must be given: the model has {self.strata_.size} of them, each with a hazard of its own"
            )
        labels = as_array("strata", strata)
        if labels.shape != (n,):
            raise InputError(f"strata must be {n} labels, one per row, got shape {labels.shape}")
        unknown = np.setdiff1d(labels, self.strata_)
        if unknown.size:
            raise InputError(
                f"strata must be of the fit, {shown(self.strata_.tolist())}, got {unknown.tolist()[0]!r}"
            )
        known = [(k, np.flatnonzero(labels == name)) for k, name in enumerate(self.strata_)]
        return [(k, own) for k, own in known if own.size]

    def inference(self, *, covariance: str | None = None, level: float = 0.95) -> Inference:
        """Standard errors, z, p and intervals of the logarithms of hazard ratios, without a penalty or with a ridge.

        ``covariance`` is "model" (the inverse information) or "robust" (Lin and Wei, 1989: valid where hazards are not proportional,
        for the best model of this form); by default "model" if there is no penalty. With a ridge the intervals are
        about the coefficients that it would give for the whole population.
        """
        from reshuffle.estimators.inferring import inference_of_cox

        check_is_fitted(self)
        return inference_of_cox(self, covariance, level)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class RRCox(CoxModel):
    """P(w) = -(1/n) log L(w) + ψ(w): Cox's proportional hazards, at the minimiser.

    L is the partial likelihood (``CoxProblem``). ``y`` is an array of events and times, as ``reshuffle.survival.outcome(time, event)``
    makes it and scikit-survival has it, or a matrix with the columns time and event.

    Parameters
    ----------
    penalty : "l1", "l2", "elasticnet", "none" or None, or any object with ``value(x)`` and ``prox(x, step)``, such as the
        penalties of ``reshuffle.penalties``. With one that is not convex (MCP, SCAD, LogSum) FISTA ends at a stationary point.
    l1, l2 : strengths of a penalty that is given by name ("l1" has the first, "l2" the second, "elasticnet" both); ``None`` stands for 1e-4.
    penalty_factors : one number per feature, by which its strengths are multiplied; 0 leaves it unpenalised.
    positive : whether coefficients must not be negative (for a penalty that is given by name).
    ties : events at the same time: "efron" or "breslow".
    solver : "newton" (``ProxNewton``), "fista", or a solver, which keeps its own limits.
    tol : the relative accuracy of P at which to stop, proved if possible; ``certificate_`` says how.
    max_iter : the most steps.

    Attributes
    ----------
    coef_ : one number per feature: the logarithm of a hazard ratio.
    baseline_ : the cumulative baseline hazard of each stratum.
    strata_ : the labels of the strata.
    converged_, message_, certificate_, n_iter_, objective_, trace_, penalty_ : as in ``RRClassifier``.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = rs.survival.outcome(rng.exponential(np.exp(-X[:, 0])), rng.random(200) < 0.8)
    >>> model = rs.RRCox(penalty="l1", l1=0.05).fit(X, y)
    >>> model.converged_, int((model.coef_ != 0).sum()), round(model.score(X, y), 2)
    (True, 1, 0.75)
    >>> model.predict_survival(X[:2], times=[0.1, 1.0]).shape
    (2, 2)
    """

    penalty: object = "none"
    l1: float | None = None
    l2: float | None = None
    penalty_factors: object = None
    positive: bool = False
    ties: str = "efron"
    solver: object = "newton"
    tol: float | None = None
    max_iter: int = 200

    def fit(
        self, X: object, y: object, sample_weight: object = None, strata: object = None
    ) -> Self:
        """Find the minimiser for these rows, times and events; ``strata`` are labels, one per row."""
        inputs.check_flags(self, "positive")
        data = self.prepared(X, y, sample_weight, strata)
        problem = data.problem(penalty_for(self, data.shape))
        solver = solver_for(problem, self.solver, self.tol, self.max_iter, TIGHT)
        self._keep(problem, *self._solved(solver, problem))
        return self
