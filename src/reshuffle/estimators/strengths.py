"""The strengths that give the same minimiser as the parameters of other libraries.

Here the objective is the mean loss plus l1·‖x‖₁ + (l2/2)‖x‖². Each function returns the keywords ``l1`` and
``l2`` of an estimator with ``penalty="elasticnet"``.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.errors import InputError, shown
from reshuffle.validation import check_positive


class Strengths(TypedDict):
    """Keyword arguments of an estimator."""

    l1: float
    l2: float


def strengths_from_alpha(alpha: float, l1_ratio: float = 0.5) -> Strengths:
    """l1 = alpha·l1_ratio, l2 = alpha·(1 - l1_ratio).

    For scikit-learn's ``ElasticNet``, ``Lasso`` (l1_ratio = 1), ``SGDClassifier`` and ``SGDRegressor``,
    ``PoissonRegressor`` (l1_ratio = 0) and ``QuantileRegressor`` (l1_ratio = 1), which all have a mean loss.

    Examples
    --------
    >>> strengths_from_alpha(0.5, l1_ratio=0.25)
    {'l1': 0.125, 'l2': 0.375}
    """
    check_ratio(l1_ratio)
    _check_not_negative("alpha", alpha)
    return {"l1": float(alpha * l1_ratio), "l2": float(alpha * (1.0 - l1_ratio))}


def strengths_from_ridge_alpha(alpha: float, weight: ArrayLike) -> Strengths:
    """l1 = 0, l2 = alpha/Σw: for scikit-learn's ``Ridge``, whose loss is the sum of squares.

    ``weight`` is the number of rows, or the array of sample weights.

    Examples
    --------
    >>> strengths_from_ridge_alpha(1.0, 200)
    {'l1': 0.0, 'l2': 0.005}
    """
    _check_not_negative("alpha", alpha)
    return {"l1": 0.0, "l2": float(alpha / _total(weight))}


def strengths_from_huber_alpha(alpha: float, scale: float, weight: ArrayLike) -> Strengths:
    """l1 = 0, l2 = alpha·scale/Σw: for scikit-learn's ``HuberRegressor`` at its fitted ``scale_`` σ.

    It minimises Σ_i σ + σ·H(r_i/σ) + alpha·‖x‖² over x and σ, with H(z) = z² up to epsilon and linear beyond.
    At a fixed σ, σ·H(r/σ) is 2/σ times the loss ``Huber(delta=epsilon*scale)`` of this package, which gives
    the strength above.

    Examples
    --------
    >>> strengths_from_huber_alpha(0.5, scale=2.0, weight=100)
    {'l1': 0.0, 'l2': 0.01}
    """
    _check_not_negative("alpha", alpha)
    check_positive("scale", scale)
    return {"l1": 0.0, "l2": float(alpha * scale / _total(weight))}


def strengths_from_C(C: float, weight: ArrayLike, l1_ratio: float = 0.0) -> Strengths:
    """l1 = l1_ratio/(C·Σw), l2 = (1 - l1_ratio)/(C·Σw): for ``LogisticRegression``, whose loss is C times a sum.

    ``weight`` is the number of rows, or the array of sample weights (times class weights) that both are given.

    Examples
    --------
    >>> strengths_from_C(0.1, 100)
    {'l1': 0.0, 'l2': 0.1}
    """
    check_ratio(l1_ratio)
    check_positive("C", C)
    whole = 1.0 / (C * _total(weight))
    return {"l1": float(l1_ratio * whole), "l2": float((1.0 - l1_ratio) * whole)}


def _total(weight: ArrayLike) -> float:
    total = float(np.sum(weight))
    if not 0 < total < np.inf:
        raise InputError(
            f"weight must be the number of rows or their sample weights, got a sum of {total:g}"
        )
    return total


def check_ratio(l1_ratio: object) -> None:
    """Check the share of ℓ1 in an elastic net."""
    if not (isinstance(l1_ratio, (int, float, np.number)) and 0 <= l1_ratio <= 1):
        raise InputError(f"l1_ratio must lie between 0 and 1, got {shown(l1_ratio)}")


def _check_not_negative(name: str, value: object) -> None:
    if not (isinstance(value, (int, float, np.number)) and 0 <= value < np.inf):
        raise InputError(f"{name} must be finite and not negative, got {value!r}")
