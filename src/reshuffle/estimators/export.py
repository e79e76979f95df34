"""A fitted model as one of scikit-learn's own, for tools that read those, such as ONNX converters and skops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.errors import InputError
from reshuffle.estimators.loss_names import MEANS
from reshuffle.estimators.summary import dense
from reshuffle.losses import Logistic, Multinomial

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from reshuffle.estimators.linear import Linear


def to_sklearn(model: Linear) -> BaseEstimator:
    """A fitted model of scikit-learn with the same coefficients, and so the same predictions.

    It is fitted to one made-up row per class, so that it has every attribute of its version of scikit-learn, and
    then given the coefficients.
    """
    kind = _kind(model)
    if hasattr(model, "classes_"):
        other = kind().fit(np.eye(model.classes_.size), np.arange(model.classes_.size))
        other.classes_ = model.classes_
    else:
        other = kind().fit(np.eye(2), np.ones(2))
    other.coef_, other.intercept_ = dense(model.coef_).copy(), np.copy(model.intercept_)
    if np.ndim(model.intercept_) == 0:
        other.intercept_ = np.float64(model.intercept_)
    other.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        other.feature_names_in_ = model.feature_names_in_
    return other


def _kind(model: Linear) -> Any:
    """The class of scikit-learn whose predictions follow from the margins as ours do."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
    from sklearn.svm import LinearSVC

    loss = model.loss_
    if hasattr(loss, "mean"):
        raise InputError(f"scikit-learn has no model whose predictions are the mean(z) of {loss!r}")
    if hasattr(model, "classes_"):
        if type(loss) not in MEANS:
            return LinearSVC
        if type(loss) in (Logistic, Multinomial):
            return LogisticRegression
        raise InputError(f"scikit-learn has no model with the probabilities of {loss!r}")
    return PoissonRegressor if loss.log_link else LinearRegression
