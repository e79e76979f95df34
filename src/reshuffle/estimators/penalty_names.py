"""Penalties by name, with strengths, factors and signs, and those whose groups are the columns of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.objective import check_penalty
from reshuffle.penalties import ElasticNet, NonNegative, Penalty, Zero
from reshuffle.penalties.column_groups import COLUMNS, column_groups
from reshuffle.validation import as_array, check_finite

USES = {
    "l1": ("l1",),
    "l2": ("l2",),
    "elasticnet": ("l1", "l2"),
    "none": (),
}
"""The strengths that a penalty of this name has."""
STRENGTH = 1e-4
"""The default strength: too small to change a clear effect, and large enough for the minimiser to be unique."""


def penalty_for(model: Any, shape: tuple[int, ...]) -> Penalty:
    """ψ as the parameters of an estimator give it."""
    settings = (model.l1, model.l2, model.penalty_factors, model.positive)
    return penalty_of(by_columns(model.penalty, model), *settings, shape)


def penalty_of(
    given: object, l1: object, l2: object, factors: object, positive: bool, shape: tuple[int, ...]
) -> Penalty:
    """ψ on coefficients of this shape: by its name, or the user's own."""
    if given is not None and not isinstance(given, str):
        settings = {"l1": l1, "l2": l2, "penalty_factors": factors, "positive": positive or None}
        for name, value in settings.items():
            if value is not None:
                raise InputError(
                    f"{name} is for a penalty that is given by name, but the penalty is {shown(given)}; got {name}={shown(value)}"
                )
        return check_penalty(given)
    name = "none" if given is None else given
    if name not in USES:
        raise InputError(
            f"penalty must be one of {', '.join(map(repr, USES))}, or an object, got {given!r}"
        )
    strengths = {"l1": _strength(name, "l1", l1), "l2": _strength(name, "l2", l2)}
    if factors is not None:
        by_feature = _factors(factors, shape)
        strengths = {key: value * by_feature for key, value in strengths.items()}
    if positive:
        return NonNegative(**strengths)
    return ElasticNet(**strengths) if USES[name] else Zero()


def _strength(name: str, strength: str, value: Any) -> Any:
    if strength not in USES[name]:
        if value is not None and value != 0:
            with_it = [repr(other) for other, uses in USES.items() if strength in uses]
            raise InputError(
                f"penalty={name!r} has no {strength}, got {strength}={shown(value)}; "
                f"use penalty={' or '.join(with_it)}"
            )
        return 0.0
    value = STRENGTH if value is None else value
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (number and 0 <= value < np.inf):
        raise InputError(
            f"{strength} must be a number, finite and not negative, got {shown(value)}"
        )
    return float(value)


def _factors(given: object, shape: tuple[int, ...]) -> Array:
    factors = as_array("penalty_factors", given)
    if factors.shape != shape[:1] or factors.dtype.kind not in "fiub":
        raise InputError(
            f"penalty_factors must be {shape[0]} numbers, one per feature, "
            f"got shape {factors.shape}, dtype {factors.dtype}"
        )
    factors = factors.astype(np.float64)
    check_finite("penalty_factors", factors)
    if factors.min() < 0:
        raise InputError(f"penalty_factors must not be negative, got {factors.min():g}")
    # A feature has the same factor for every output.
    return factors.reshape(-1, *[1] * (len(shape) - 1))


def by_columns(penalty: Any, model: object) -> object:
    """The penalty; ``groups="columns"`` is replaced by the groups that the feature names imply."""
    groups = getattr(penalty, "groups", None)
    if not (isinstance(groups, str) and groups == COLUMNS):
        return penalty
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise InputError(
            'groups="columns" needs the names of features, and X has none: give a data frame, or '
            "groups=reshuffle.penalties.column_groups(encoder) with the fitted encoder (in a Pipeline, "
            'set_output(transform="pandas") keeps the names)'
        )
    return replace(penalty, groups=column_groups(names))
