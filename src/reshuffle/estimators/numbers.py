"""Linear regressions: convert numbers to targets, and margins to predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.array_api import answers_in_kind, here
from reshuffle.estimators.inputs import Prepared, origin_of
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import OF_NUMBERS, loss_of, mean_of
from reshuffle.losses import Loss
from reshuffle.losses.names import split_name
from reshuffle.losses.targets import check_targets
from reshuffle.penalties import Zero
from reshuffle.problem import Problem


class LinearRegression(RegressorMixin, Linear):  # type: ignore[misc]
    """The inputs and the predictions of a linear regression."""

    loss: object
    log_target_: bool = False
    """Whether the model was fitted to the logarithm of its target, as by ``reshuffle fit --log-target``."""

    def prepared(
        self,
        X: object,
        y: object,
        sample_weight: object,
        offset: object = None,
        exposure: object = None,
        reset: bool = True,
    ) -> Prepared:
        """Data as a problem takes them."""
        X = inputs.design(self, X, reset=reset)
        y = inputs.numbers(self, y)
        if self.log_target_:  # A model of logarithms gets the logarithms of these targets, too.
            y = np.log(y)
        inputs.check_length(X, y)
        loss = loss_of(self.loss, OF_NUMBERS)
        if loss.targets in ("signs", "classes"):
            raise InputError(f"loss must be one for numbers, got {loss!r}, which is for classes")
        weights = inputs.weights_of(sample_weight, X.shape[0])
        offsets = inputs.offsets_of(offset, exposure, X.shape[0], loss.for_targets(y))
        self._origin = origin_of(loss, y, weights, offsets) if self.fit_intercept else 0.0
        outputs = y.shape[1:]
        return Prepared(
            X, y, loss, weights, outputs, None, self.fit_intercept, offsets, self._origin
        )

    @answers_in_kind
    def predict(self, X: object, offset: object = None, exposure: object = None) -> Array:
        """Xw + b + offset; for losses with a log link exposure·exp(Xw + b + offset).

        A model that was fitted to the logarithm of its target (``log_target_``) also predicts exp(Xw + b). Without an
        exposure the prediction is for one unit of exposure: a rate.
        """
        margins = self._margins(X, offset, exposure)
        if np.ndim(self.intercept_) == 0:
            margins = margins.ravel()  # With sparse coefficients the product is a column.
        mean = np.exp if self.log_target_ else mean_of(self.loss_)
        return margins if mean is None else mean(margins)

    def score(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> float:
        """R², or for losses with a log link D², the share of the deviance that the model explains, as in scikit-learn.

        With offsets or exposures the empty model of D² is the best intercept in addition to them.
        """
        predicted, y = here(self.predict(X, offset, exposure)), here(y)
        sample_weight = here(sample_weight)
        if getattr(getattr(self, "loss_", None), "log_link", False):
            known = inputs.offsets_of(offset, exposure, len(predicted), self.loss_)
            return explained_deviance(self.loss_, y, predicted, sample_weight, known)
        from sklearn.metrics import r2_score

        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = _is_positive(self.loss)
        return tags


def _is_positive(loss: object) -> bool:
    """Whether a loss, by name or as an object, needs targets that are not negative."""
    if isinstance(loss, str):
        kind = OF_NUMBERS.get(split_name(loss)[0])
        return kind is not None and kind.log_link
    return bool(getattr(loss, "log_link", False))


def explained_deviance(
    loss: Loss, y: object, predicted: Array, sample_weight: object, offsets: Array | None
) -> float:
    """D² = 1 - (deviance of the predictions)/(deviance of the empty model); the loss is half the deviance.

    The empty model is the mean, or with offsets the best intercept in addition to them. If y does not vary, D² is 1 for
    exact predictions and 0 for others, like scikit-learn's R².
    """
    targets = check_targets(y, len(predicted), loss)
    weights = np.ones(len(targets)) if sample_weight is None else np.asarray(sample_weight, float)

    def mean_loss(z: Array) -> float:
        values = loss.oracle(z, targets, *loss.params)  # type: ignore[misc]
        return float(np.average(np.where(weights > 0, values, 0.0), weights=weights))

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        left = mean_loss(np.log(predicted))
    mean = float(np.average(targets, weights=weights))
    if not mean > 0.0:
        return float(np.isclose(left, 0.0))
    whole = mean_loss(_empty(loss, targets, weights, offsets, mean))
    if not whole > np.finfo(float).eps * max(mean, 1.0):  # This is zero up to rounding.
        return float(np.isclose(left, 0.0))
    return float(1.0 - left / whole)


def _empty(loss: Loss, y: Array, weights: Array, offsets: Array | None, mean: float) -> Array:
    if offsets is None:
        return np.full(len(y), np.log(mean))
    nothing = np.zeros((len(y), 1))
    alone = Problem(nothing, y, loss, Zero(), 0.0, weights, fit_intercept=True, offset=offsets)
    found: Array = offsets + alone.without_features()[-1]
    return found
