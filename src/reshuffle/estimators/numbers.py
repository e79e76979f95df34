"""Linear regressions: from numbers to targets, and from margins to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.inputs import Prepared
from reshuffle.estimators.linear import Array, Linear
from reshuffle.estimators.loss_names import OF_NUMBERS, loss_of, mean_of


class LinearRegression(RegressorMixin, Linear):  # type: ignore[misc]
    """What a linear model of numbers is given, and what it answers."""

    loss: Any

    def prepared(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Prepared:
        """Data as a problem takes them."""
        X = inputs.design(self, X, reset=reset)
        y = inputs.numbers(self, y)
        inputs.check_length(X, y)
        loss = loss_of(self.loss, OF_NUMBERS)
        if loss.targets in ("signs", "classes"):
            raise InputError(f"loss must be one of numbers, got {loss!r}, which is one of classes")
        weights = inputs.weights_of(sample_weight, X.shape[0])
        return Prepared(X, y, loss, weights, y.shape[1:], None)

    def predict(self, X: Any) -> Array:
        """Xw + b, or what the loss says it stands for: exp(Xw + b) for the Poisson loss."""
        margins = self._margins(X)
        if np.ndim(self.intercept_) == 0:
            margins = margins.ravel()  # of sparse coefficients it is a column
        mean = mean_of(self.loss_)
        return margins if mean is None else mean(margins)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², or for counts D², the share of the deviance that the model explains, as scikit-learn's have them."""
        if getattr(self.loss_ if hasattr(self, "loss_") else None, "targets", None) == "counts":
            from sklearn.metrics import d2_tweedie_score

            share = d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1)
            return float(share)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags
