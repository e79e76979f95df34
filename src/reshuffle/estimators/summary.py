"""Summarises a fitted model in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError
from reshuffle.estimators.loss_names import loss_words
from reshuffle.estimators.outcome import Fitted, ended, endless

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from reshuffle.estimators.linear import Linear

LONGEST = 80
"""Names are cut after this many characters, so that a coefficient is on the same line as its name."""


def summary_of(model: Linear, largest: int, names: Any) -> str:
    """Lines about the fit, then the coefficients of largest size, by name.

    ``names`` may be a fitted transformer, such as the steps of a Pipeline before the model.
    """
    coef = coefficients(model)
    iterations = f"after {model.n_iter_} iteration{'s' * (model.n_iter_ != 1)}"
    lines = {
        "model": f"{type(model).__name__}, {loss_words(model.loss_)} loss",
        "penalty": short(_penalty(model.penalty_)),
        "data": f"{model.n_samples_fit_:,} rows, {model.n_features_in_:,} features",
        "objective": f"{model.objective_:.10g}",
        "coefficients": f"{np.count_nonzero(coef):,} of {coef.size:,} are not zero",
        "ended": f"{ended(model)} {iterations}",
        "certificate": str(model.certificate_),
    }
    if (private := getattr(model, "privacy_", None)) is not None:
        lines |= {"objective": "not evaluated", "privacy": str(private), "ended": iterations}
    if note := endless(model.message_):
        lines["caution"] = note
    if hasattr(model, "classes_"):
        lines["classes"] = short(", ".join(map(str, model.classes_)))
    text = [f"{name:<13}{line}" for name, line in lines.items()]
    known = feature_names(model)
    if names is not None:
        given = names.get_feature_names_out() if hasattr(names, "get_feature_names_out") else names
        known = [str(name) for name in given]
        if len(known) != coef.shape[1]:
            raise InputError(f"names must be {coef.shape[1]}, one per feature, got {len(known)}")
    return "\n".join([*text, *_largest(known, coef, largest)])


def coefficients(model: Fitted) -> Array:
    """A row of coefficients for each output."""
    return np.atleast_2d(dense(model.coef_))


def feature_names(model: Fitted) -> list[str]:
    """The names of the features that a model was fitted to, or x0, x1, …"""
    d = model.n_features_in_
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(d)])]


def summary(pipeline: Pipeline, largest: int = 10) -> str:
    """The ``summary`` of a model at the end of a fitted Pipeline, with the names that the steps before it give.

    Examples
    --------
    >>> import reshuffle as rs
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> pipeline = make_pipeline(StandardScaler(), rs.RRClassifier(penalty="l1", l1=0.1)).fit(X, y)
    >>> print(rs.estimators.summary(pipeline, largest=1))  # doctest: +ELLIPSIS
    model        RRClassifier, logistic loss
    ...
      proline ...
    """
    steps = getattr(pipeline, "steps", None)
    if not steps or not hasattr(steps[-1][1], "summary"):
        raise InputError(
            f"summary takes a fitted Pipeline that ends in a model of this package, got {type(pipeline).__name__}"
        )
    text: str = steps[-1][1].summary(largest, pipeline[:-1] if len(steps) > 1 else None)
    return text


def _penalty(penalty: object) -> str:
    """The repr of the penalty; an array of groups is replaced by their number."""
    groups = getattr(penalty, "groups", None)
    if not isinstance(groups, np.ndarray):
        return repr(penalty)
    count = np.unique(groups[groups >= 0]).size
    return repr(penalty).replace(f"groups={groups!r}", f"{count:,} group{'s' * (count != 1)}")


def by_size(coef: Array, count: int) -> list[int]:
    """The features with the largest coefficients, as many as this where there are so many that are not zero."""
    sizes = np.abs(coef).max(axis=0)
    return [int(j) for j in np.argsort(-sizes, kind="stable")[:count] if sizes[j] > 0]


def _largest(names: list[str], coef: Array, count: int) -> list[str]:
    """A line per feature: its name and its coefficients."""
    known = {j: short(_printable(names[j]), LONGEST) for j in by_size(coef, count)}
    width = max(map(len, known.values()), default=0)
    return [
        f"  {name:<{width}} " + " ".join(f"{value:>11.4g}" for value in coef[:, j])
        for j, name in known.items()
    ]


def _printable(name: str) -> str:
    """A name, which may come from someone else's file, with line ends and control characters escaped as in Python."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def short(text: str, most: int = 100) -> str:
    """A text in one line of at most this many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def dense(matrix: object) -> AnyArray:
    """A sparse matrix as an array; an array is unchanged."""
    found: AnyArray = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)  # type: ignore[attr-defined]
    return found
