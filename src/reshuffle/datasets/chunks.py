"""A table, some rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError

ROWS = 1 << 14
"""The number of rows in a chunk: enough for the work on a column to outweigh its overhead, a few MB of a typical table."""
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Texts that mark a missing value."""

Texts = Sequence[str | None]
Values = Texts | NDArray[np.float64]
"""A column: texts, with None for a missing value, or numbers, with NaN for a missing value."""


def lacking(
    values: Sequence[object] | AnyArray, missing: Collection[str] = MISSING
) -> NDArray[np.bool_]:
    """The rows of a column that have no value."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return np.isnan(values)
    return np.array([v is None or v in missing or v != v for v in values], dtype=bool)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table, column by column, with the place of each row in the file."""

    columns: Mapping[str, Values]
    places: Sequence[int]
    """The line of a text file on which a row begins, or the number of the row, from 1."""
    where: str
    """The file."""
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: NDArray[np.intp]) -> Chunk:
        columns: dict[str, Values] = {
            name: values[rows] if isinstance(values, np.ndarray) else [values[k] for k in rows]
            for name, values in self.columns.items()
        }
        return Chunk(columns, [self.places[k] for k in rows], self.where, self.unit)

    def place(self, row: int) -> str:
        return f"{self.where}, {self.unit} {self.places[row]}"


def check_names(names: Sequence[str], where: str) -> None:
    """Check that no two columns have the same name."""
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise InputError(f"{where}: two columns have the name {twice[0]!r}; rename one of them")


def listed(names: Sequence[object], most: int = 12) -> str:
    """A list of names for a message, shortened if it is long."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def several(name: str, names: Sequence[str]) -> str:
    """A hint for an option that was given several columns at once, as in --drop a,b; otherwise empty."""
    parts = [part.strip() for part in name.split(",")]
    return "; give the option once for each column" if set(parts) & set(names) else ""
