from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.base import Array, LinearEstimator
from reshuffle.estimators.hooks import with_callbacks
from reshuffle.estimators.loss_names import OF_NUMBERS, loss_of, mean_of
from reshuffle.losses import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class RRRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """P(w, b) = (1/Σs) Σ_i s_i·l(a_iᵀw + b, y_i) + ψ(w): a linear regression, at its minimiser.

    With ``penalty="elasticnet"``, ψ(w) = l1·‖w‖₁ + (l2/2)‖w‖². The loss is a weighted *mean*: scikit-learn's
    ``alpha`` becomes ``l1`` and ``l2`` by ``strengths_from_alpha`` (``ElasticNet``, ``Lasso``),
    ``strengths_from_ridge_alpha`` or ``strengths_from_huber_alpha`` of ``reshuffle.estimators``.

    Parameters
    ----------
    loss : "squared", "huber", "quantile" (the median, smoothed over a width of 1 in the units of y), "poisson"
        (where this version has it), or a loss with parameters of its own, such as
        ``reshuffle.losses.Quantile(level=0.9, width=0.1)``. They are set as ``loss__level``.

    All others, and the attributes, are those of ``RRClassifier`` but ``class_weight`` and ``classes_``;
    ``coef_`` has shape (features,) and ``intercept_`` is a number.

    Examples
    --------
    >>> import reshuffle as rs
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = rs.RRRegressor(penalty="l1", l1=1.0).fit(X, y)  # the lasso
    >>> [j for j in range(10) if model.coef_[j]], round(model.intercept_, 3)
    ([2, 3, 8], 152.133)
    """

    loss: Any = "squared"

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the minimiser for these rows and targets."""
        X = inputs.design(self, X, reset=True)
        y, weights, outputs = self._targets(X, y, sample_weight)
        return self._learn(X, y, self._loss(), weights, outputs)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One shuffled pass over these rows and a prox (an epoch of ProxRR), from the model so far.

        Steps shrink over the calls as ``Stream`` says.
        """
        X = inputs.design(self, X, reset=not hasattr(self, "coef_"))
        y, weights, outputs = self._targets(X, y, sample_weight)
        return self._advance(X, y, self._loss(), weights, outputs)

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, tuple[int, ...]]:
        y = inputs.numbers(self, y)
        inputs.check_length(X, y)
        return y, inputs.weights_of(sample_weight, X.shape[0]), y.shape[1:]

    def _loss(self) -> Loss:
        loss = loss_of(self.loss, OF_NUMBERS)
        if loss.targets in ("signs", "classes"):
            raise InputError(f"loss must be one of numbers, got {loss!r}, which is one of classes")
        return loss

    def predict(self, X: Any) -> Array:
        """Xw + b, or what the loss says it stands for: exp(Xw + b) for the Poisson loss."""
        margins = self._margins(X)
        if np.ndim(self.intercept_) == 0:
            margins = margins.ravel()  # of sparse coefficients it is a column
        mean = mean_of(self.loss_)
        return margins if mean is None else mean(margins)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags
