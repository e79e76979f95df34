"""Tables in memory as chunks of rows: pandas, polars, pyarrow, or a dict of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.chunks import Chunk, Values, check_names
from reshuffle.datasets.dates import as_days, days
from reshuffle.errors import InputError

WHERE = "the table"


def is_table(X: object) -> bool:
    """Whether X has columns with names: a data frame, a table of pyarrow, a dict of columns, or a list of dicts."""
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(row, Mapping) for row in X)
    if isinstance(X, Mapping) or any(
        hasattr(X, name) for name in ("collect_schema", "column_names")
    ):
        return True  # collect_schema is of polars, whose lazy frames warn when they are asked for more.
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


def chunk_of(table: object, wanted: Iterable[str], dates: Iterable[str] = ()) -> Chunk:
    """The rows of a table, with those of the ``wanted`` columns that it has."""
    if isinstance(table, (list, tuple)):  # A list of dicts holds rows, as in JSON.
        names = dict.fromkeys(name for row in table for name in row)
        table = {name: [row.get(name) for row in table] for name in names}
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):
        raise InputError(f"the table must be in memory, got a {type(table).__name__}: collect it")
    held: Any = table
    named = held if isinstance(table, Mapping) else getattr(held, "column_names", None)
    there = [str(name) for name in (held.columns if named is None else named)]
    check_names(there, WHERE)
    known, days_of = set(there), set(dates)
    columns = {name: _values(table, name, name in days_of) for name in wanted if name in known}
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} has {size:,}" for name, size in list(sizes.items())[:6])
        raise InputError(f"the columns of {WHERE} must have equally many rows: {told}")
    rows = next(iter(sizes.values()), 0)
    others: dict[str, Values] = {name: np.empty(0) for name in there if name not in columns}
    return Chunk({**columns, **others}, range(rows), WHERE, "row")


def _values(table: Any, name: str, as_date: bool) -> Values:
    """A column as numbers, with NaN for a missing value, or as texts, with None for a missing value."""
    column = table[name]
    if np.ndim(column) == 0 and not hasattr(column, "__len__"):
        raise InputError(
            f"column {name!r} must be a list of values, got {column!r}: write [{column!r}]"
        )
    zone = getattr(getattr(column, "dt", None), "tz", None)
    if zone is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = np.asarray(column)
    if values.ndim != 1:
        raise InputError(f"column {name!r} must hold one value per row, got shape {values.shape}")
    if values.dtype.kind in "mM" or (values.dtype == object and _has_dates(values)):
        if not as_date:
            raise InputError(
                f"column {name!r} holds dates or times, which the model reads as something else; "
                "fit it with --date to take them for days"
            )
        return _days(values)
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    given = [None if _absent(v) else v for v in values.tolist()]
    if as_date:
        absent = np.array([v is None for v in given], dtype=bool)
        return as_days(given, f"column {name}", absent, lambda row: f"{WHERE}, row {row}")
    if values.dtype == object and all(v is None or _is_number(v) for v in given):
        return np.array(given, dtype=np.float64)
    return [None if v is None else str(v).strip() for v in given]


def _has_dates(values: AnyArray) -> bool:
    first = next((v for v in values if not _absent(v)), None)
    return isinstance(first, date)  # datetime, and pandas' Timestamp, are subclasses of date.


def _days(values: AnyArray) -> NDArray[np.float64]:
    if values.dtype.kind == "M":
        since = values.astype("datetime64[us]") - np.datetime64(0, "us")
        return np.where(np.isnat(values), np.nan, since.astype(np.float64) / 86_400e6)
    if values.dtype.kind == "m":
        raise InputError("a column holds durations: give them as numbers, in a unit of your choice")
    return np.array([np.nan if _absent(v) else days(v) for v in values])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))


def _absent(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
