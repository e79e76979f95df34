"""Sample weights times class weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, shown
from reshuffle.validation import check_weights


def weigh(
    sample_weight: object, class_weight: object, classes: AnyArray, codes: AnyArray
) -> NDArray[np.float64] | None:
    """w_i = sample_weight_i · class_weight of y_i; ``None`` if all are 1.

    "balanced" gives every class the same total: Σw/(K·Σ_{i in class} w_i).
    """
    if sample_weight is not None:
        # Checked first, so that an error names what was given.
        check_weights(sample_weight, codes.size)
    if class_weight is None:
        return None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    given = np.ones(codes.size) if sample_weight is None else np.asarray(sample_weight, dtype=float)
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
