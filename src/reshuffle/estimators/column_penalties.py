"""Penalties whose groups are the columns of the table that an estimator is fitted to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reshuffle.errors import InputError
from reshuffle.penalties.column_groups import COLUMNS, column_groups


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
