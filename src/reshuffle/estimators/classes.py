"""Linear classifiers: convert labels to targets, and margins to labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if

from reshuffle.arrays import AnyArray, Array, Mask
from reshuffle.errors import InputError, shown
from reshuffle.estimators import inputs
from reshuffle.estimators.array_api import answers_in_kind, here
from reshuffle.estimators.inputs import Prepared
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import (
    has_probabilities,
    loss_of_classes,
    mean_of,
    takes_more_classes,
)
from reshuffle.validation import check_weights


def _probabilities(model: LinearClassifier) -> bool:
    return has_probabilities(model.loss)


class LinearClassifier(ClassifierMixin, Linear):  # type: ignore[misc]
    """The inputs and the predictions of a linear classifier."""

    loss: object
    class_weight: object

    def prepared(
        self,
        X: Any,
        y: object,
        sample_weight: object,
        offset: object = None,
        exposure: object = None,
        named: AnyArray | None = None,
        reset: bool = True,
    ) -> Prepared:
        """Check the data, convert them for a problem, and record the classes: the labels of y, or those ``named``."""
        X = inputs.design(self, X, reset=reset)
        classes, codes = (
            inputs.labels(self, y) if named is None else inputs.known_labels(self, y, named)
        )
        inputs.check_length(X, codes)
        weights = weigh(sample_weight, self.class_weight, classes, codes)
        kept = _rows_of_classes(classes, codes, weights) if named is None else None
        if kept is not None and weights is not None:
            there, codes = np.unique(codes[kept], return_inverse=True)
            X, classes, weights = X[kept], classes[there], weights[kept]
        if classes.size < 2:
            raise InputError(f"y must hold two classes or more, got one class: {classes.tolist()}")
        loss = loss_of_classes(self.loss, classes.size)
        if not np.array_equal(getattr(self, "classes_", classes), classes):
            # The old coefficients belong to other classes and are no start.
            self.__dict__.pop("coef_", None)
        self.classes_ = classes
        offsets = inputs.offsets_of(offset, exposure, len(codes if kept is None else kept), loss)
        offsets = offsets if offsets is None or kept is None else offsets[kept]
        y, outputs = (codes, (classes.size,)) if classes.size > 2 else (2.0 * codes - 1.0, ())
        return Prepared(X, y, loss, weights, outputs, codes, self.fit_intercept, offsets)

    def attributes_of(self, x: Array) -> dict[str, AnyArray]:
        """Coefficients and intercepts as rows. A constant added to all intercepts changes no prediction, so they are made to sum to zero."""
        coef, intercept = super().attributes_of(x).values()
        if x.ndim == 1:
            return {"coef_": coef.reshape(1, -1), "intercept_": np.atleast_1d(intercept)}
        return {"coef_": coef, "intercept_": intercept - intercept.mean()}

    def solution(self) -> Array:
        x = super().solution()
        return x if self.classes_.size > 2 else np.ascontiguousarray(x[:, 0])

    @answers_in_kind
    def decision_function(self, X: object, offset: object = None) -> Array:
        """The margins aᵀw + b (+ offset): one per row for two classes, one per row and class for more."""
        margins = self._margins(X, offset)
        return margins if margins.shape[1] > 1 else margins.ravel()

    @answers_in_kind
    def predict(self, X: object, offset: object = None) -> AnyArray:
        """The class with the largest margin; of two, the one that is more likely."""
        margins = self._margins(X, offset)
        if margins.shape[1] > 1:
            codes = margins.argmax(axis=1)
        else:
            codes = np.ravel(margins > self.loss_.boundary).astype(int)
        chosen: AnyArray = self.classes_[codes]
        return chosen

    def score(
        self, X: object, y: object, sample_weight: object = None, offset: object = None
    ) -> float:
        """The share of rows whose class is predicted."""
        from sklearn.metrics import accuracy_score

        predicted = here(self.predict(X, offset))
        return float(accuracy_score(here(y), predicted, sample_weight=here(sample_weight)))

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    @answers_in_kind
    def predict_proba(self, X: object, offset: object = None) -> Array:
        """The probability of each class, in the order of ``classes_``."""
        margins, mean = self._margins(X, offset), mean_of(self.loss_)
        if mean is None:
            raise InputError(f"{self.loss_!r} has no probabilities")
        if margins.shape[1] > 1:
            return mean(margins)
        z = margins.ravel()
        other = mean(-z) if self.loss_.boundary == 0.0 else 1.0 - mean(z)
        return np.column_stack([other, mean(z)])

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    @answers_in_kind
    def predict_log_proba(self, X: object, offset: object = None) -> Array:
        """The logarithms of the probabilities."""
        with np.errstate(divide="ignore"):  # log 0 = -inf
            logarithms: Array = np.log(here(self.predict_proba(X, offset)))
        return logarithms

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = takes_more_classes(self.loss)
        return tags


def _rows_of_classes(classes: AnyArray, codes: AnyArray, weights: AnyArray | None) -> Mask | None:
    """The rows of positive weight if some class has none, so that the class is absent; otherwise None."""
    if weights is None or weights.min() > 0:
        return None
    if np.bincount(codes, weights, minlength=classes.size).min() > 0:
        return None
    kept: Mask = weights > 0
    return kept


def weigh(
    sample_weight: object, class_weight: object, classes: AnyArray, codes: AnyArray
) -> NDArray[np.float64] | None:
    """w_i = sample_weight_i · class_weight of y_i; ``None`` if all are 1.

    "balanced" gives every class the same total: Σw/(K·Σ_{i in class} w_i).
    """
    weights = inputs.weights_of(sample_weight, codes.size)
    check_weights(weights, codes.size)  # Checked first, so that an error names what was given.
    if class_weight is None:
        return None if weights is None else np.asarray(weights, dtype=np.float64)
    given = np.ones(codes.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, given, minlength=classes.size)
        with np.errstate(divide="ignore"):
            factors = np.where(totals > 0, totals.sum() / (classes.size * totals), 0.0)
    elif isinstance(class_weight, Mapping):
        factors = compute_class_weight(dict(class_weight), classes=classes, y=classes[codes])
        if not (np.isfinite(factors).all() and factors.min() >= 0):
            raise InputError(f"class_weight must not be negative, got {shown(class_weight)}")
    else:
        raise InputError(
            f'class_weight must be None, "balanced" or a dict from class to weight, got {shown(class_weight)}'
        )
    weighed: NDArray[np.float64] = given * factors[codes]
    return weighed
