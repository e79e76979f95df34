"""Dates and times as numbers: days since 1970-01-01, in UTC if a time zone is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.datasets.chunks import Chunk, Values, lacking
from reshuffle.errors import InputError, shown

DAY = 86_400.0
"""Seconds of a day."""
EPOCH = datetime(1970, 1, 1)
YEAR_FIRST = re.compile(r"^(\d{4})([/.])(\d{1,2})\2(\d{1,2})(?!\d)")
"""Dates that begin with the year but are not written as in ISO 8601; their order is unambiguous."""


def days(value: Any) -> float:
    """Days since 1970-01-01 of a date or of a text that begins with the year; a ``ValueError`` for another text.

    Texts are read as ISO 8601 writes them, and with slashes or points between year, month and day.

    Examples
    --------
    >>> days("1970-01-03"), days("1970-01-01 12:00"), days("1970-01-01T01:00+01:00")
    (2.0, 0.5, 0.0)
    >>> days("1970/01/03"), days("1970.1.3 12:00")
    (2.0, 2.5)
    """
    moment = value
    if isinstance(value, str):
        iso = YEAR_FIRST.sub(lambda d: f"{d[1]}-{d[3]:0>2}-{d[4]:0>2}", value)
        moment = datetime.fromisoformat(iso)
    elif not isinstance(value, datetime):
        moment = datetime(value.year, value.month, value.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return float((moment - EPOCH).total_seconds() / DAY)


def readable(text: str) -> bool:
    """Whether ``days`` can read a text."""
    try:
        days(text)
    except ValueError:
        return False
    return True


def as_days(
    values: Values, told: str, absent: NDArray[np.bool_], place: Callable[[int], str]
) -> NDArray[np.float64]:
    """A column of dates as numbers of days, with NaN for a missing value; numbers are taken as days."""
    if isinstance(values, np.ndarray):
        return values
    found = np.full(len(values), np.nan)
    for row in np.flatnonzero(~absent).tolist():
        try:
            found[row] = days(values[row])
        except ValueError:
            raise InputError(
                f"{place(row)}: {told}: dates are written as 2024-01-31, 2024/01/31 or "
                f"2024-01-31T12:00, got {shown(values[row])}"
            ) from None
    return found


def dated(chunk: Chunk, names: tuple[str, ...], missing: frozenset[str]) -> Chunk:
    """The chunk with these columns as days."""
    if not names or not len(chunk):
        return chunk
    changed: dict[str, Values] = {}
    for name in names:
        values = chunk.columns[name]
        changed[name] = as_days(values, f"--date {name}", lacking(values, missing), chunk.place)
    return Chunk({**chunk.columns, **changed}, chunk.places, chunk.where, chunk.unit)
