"""Linear classifiers: from labels to targets, and from margins to labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.inputs import Prepared
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import (
    has_probabilities,
    loss_of_classes,
    mean_of,
    takes_more_classes,
)
from reshuffle.estimators.weights import weigh


def _probabilities(model: LinearClassifier) -> bool:
    return has_probabilities(model.loss)


class LinearClassifier(ClassifierMixin, Linear):  # type: ignore[misc]
    """The inputs and the predictions of a linear classifier."""

    loss: Any
    class_weight: object

    def prepared(self, X: Any, y: object, sample_weight: Any) -> Prepared:
        """The data in the form that a problem takes; sets ``classes_``."""
        X = inputs.design(self, X, reset=True)
        classes, codes = inputs.labels(self, y)
        weights = inputs.weights_of(sample_weight, X.shape[0])
        inputs.check_length(X, codes)
        weights = weigh(weights, self.class_weight, classes, codes)
        X, classes, codes, weights = _without_empty_classes(X, classes, codes, weights)
        if classes.size < 2:
            raise InputError(f"y must hold two classes or more, got one class: {classes.tolist()}")
        loss = loss_of_classes(self.loss, classes.size)
        if not np.array_equal(getattr(self, "classes_", classes), classes):
            # The old coefficients belong to other classes and are no start.
            self.__dict__.pop("coef_", None)
        self.classes_ = classes
        y, outputs = targets_of(codes, classes.size)
        return Prepared(X, y, loss, weights, outputs, codes)

    def attributes_of(self, x: Array) -> dict[str, Any]:
        """Coefficients and intercepts as rows. A constant added to all intercepts changes no prediction, so they are made to sum to zero."""
        found = super().attributes_of(x)
        if x.ndim == 1:
            found = {name: np.atleast_1d(value) for name, value in found.items()}
            return found | {"coef_": found["coef_"].reshape(1, -1)}
        return found | {"intercept_": found["intercept_"] - found["intercept_"].mean()}

    def solution(self) -> Array:
        x = super().solution()
        return x if self.classes_.size > 2 else np.ascontiguousarray(x[:, 0])

    def decision_function(self, X: object) -> Array:
        """The margins aᵀw + b: one per row for two classes, one per row and class for more."""
        margins = self._margins(X)
        return margins if margins.shape[1] > 1 else margins.ravel()

    def predict(self, X: object) -> AnyArray:
        """The class with the largest margin."""
        margins = self._margins(X)
        codes = (
            margins.argmax(axis=1) if margins.shape[1] > 1 else np.ravel(margins > 0).astype(int)
        )
        chosen: AnyArray = self.classes_[codes]
        return chosen

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> Array:
        """The probability of each class, in the order of ``classes_``."""
        margins, mean = self._margins(X), mean_of(self.loss_)
        if mean is None:
            raise InputError(f"{self.loss_!r} has no probabilities")
        if margins.shape[1] > 1:
            return mean(margins)
        return np.column_stack([mean(-margins.ravel()), mean(margins.ravel())])

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: object) -> Array:
        """The logarithms of the probabilities."""
        with np.errstate(divide="ignore"):  # The logarithm of 0 is -inf.
            logarithms: Array = np.log(self.predict_proba(X))
        return logarithms

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = takes_more_classes(self.loss)
        return tags


def targets_of(codes: AnyArray, count: int) -> tuple[AnyArray, tuple[int, ...]]:
    """Targets as a loss wants them, and the shape of one margin."""
    return (2.0 * codes - 1.0, ()) if count == 2 else (codes, (count,))


def _without_empty_classes(X: Any, classes: Any, codes: Any, weights: Any) -> tuple[Any, ...]:
    """The classes without those that have only rows of weight zero, which count as absent."""
    if weights is None or weights.min() > 0:
        return X, classes, codes, weights
    if np.bincount(codes, weights, minlength=classes.size).min() > 0:
        return X, classes, codes, weights
    kept = weights > 0
    there, codes = np.unique(codes[kept], return_inverse=True)
    return X[kept], classes[there], codes, weights[kept]
