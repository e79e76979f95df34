from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from reshuffle.estimators.base import LinearEstimator
from reshuffle.estimators.numbers import LinearRegression


@dataclass(eq=False, repr=False, kw_only=True)
class RRRegressor(LinearRegression, LinearEstimator):
    """P(w, b) = (1/Σs) Σ_i s_i·l(a_iᵀw + b, y_i) + ψ(w): a linear regression, at its minimiser.

    With ``penalty="elasticnet"``, ψ(w) = l1·‖w‖₁ + (l2/2)‖w‖². The loss is a weighted *mean*: scikit-learn's
    ``alpha`` becomes ``l1`` and ``l2`` by ``strengths_from_alpha`` (``ElasticNet``, ``Lasso``),
    ``strengths_from_ridge_alpha`` or ``strengths_from_huber_alpha`` of ``reshuffle.estimators``.

    Parameters
    ----------
    loss : "squared", "huber", "quantile" (the median, smoothed over a width of 1 in the units of y), "poisson", "gamma",
        "tweedie" (power 1.5), "inverse_gaussian", "negative_binomial" (dispersion 1), a name with parameters, such as
        "tweedie(1.7)", or a loss with parameters of its own, such as
        ``reshuffle.losses.Quantile(level=0.9, width=0.1)``. They are set as ``loss__level``.

    All others, and the attributes, are those of ``RRClassifier`` but ``class_weight`` and ``classes_``;
    ``coef_`` has shape (features,) and ``intercept_`` is a number. ``fit``, ``predict`` and ``score`` take ``offset``,
    known numbers that are added to the margins, and for losses with a log link ``exposure``, whose logarithm is added.

    Examples
    --------
    >>> import reshuffle as rs
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = rs.RRRegressor(penalty="l1", l1=1.0).fit(X, y)  # the lasso
    >>> [j for j in range(10) if model.coef_[j]], round(float(model.intercept_), 3)
    ([2, 3, 8], 152.133)
    """

    loss: Any = "squared"

    def partial_fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """One shuffled pass over these rows and a prox (an epoch of ProxRR), from the model so far.

        Steps shrink over the calls as ``SampleStream`` says.
        """
        first = not hasattr(self, "coef_")
        return self._advance(self.prepared(X, y, sample_weight, offset, exposure, reset=first))
