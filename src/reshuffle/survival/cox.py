"""Cox's proportional hazards: the partial likelihood as a problem."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property, keep
from reshuffle.core import native
from reshuffle.digests import digest
from reshuffle.errors import InputError, shown
from reshuffle.objective import Array, Visits, check_penalty, check_ridge
from reshuffle.penalties import Penalty
from reshuffle.penalties.abilities import compiled_form
from reshuffle.penalties.forms import Form
from reshuffle.smoothness import Smoothness
from reshuffle.survival.matrix import check_matrix
from reshuffle.survival.outcomes import check_events, check_strata, check_times
from reshuffle.survival.risk_sets import Margins, RiskSets
from reshuffle.twice_differentiable import FirstOrder, TwiceDifferentiable
from reshuffle.validation import check_weights, mean_weight

TIES = ("efron", "breslow")
CLEAR = 1e-9
"""The order of two margins is certain, in spite of rounding, if they differ by more than this share of the largest one."""


class CoxProblem(TwiceDifferentiable):
    """P(x) = -(1/n) log L(x) + (ridge/2)‖x‖² + ψ(x), L the partial likelihood of proportional hazards.

    A row j fails at the rate λ(t)·exp(a_jᵀx), λ unknown. With R_i the rows that are at risk when row i fails,

        -log L(x) = -Σ_{events i} w_i (a_iᵀx - log Σ_{j in R_i} w_j exp(a_jᵀx))

    if no two rows fail at the same time. It is not a sum of functions of single rows, since each row is in the risk
    sets of others: there is nothing to shuffle, and ``ExactProxRR`` does not accept it. ``ProxNewton`` takes it with every convex
    penalty, ``FISTA`` with every penalty. The rows are sorted once; an evaluation is a pass over them with cumulative sums.

    Parameters
    ----------
    X : matrix, rows are samples: an array or a sparse matrix. It is copied in the order of time; an array is centred in each
        stratum, which changes nothing but rounding.
    time : the time of each row's event, or until which it is known not to have happened; not negative.
    event : True or 1 where the event happened, False or 0 where the row is censored.
    ties : events at the same time: "efron" (closer to what continuous times would give, and the default of R's survival) or
        "breslow".
    strata : a label per row; each stratum has a rate λ(t) of its own, and risk sets are of one stratum.
    penalty : ψ, any object with ``value(x)`` and ``prox(x, step)``; none by default.
    ridge : adds (ridge/2)‖x‖² to the problem.
    sample_weight : one non-negative weight per row, scaled to a mean of 1. With Breslow's ties whole numbers are equivalent to
        that many copies of the row; with Efron's the weights are used as in R's survival. A row of weight 0 is left out.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X = np.array([[0.0], [1.0], [1.0], [0.0]])
    >>> problem = rs.CoxProblem(X, time=[1.0, 2.0, 3.0, 4.0], event=[1, 1, 0, 1])
    >>> result = rs.ProxNewton(tol=1e-9).solve(problem)
    >>> result.converged, result.x.round(4)
    (True, array([-0.3466]))

    References
    ----------
    Cox: Regression models and life-tables, 1972. Breslow: Covariance analysis of censored survival data, 1974.
    Efron: The efficiency of Cox's likelihood function for censored data, 1977.
    """

    can_recede = True
    receding = (
        "the rows with an event have the largest margins in every risk set, and larger coefficients fit them better (the likelihood is "
        "monotone, and no penalty holds it)"
    )

    def __init__(
        self,
        X: object,
        time: object,
        event: object,
        ties: str = "efron",
        strata: object = None,
        penalty: object = None,
        ridge: float = 0.0,
        sample_weight: object = None,
    ) -> None:
        if ties not in TIES:
            raise InputError(f"ties must be one of {', '.join(map(repr, TIES))}, got {shown(ties)}")
        self.ridge = check_ridge(ridge)
        matrix = check_matrix(X)
        n, d = matrix.shape
        times, events = check_times("time", time, n), check_events("event", event, n)
        codes, given = check_strata(strata, n), check_weights(sample_weight, n)
        weights = given if given.size else np.ones(n)
        if not events[weights > 0].any():
            raise InputError(
                "event must be True in some row (of positive weight), got none: where all rows are censored the partial "
                "likelihood is the same for every model"
            )
        order = np.lexsort((events, -times, codes))
        order = order[weights[order] > 0]
        self.n, self.shape, self.ties = n, (d,), ties
        self.weight = mean_weight(sample_weight)
        """The mean of the given sample weights."""
        self.penalty = check_penalty(penalty)
        self.order = order
        self.times, self.events, self.weights = times[order], events[order], weights[order]
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        self.bounds = np.concatenate([[0], cuts, [order.size]])
        self.matrix, self.centres = matrix.rows(order).centred(self.bounds)
        self.labels = codes[order][self.bounds[:-1]]
        """The numbers of the strata that have a row of positive weight."""
        self.form  # noqa: B018 -- it says so where arrays of the penalty do not fit

    def __repr__(self) -> str:
        return (
            f"<CoxProblem: {self.n} x {self.features}, {int(self.events.sum())} events, ties={self.ties!r}, "
            f"{self.labels.size} strat{'a' if self.labels.size > 1 else 'um'}, penalty={self.penalty!r}, ridge={self.ridge:g}>"
        )

    # --- the data ------------------------------------------------------------------------------

    @cached_property
    def strata(self) -> list[tuple[slice, RiskSets]]:
        """The rows of each stratum, sorted by time from the last to the first, and their risk sets."""
        rows = [slice(start, stop) for start, stop in pairwise(self.bounds.tolist())]
        efron = self.ties == "efron"
        return [
            (own, RiskSets.of(self.times[own], self.events[own], self.weights[own], efron))
            for own in rows
        ]

    @property
    def risks(self) -> list[tuple[slice, RiskSets]]:
        """For each stratum with events the rows of its largest risk set, which contains all others, and its risk sets."""
        return [
            (slice(own.start, own.start + int(sets.ends[-1])), sets)
            for own, sets in self.strata
            if sets.begins.size
        ]

    def with_penalty(self, penalty: Penalty) -> CoxProblem:
        known = ("strata", "smoothness", "least", "reference", "varying")
        other = keep(copy(self), **{name: getattr(self, name) for name in known})
        other.penalty = penalty
        return other

    @cached_property
    def in_the_core(self) -> native.CoxRows | None:
        """The rows, the strata and the lower bound of f in the form in which the core follows a path; None for sparse rows."""
        columns = self.matrix.columns
        if columns is None:
            return None
        strata = [sets.native for _, sets in self.strata]
        return native.CoxRows(columns, strata, float(self.n), self.least)

    @cached_property
    def form(self) -> Form | None:
        """ψ in the form that the solver of Newton's models reads, if it can be compiled."""
        return compiled_form(self.penalty, self.shape)

    # --- f -------------------------------------------------------------------------------------

    def at(self, x: Array) -> list[Margins]:
        """The partial likelihood of each stratum."""
        z = self.matrix.times(x)
        with np.errstate(over="ignore", invalid="ignore"):
            return [sets.at(z[own]) for own, sets in self.strata]

    def expand(self, x: Array) -> FirstOrder:
        found = self.at(x)
        value, slopes = sum(each.value for each in found) / self.n, -self.weights * self.events
        for (own, _), each in zip(self.strata, found, strict=True):
            slopes[own] += each.hazards
        return FirstOrder(x, float(value), self.matrix.combined(slopes) / self.n)

    def hessian(self, x: Array, kept: Visits) -> Array:
        H = np.zeros((kept.size, kept.size))
        with np.errstate(over="ignore", invalid="ignore"):
            for (own, sets), each in zip(self.strata, self.at(x), strict=True):
                if sets.begins.size:
                    H += sets.hessian(each, self.matrix.block(own, kept))
        return H / self.n

    def scores(self, x: Array) -> Array:
        """The contribution of each row, in the order of ``order``, to minus the gradient of n·f, for robust standard errors."""
        every, found = np.arange(self.features, dtype=np.uint32), np.empty(self.matrix.shape)
        for (own, sets), each in zip(self.strata, self.at(x), strict=True):
            found[own] = sets.scores(each, self.matrix.block(own, every))
        return found

    def reach(self, directions: Array) -> float:
        """Twice the largest length of Vᵀ(a_j - c), c any point of the stratum of j: no two rows of a risk set are further apart.

        The third cumulant of a distribution on an interval is at most its variance times the length of the interval.
        """
        most, everything = 0.0, np.arange(self.features, dtype=np.uint32)
        for at_risk, _ in self.risks:
            rows = self.matrix.block(at_risk, everything)
            along = (rows - rows.mean(axis=0)) @ directions
            most = max(most, float(np.einsum("ij,ij->i", along, along).max()))
        return 2.0 * float(np.sqrt(most))

    @cached_property
    def varying(self) -> NDArray[np.bool_]:
        """The features that differ between rows of a risk set."""
        found = np.zeros(self.features, dtype=bool)
        for at_risk, _ in self.risks:
            found |= self.matrix.varying(at_risk)
        return found

    @cached_property
    def least(self) -> float:
        """The value of f for a model under which all events are certain, which is a lower bound for all models."""
        return sum(sets.least for _, sets in self.strata) / self.n

    @cached_property
    def smoothness(self) -> Smoothness:
        """L_f ≤ (1/n) Σ_k c_k max_{j in R_k} ‖a_j - c‖² + ridge, c the mean of the stratum: a variance is at most that."""
        total = 0.0
        for own, sets in self.strata:
            if sets.begins.size:
                squares = np.maximum.accumulate(self.matrix.centred_squares(own))
                total += float(sets.counts @ squares[sets.ends[sets.owner] - 1])
        bound = total / self.n + self.ridge
        return Smoothness(lambda: np.array([bound]))

    def recedes(self, x: Array) -> bool:
        """Whether in every risk set the events have the largest margins: the likelihood of tx then rises with t."""
        z = self.matrix.times(x)
        clear, moves = CLEAR * float(np.abs(z).max(initial=0.0)), False
        for at_risk, sets in self.risks:
            margins = z[at_risk]
            most = np.maximum.accumulate(margins)[sets.ends - 1]
            blocks = np.column_stack([sets.begins, sets.ends]).ravel()
            least = np.minimum.reduceat(np.append(margins, np.inf), blocks)[0::2]
            if np.any(least < most - clear):
                return False
            moves = moves or bool(np.ptp(margins) > clear)
        return moves

    # --- the run's business --------------------------------------------------------------------

    def contents(self) -> Mapping[str, str]:
        return {
            "data": self.matrix.digest(),
            "times": digest(self.times, self.events, self.bounds, self.order),
            "weights": digest(self.weights),
            "loss": digest(self.ties),
            "penalty": digest(self.penalty),
            "ridge": digest(self.ridge),
        }
