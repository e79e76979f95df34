"""The model of a federation as an estimator, which predicts and can be inspected and saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.estimators.classifier import RRClassifier
from reshuffle.estimators.loss_names import OF_CLASSES, OF_MORE, OF_NUMBERS
from reshuffle.estimators.outcome import certificate_of
from reshuffle.estimators.regressor import RRRegressor
from reshuffle.federated import Learned
from reshuffle.labels import as_written
from reshuffle.losses import Loss
from reshuffle.trace import Result


def from_federation(result: Result) -> Any:
    """The model found by a run over ``federated.Sites``, as a fitted ``RRClassifier`` or ``RRRegressor``.

    It knows the classes, the names of the features, the common scales and encodings, and the certificate. It takes rows in
    their own units, whether sites were standardised or not: the encoding of tables has the scales, and those of matrices
    are part of its coefficients. ``save`` writes the file that ``reshuffle predict`` and ``load`` read.

    Parameters
    ----------
    result : what ``solve(sites)`` of a federated solver returned.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> sites = rs.federated.Sites(
    ...     {"north": (X[:300], y[:300]), "south": (X[300:], y[300:])},
    ...     penalty=rs.penalties.L2(0.01), fit_intercept=True, standardise=True,
    ... )
    >>> model = rs.estimators.from_federation(rs.ExactFedRR(tol=1e-6).solve(sites))
    >>> model.converged_, round(model.score(X, y), 2)
    (True, 0.99)
    """
    learned: Learned | None = getattr(result, "learned", None)
    if learned is None:
        raise InputError(
            "result must be what solve(sites) of a federated solver returned for federated.Sites, "
            f"got {shown(result)}"
        )
    kind = RRClassifier if learned.classes else RRRegressor
    model: Any = kind(penalty=learned.penalty, fit_intercept=learned.intercept)
    model.loss, model.loss_ = _name(learned.loss), learned.loss
    model.penalty_, model.n_samples_fit_ = learned.penalty, learned.samples
    if learned.classes:
        model.classes_ = as_written(np.array(learned.classes))
    model.n_features_in_ = learned.features
    model.set_solution(_in_units(result.x, learned))
    model.set_ending(result, certificate_of(result, getattr(result, "tol", 0.0)))
    if not learned.intercept and learned.centre is not None and learned.centre.any():
        model.intercept_ = model.intercept_ - _shift(result.x, learned)
    if learned.names:
        model.feature_names_in_ = np.array(learned.names, dtype=object)
    if learned.encoding is not None:
        model.encoding_ = learned.encoding
    return model


def _name(loss: Loss) -> object:
    """The name of a loss with default parameters, if the estimators have one for it; otherwise the loss itself."""
    plain = {several: one for one, several in OF_MORE.items()}
    kind = plain.get(type(loss), type(loss))
    for name, known in {**OF_NUMBERS, **OF_CLASSES}.items():
        if known is kind and (kind is not type(loss) or list(known().params) == list(loss.params)):
            return name
    return loss


def _in_units(x: Array, learned: Learned) -> Array:
    """x for rows in their own units: ((a - centre)/scale)ᵀw + b = aᵀ(w/scale) + b - centreᵀ(w/scale)."""
    if learned.scale is None:
        return x
    own, d = x.copy(), learned.features
    own[:d] /= learned.scale.reshape(-1, *[1] * (x.ndim - 1))
    if learned.intercept:
        own[d] -= _shift(x, learned)
    return own


def _shift(x: Array, learned: Learned) -> object:
    """centreᵀ(w/scale), by which the intercept moves."""
    if learned.centre is None or learned.scale is None:
        return 0.0
    return (learned.centre / learned.scale) @ x[: learned.features]
