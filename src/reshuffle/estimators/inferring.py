"""``model.inference()``: checks whether the requested inference is valid, and makes the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, held_warnings
from reshuffle.estimators.inputs import Prepared, check_choice
from reshuffle.estimators.outcome import Fitted, ended, endless
from reshuffle.estimators.solver_names import TIGHT, seed_of
from reshuffle.estimators.summary import feature_names
from reshuffle.inference import Inference
from reshuffle.inference.after_selection import debiased, halves
from reshuffle.inference.likelihoods import is_likelihood
from reshuffle.inference.sandwich import (
    check_enough,
    counted_rows,
    effective,
    inverse,
    model_based,
    pieces_of,
    robust,
)
from reshuffle.inference.table import check_level
from reshuffle.penalties import Penalty, Zero
from reshuffle.penalties.abilities import compiled_form
from reshuffle.problem import Problem
from reshuffle.solvers import ExactProxRR

if TYPE_CHECKING:
    from reshuffle.estimators.linear import Linear

Array = NDArray[np.float64]
INTERCEPT = "(intercept)"
COVARIANCES = (None, "model", "robust")
METHODS = (None, "split", "debiased")
TRUE = "the coefficients of the model, if it is true"
BEST = "the coefficients of the model of this form that is best for the population"
SHRUNK = "the coefficients that this ridge would give for the whole population, which it shrinks too; not those without a penalty"
ROBUST = "robust (sandwich, HC0)"
WEIGHED = "robust (sandwich with centred scores)"
MODEL = "model-based (inverse information)"
MODEL_OF_RIDGE = (
    "covariance='model' is about the coefficients of a true model, which a ridge shrinks: take covariance='robust', whose intervals "
    "are about the shrunk ones, or fit with penalty='none'"
)


def inference_of(
    model: Linear, covariance: str | None, method: str | None, level: float
) -> Inference:
    """The table of a fitted linear model."""
    check_level(level)
    check_choice("covariance", covariance, COVARIANCES)
    check_choice("method", method, METHODS)
    if getattr(model, "class_weight", None) is not None:
        if covariance == "model":
            raise InputError(
                "covariance='model' is about a true model, and class_weight changes the shares of the classes: take covariance='robust', or "
                "fit without class_weight"
            )
        covariance = "robust"
    if getattr(model, "early_stopping", False):
        raise InputError("inference needs a minimiser, and early_stopping ends before it")
    data: Prepared = kept_of(model, "data_")
    origin, data = data.origin, data._replace(origin=0.0)  # The table is about the whole intercept.
    problem = data.problem(model.penalty_)
    x, names = model.solution().reshape(problem.shape), feature_names(model)
    if origin:
        x[problem.features :] += origin
    l2 = ridge_of(problem.penalty, problem.features, len(problem.shape))
    if l2 is None and method is None:
        raise InputError(
            f"the intervals of a fit with {problem.penalty!r} are not valid as they stand: the penalty shrinks coefficients to zero or "
            "bounds them, and the distribution of what is left is not normal. Take method='split' (half of the rows "
            "choose features, the other half gives intervals), method='debiased' (the debiased lasso), or fit without a penalty"
        )
    if l2 is None:
        if method == "split":
            return by_splitting(model, data, covariance, level)
        return by_debiasing(problem, x, names, covariance, level)
    if method is not None:
        raise InputError(
            f"method={method!r} is for fits with an ℓ1 penalty, and this one has {problem.penalty!r}: leave method out"
        )
    return plain_table(Minimiser(problem, x, l2, names, level), covariance, model)


def kept_of(model: Fitted, name: str) -> Any:
    """The data that a fit kept under this name; refused unless the model is at a minimiser."""
    kept = getattr(model, name, None)
    if kept is None:
        raise InputError(
            "inference needs the data of the fit, which a file, a pickle or partial_fit does not keep: fit the model again"
        )
    if note := endless(model.message_):
        raise InputError(f"there are no standard errors: {note}")
    if ended(model) == "not converged":
        raise InputError(
            f"inference needs a minimiser, and the fit did not converge: {model.message_}"
        )
    return kept


def ridge_of(penalty: Penalty, features: int, axes: int) -> Array | None:
    """The strengths of a penalty that is a ridge, or none; ``None`` for one that is neither."""
    form = compiled_form(penalty, (features,))
    each = None if form is None else form.one_by_one
    if each is None or (axes > 1 and not each.free.all()):
        return None
    free = not each.l1.any() and np.all(np.isinf(each.low)) and np.all(np.isinf(each.high))
    return each.l2 if free else None


class Minimiser(NamedTuple):
    """A minimiser without a penalty or with a ridge, and the level of the intervals about it."""

    problem: Problem
    x: Array
    l2: Array
    names: list[str]
    level: float

    @property
    def every(self) -> list[str]:
        """The names of all rows of x."""
        return [*self.names, *[INTERCEPT] * self.problem.fit_intercept]


def plain_table(found: Minimiser, covariance: object, model: Linear) -> Inference:
    """The table of a fit without a penalty, or with a ridge."""
    problem, x, l2, _, level = found
    if problem.datafit.outputs:
        return contrasts(found, covariance == "robust", model.classes_)
    every, ridge = found.every, bool(l2.any())
    if covariance is None:
        covariance = "robust" if ridge or not is_likelihood(problem.loss) else "model"
    if covariance == "robust":
        kind, about = (WEIGHED, SHRUNK) if ridge else (ROBUST, BEST)
        spread = robust(problem, x, l2, every)
        return Inference(every, x, spread, level, np.inf, kind, about)
    if ridge:
        raise InputError(MODEL_OF_RIDGE)
    spread, df = model_based(problem, x, every)
    return Inference(every, x, spread, level, df, MODEL, TRUE)


def inference_of_cox(model: Fitted, covariance: object, level: float) -> Inference:
    """The table of a fitted model of proportional hazards."""
    check_level(level)
    check_choice("covariance", covariance, COVARIANCES)
    problem, x, names = kept_of(model, "problem_"), model.coef_, feature_names(model)
    l2 = ridge_of(problem.penalty, problem.features, 1)
    if l2 is None:
        raise InputError(
            f"the intervals of a fit with {problem.penalty!r} are not valid: the penalty shrinks coefficients to zero or bounds them. "
            "Take the features that one half of the rows chooses, and fit the other half with penalty='none'"
        )
    ridge = bool(l2.any())
    if covariance == "model" and ridge:
        raise InputError(MODEL_OF_RIDGE)
    every = np.arange(problem.features, dtype=np.uint32)
    curved = problem.hessian(x, every) + np.diag(l2)
    bread = inverse(curved, names)
    check_enough(effective(curved, l2), int(problem.events.sum()), "events")
    if covariance == "robust" or ridge:
        scores = problem.scores(x)
        scores -= scores.sum(axis=0) / problem.n
        found = bread @ (scores.T @ scores / problem.n**2) @ bread
        about = SHRUNK if ridge else BEST
        return Inference(names, x, found, level, np.inf, "robust (Lin and Wei)", about)
    return Inference(names, x, bread / (problem.n * problem.weight), level, np.inf, MODEL, TRUE)


def contrasts(given: Minimiser, robustly: bool, classes: AnyArray) -> Inference:
    """The table for softmax: log odds of each class against the first, which a common shift of all classes does not change."""
    problem, x, l2, _, level = given
    if not problem.loss.probabilities:
        raise InputError("inference is for one output: fit the columns of y one by one")
    if l2.any():
        raise InputError(
            "inference for more than two classes is for penalty='none': of a ridge it is not implemented"
        )
    first, *rest = classes
    labels = [f"{one} vs {first}: {name}" for name in given.every for one in rest]
    bread, spread, _, back = pieces_of(problem, x, l2)
    some = np.arange(x.size) % len(classes) != 0
    check_enough(len(labels), counted_rows(problem), "rows")
    half = back[np.ix_(some, some)] @ inverse(bread[np.ix_(some, some)], labels)
    middle = spread[np.ix_(some, some)] if robustly else bread[np.ix_(some, some)] / problem.weight
    found = half @ middle @ half.T / problem.n
    estimate = (x[:, 1:] - x[:, :1]).ravel()
    told = (ROBUST, BEST) if robustly else (MODEL, TRUE)
    return Inference(labels, estimate, found, level, np.inf, *told)


def by_splitting(model: Linear, data: Prepared, covariance: str | None, level: float) -> Inference:
    """Half of the rows choose the features, and the other half gives their intervals."""
    first, second = halves(data.y.shape[0], seed_of(model.random_state))
    names = feature_names(model)
    with held_warnings():
        chooser = data.take(first).problem(model.penalty_)
        chosen = ExactProxRR(tol=1e-9).solve(chooser).x[: chooser.features]
    used = chosen != 0.0 if chosen.ndim == 1 else np.any(chosen != 0.0, axis=1)
    kept = np.flatnonzero(used).astype(np.uint32)
    if not kept.size:
        raise InputError("the first half of the rows chooses no feature: there is nothing to infer")
    problem = data.take(second).problem(Zero()).columns(kept)
    with held_warnings():
        result = ExactProxRR(tol=TIGHT).solve(problem)
    if not result.reached or endless(result.message):
        raise InputError(
            f"the second half of the rows has no minimiser in the {kept.size} features that the first half chose: {result.message}"
        )
    some = [names[j] for j in kept]
    second_half = Minimiser(problem, result.x, np.zeros(kept.size), some, level)
    found = plain_table(second_half, covariance or "robust", model)
    method = f"{found.method}; data splitting: {kept.size} features chosen by {first.size} rows, intervals by {second.size} others"
    about = "the best model in the chosen features, for the population"
    return replace(found, method=method, about=about)


def by_debiasing(
    problem: Problem, x: Array, names: list[str], covariance: object, level: float
) -> Inference:
    """The debiased lasso, of all features."""
    if covariance == "model":
        raise InputError("method='debiased' has robust standard errors: leave covariance out")
    if not problem.loss.convex:
        raise InputError(
            f"method='debiased' is for convex losses, and {problem.loss!r} is not convex: take method='split'"
        )
    each = problem.form.one_by_one if problem.form is not None else None
    if each is None or each.l2.any() or not np.all(np.isinf(each.low) & np.isinf(each.high)):
        raise InputError(
            f"method='debiased' is for an ℓ1 penalty alone, and this one is {problem.penalty!r}: take method='split'"
        )
    estimate, covariance = debiased(problem, x)
    method = "debiased lasso with robust standard errors; needs a true model with few features"
    return Inference(names, estimate, covariance, level, np.inf, method, BEST)
