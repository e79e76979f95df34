from __future__ import annotations

from dataclasses import dataclass

from reshuffle.estimators.cross_validation import CrossValidated
from reshuffle.estimators.numbers import LinearRegression


@dataclass(eq=False, repr=False, kw_only=True)
class RRRegressorCV(LinearRegression, CrossValidated):
    """P(w, b) = mean loss + λ·ψ(w), with the λ that does best on held-out rows.

    Parameters and attributes are those of ``RRClassifierCV`` except ``class_weight`` and ``classes_``; ``loss`` is
    as in ``RRRegressor``.

    Examples
    --------
    >>> import reshuffle as rs
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = rs.RRRegressorCV(lambdas=30).fit(X, y)
    >>> model.path_
    <Path: 30 strengths from 2.15 to 0.00215, 0 to 10 features>
    >>> model.cv_losses_.shape, round(model.score(X, y), 2)
    ((30, 5), 0.52)
    """

    loss: object = "squared"
