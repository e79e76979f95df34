"""Groups of features that came from the same column of a table, for group penalties."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.arrays import Labels
from reshuffle.errors import InputError, shown

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

COLUMNS = "columns"
"""The value of ``groups`` by which an estimator makes a group of each column, from the names of the features."""


def column_groups(source: Any, separator: str = "=") -> Labels:
    """For each feature the number of the column that it came from.

    Parameters
    ----------
    source : the names of features (a list, or an array), where those of one column have the same text before the last
        ``separator``, as in "plan=basic", and a name without it is a column of its own; or a fitted encoder: a
        OneHotEncoder, ColumnTransformer or Pipeline of scikit-learn, or ``model.encoding_``.
    separator : the text between column and category. ``pandas.get_dummies`` writes "plan_basic": give "_" if no other column's name contains it.

    Examples
    --------
    >>> import reshuffle as rs
    >>> rs.penalties.column_groups(["plan=basic", "plan=family", "age"]).tolist()
    [0, 0, 1]
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> encoder = OneHotEncoder().fit([["red", "s"], ["green", "m"], ["green", "l"]])
    >>> rs.penalties.column_groups(encoder).tolist()
    [0, 0, 1, 1, 1]
    """
    if isinstance(source, str):
        raise InputError(f"column_groups takes names or a fitted encoder, got {shown(source)}")
    if isinstance(source, (list, tuple, np.ndarray)) or hasattr(source, "tolist"):
        return _of_names([str(name) for name in source], separator)
    return _numbered(_of_encoder(source, None))


def _of_names(names: list[str], separator: str) -> Labels:
    if not any(separator in name for name in names):
        raise InputError(
            f"column_groups: no name holds the separator {separator!r} (the first names are {shown(names[:3])}), so that "
            "every feature would be its own group; give another separator, or the fitted encoder"
        )
    return _numbered(name.rpartition(separator)[0] or name for name in names)


def _numbered(owners: Iterable[object]) -> Labels:
    """Groups numbered in the order of their first occurrence."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(owner, len(seen)) for owner in owners], dtype=np.int64)


def _of_encoder(encoder: object, columns: list[object] | None) -> list[object]:
    """The column of each output of an encoder; ``columns`` names its inputs, if they are known."""
    # An encoder of this package:
    if hasattr(encoder, "columns") and hasattr(encoder, "feature_names"):
        return [part.name for part in encoder.columns for _ in part.features]
    if hasattr(encoder, "transformers_"):
        return _of_transformers(encoder)
    if hasattr(encoder, "steps"):
        found = columns
        for _, step in encoder.steps:
            if step not in ("passthrough", None) and not hasattr(step, "predict"):
                found = _of_encoder(step, found)
        if found is None:
            raise InputError("column_groups: the Pipeline has no step that makes features")
        return found
    count = int(getattr(encoder, "n_features_in_", 0))
    names: list[object] = list(range(count)) if columns is None else columns
    if hasattr(encoder, "categories_") and hasattr(encoder, "get_feature_names_out"):
        return _of_categories(encoder, names)
    if not hasattr(encoder, "get_feature_names_out") or not count:
        raise InputError(
            f"column_groups takes names of features or a fitted encoder, got {type(encoder).__name__}"
        )
    outputs = len(encoder.get_feature_names_out())
    if outputs == count:  # A scaler or an imputer makes one feature of each column.
        return names
    raise InputError(
        f"column_groups cannot tell which of the {outputs} outputs of {type(encoder).__name__} came from which of its "
        f"{count} columns; give groups as a list of numbers, one per feature"
    )


def _of_categories(encoder: BaseEstimator, names: list[object]) -> list[object]:
    """The column of each output of a OneHotEncoder, which may drop categories and merge rare ones."""
    plain = copy(encoder)
    if "feature_names_in_" in vars(plain):
        del plain.feature_names_in_  # The names given to the inputs are their numbers.
    if hasattr(plain, "feature_name_combiner"):
        plain.feature_name_combiner = "concat"
    outputs = [str(n) for n in plain.get_feature_names_out([str(k) for k in range(len(names))])]
    if len(outputs) == len(names) and type(encoder).__name__ == "OrdinalEncoder":
        return names
    return [names[int(output.partition("_")[0])] for output in outputs]


def _of_transformers(encoder: BaseEstimator) -> list[object]:
    """The column of each output of a ColumnTransformer; each part knows where its outputs are."""
    known = list(getattr(encoder, "feature_names_in_", range(encoder.n_features_in_)))
    width = sum(part.stop - part.start for part in encoder.output_indices_.values())
    owners: list[object] = [None] * width
    for name, step, chosen in encoder.transformers_:
        where = encoder.output_indices_.get(name, slice(0, 0))
        if where.stop == where.start:
            continue
        columns = _chosen(chosen, known)
        owners[where] = columns if step == "passthrough" else _of_encoder(step, columns)
    return owners


def _chosen(chosen: object, known: list[object]) -> list[object]:
    """The columns that a part of a ColumnTransformer was given: by name, number, slice or mask."""
    if isinstance(chosen, (str, int, np.integer)):
        chosen = [chosen]
    if isinstance(chosen, slice):
        return known[chosen]
    given = np.asarray(chosen)
    if given.dtype == bool:
        return [name for name, wanted in zip(known, given, strict=True) if wanted]
    return [known[c] if isinstance(c, (int, np.integer)) else c for c in given.tolist()]
