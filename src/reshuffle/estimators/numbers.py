"""Linear regressions: from numbers to targets, and from margins to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.inputs import Prepared
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import OF_NUMBERS, loss_of, mean_of


class LinearRegression(RegressorMixin, Linear):  # type: ignore[misc]
    """The inputs and the predictions of a linear regression."""

    loss: Any
    log_target_: bool = False
    """Whether the model was fitted to the logarithm of its target, as by ``reshuffle fit --log-target``."""

    def prepared(self, X: Any, y: object, sample_weight: Any, reset: bool = True) -> Prepared:
        """The data in the form that a problem takes."""
        X = inputs.design(self, X, reset=reset)
        y = inputs.numbers(self, y)
        if self.log_target_:  # A model of logarithms gets the logarithms of these targets, too.
            y = np.log(y)
        inputs.check_length(X, y)
        loss = loss_of(self.loss, OF_NUMBERS)
        if loss.targets in ("signs", "classes"):
            raise InputError(f"loss must be one for numbers, got {loss!r}, which is for classes")
        weights = inputs.weights_of(sample_weight, X.shape[0])
        return Prepared(X, y, loss, weights, y.shape[1:], None)

    def predict(self, X: object) -> Array:
        """Xw + b, or the mean that the loss assigns to it: exp(Xw + b) for the Poisson loss.

        A model that was fitted to the logarithm of its target (``log_target_``) gives exp(Xw + b) too.
        """
        margins = self._margins(X)
        if np.ndim(self.intercept_) == 0:
            margins = margins.ravel()  # With sparse coefficients the product is a column.
        mean = np.exp if self.log_target_ else mean_of(self.loss_)
        return margins if mean is None else mean(margins)

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """R², or for counts D², the share of the deviance that the model explains, both as in scikit-learn."""
        if getattr(self.loss_ if hasattr(self, "loss_") else None, "targets", None) == "counts":
            return explained_deviance(y, self.predict(X), sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags


def explained_deviance(y: Any, predicted: Array, sample_weight: Any) -> float:
    """D² = 1 - (deviance of the predictions)/(deviance of the mean), for counts.

    If y does not vary there is nothing to explain: the score is 1 for predictions that are right and 0 for others, as
    scikit-learn defines it for R².
    """
    from sklearn.metrics import mean_poisson_deviance

    left = mean_poisson_deviance(y, predicted, sample_weight=sample_weight)
    mean = np.average(y, weights=sample_weight)
    constant = np.full(len(predicted), mean)
    whole = mean_poisson_deviance(y, constant, sample_weight=sample_weight) if mean > 0 else 0.0
    if not whole > np.finfo(float).eps * mean:  # This is zero up to rounding.
        return float(np.isclose(left, 0.0))
    return float(1.0 - left / whole)
