"""Describes how a fit ended: what is proved about the model, with a warning if that is too little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.errors import DivergenceError, Held, held_warnings, not_converged, warn_user
from reshuffle.estimators.nested import Nested
from reshuffle.penalties import Penalty
from reshuffle.privacy import Guarantee
from reshuffle.solvers.recession import NO_MINIMISER
from reshuffle.trace import STATIONARY, Result, Trace

Ending = Literal["converged", "stationary", "not converged"]


@dataclass(frozen=True)
class Certificate:
    """What is known about the distance of a model from the minimum.

    ``measure`` is "gap" (P(x) - P* is at most ``value``·f(0), proved) or "relative_mapping" (the norm of the
    gradient mapping is ``value`` times that of the gradient at zero); ``proof`` says how it was found.
    """

    measure: str
    value: float
    tol: float
    proof: str

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "not checked"
        if np.isinf(self.value):
            return "nothing was proved"
        if self.measure == "gap":
            return f"P(x) is within {self.value:.2g}·f(0) of its minimum ({self.proof})"
        return (
            f"the gradient mapping is {self.value:.2g} of the gradient at zero, which is not a bound on "
            "P(x) - P*"
        )


def certificate_of(result: Result, tol: float) -> Certificate:
    """The last certificate of a run; NaN if none was computed."""
    trace = result.trace
    measure = "gap" if "gap" in trace else "relative_mapping"
    known = trace[measure] if measure in trace else np.empty(0)
    known = known[~np.isnan(known)]
    value = float(known[-1]) if known.size else np.nan
    return Certificate(measure, value, float(tol), trace.header.get("certificate", measure))


class Fitted(Nested):
    """An estimator, and how its last fit ended."""

    coef_: Any
    n_features_in_: int
    feature_names_in_: AnyArray
    n_iter_: int
    converged_: bool
    message_: str
    objective_: float
    certificate_: Certificate
    trace_: Trace
    penalty_: Penalty
    privacy_: Guarantee | None
    """The guarantee of a private solver; None for other solvers."""

    def _solved(self, solver: Any, *given: Any, **settings: Any) -> tuple[Result, Certificate]:
        """``solver.solve(...)``, with warnings and errors in terms of the estimator's parameters."""
        name = type(self).__name__
        with held_warnings() as held:
            try:
                result: Result = solver.solve(*given, **settings)
            except DivergenceError as error:
                advice = "bring y and the columns of X to a usual scale"
                text = f"{name}: the run diverged ({error}); {advice}"
                raise DivergenceError(text, error.result) from None
        certificate = certificate_of(result, solver.tol)
        _retell(held, name, result, certificate)
        return result, certificate

    def set_ending(self, result: Result, certificate: Certificate) -> None:
        """Set the attributes that say how a run ended."""
        self.n_iter_, self.converged_ = result.epoch, result.converged
        self.message_, self.trace_ = result.message, result.trace
        self.objective_, self.privacy_ = result.trace.last()["objective"], result.privacy
        self.certificate_ = certificate

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def ended(model: Fitted) -> Ending:
    """'converged' if the requested accuracy is proved, 'stationary' if only the gradient mapping reached it."""
    if model.converged_:
        return "converged"
    return "stationary" if model.message_.startswith(STATIONARY) else "not converged"


def stalled(result: Result) -> bool:
    """Whether the run ended because no step could improve P any further."""
    return "no step lowers" in result.message


def endless(message: str) -> str:
    """The part of a message that says that P has no minimiser; empty if it has one."""
    return message[at:] if (at := message.find(NO_MINIMISER)) >= 0 else ""


def pass_on(held: Iterable[tuple[str, type[Warning]]]) -> bool:
    """Give the held warnings, except those of a missed accuracy; returns whether there were such."""
    missed = False
    for message, category in held:
        if issubclass(category, not_converged()):
            missed = True
        else:
            warn_user(message, category)
    return missed


def _retell(held: Held, name: str, result: Result, certificate: Certificate) -> None:
    """Give the solver's warnings again, in terms of the estimator's parameters."""
    if not pass_on(held):
        return
    if note := endless(result.message):
        warn_user(f"{name}: {note}; give a penalty, such as l2=1e-4", not_converged())
        return
    reached = f"{certificate.measure} = {certificate.value:.3g}"
    if np.isnan(certificate.value):
        advice = "numbers overflow: bring y and the columns of X to a usual scale"
    elif stalled(result):
        advice = "no step lowers P any further: give a larger tol, or a stronger penalty"
    else:
        advice = (
            f"give more than max_iter={result.epoch}, a larger tol, a stronger penalty, "
            "or bring the columns of X to one scale"
        )
    warn_user(
        f"{name} did not converge: tol={certificate.tol:g} was not reached after {result.epoch} iterations "
        f"({reached}); {advice}",
        not_converged(),
    )
