"""From the columns of a table to the features of a linear model, in the same way for fitting and predicting.

A column of numbers is a feature of its own name. A column of categories becomes one feature of zeros and ones for
each level, named ``colour=red``. An encoding is part of a model file, as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array
from reshuffle.datasets.chunks import Chunk, Values, listed
from reshuffle.datasets.columns import Column, most_frequent, number_name
from reshuffle.datasets.dates import dated
from reshuffle.datasets.frames import chunk_of
from reshuffle.datasets.numbers import is_number
from reshuffle.errors import InputError, warn_user

Note = Callable[[str], None]
"""A function that tells the user something, once for each text."""
Rows = NDArray[np.intp] | slice
"""Indices of rows, or a slice for all of them."""
SPARSE = 0.2
"""If a smaller share of the values can be nonzero, the rows are kept as a sparse matrix."""


@dataclass(frozen=True)
class Number:
    """(value - centre)/scale of a column of numbers; ``fill`` replaces a missing value."""

    name: str
    fill: float | None = None
    centre: float = 0.0
    scale: float = 1.0
    date: bool = False
    """Whether the column holds dates, which are taken as days since 1970-01-01."""

    @property
    def features(self) -> list[str]:
        return [self.name]

    def encode(self, column: Column, note: Note) -> Array:
        _, wrong = column.not_numbers()
        if wrong is not None:
            raise InputError(
                f"{wrong[1]}: column {self.name!r} must hold a number, got {wrong[0][:60]!r}"
            )
        values = column.numbers()
        if column.lacking:
            values = np.where(np.isnan(values), fill_of(self, column), values)
        if self.centre == 0.0 and self.scale == 1.0:
            return values
        with np.errstate(under="ignore"):
            # Halves: no difference overflows.
            return (0.5 * values - 0.5 * self.centre) / self.scale * 2.0


@dataclass(frozen=True)
class Category:
    """A one at the level of a row, zeros elsewhere; ``fill`` is the level of a missing value."""

    name: str
    levels: tuple[str, ...]
    fill: str | None = None

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.levels]

    def spelled(self, values: Values) -> Values:
        """Values as the levels are written: a number that is no level becomes the level of the same value, since a
        file may have 3 where another, or one with gaps, has 3.0, and a frame keeps neither."""
        if isinstance(values, np.ndarray) and np.isinf(values).any():
            return values  # Column refuses such a value and names its place.
        given = values.tolist() if isinstance(values, np.ndarray) else values
        exact = set(self.levels)
        same = {float(level): level for level in reversed(self.levels) if is_number(level)}

        def level_of(value: str | float) -> str:
            text = value if isinstance(value, str) else number_name(value)
            return text if text in exact or not is_number(text) else same.get(float(text), text)

        known = {
            value: level_of(value) for value in set(given) if value is not None and value == value
        }
        return [known.get(value) for value in given]

    def encode(self, column: Column, note: Note) -> NDArray[np.int32]:
        """For each row the number of its level, -1 for an unknown one."""
        said, codes = column.categories()
        found = [str(level) for level in self.spelled(said)]
        known = {level: k for k, level in enumerate(self.levels)}
        strange = [level for level in found if level not in known]
        if strange:
            note(
                f"column {self.name!r} holds {strange[0][:60]!r} ({column.place_of(strange[0])}), which the model has "
                "not seen: in such rows all features of this column are zero"
            )
        if column.lacking:
            found = [*found, str(fill_of(self, column))]  # Code -1 stands for an unknown level.
        table = np.array([known.get(level, -1) for level in found], dtype=np.int32)
        return table[codes] if table.size else codes


Part = Number | Category


def fill_of(part: Part, column: Column) -> float | str:
    """The value that replaces a missing one; raises ``InputError`` if the encoding has none."""
    if part.fill is None:
        more = f" ({column.lacking:,} such values in this column)" if column.lacking > 1 else ""
        raise InputError(
            f"{column.lacking_at}: column {part.name!r} has no value{more}. Fill it in, leave the row out, or fit with "
            "--impute to fill in the median or the most frequent category, now and when the model predicts"
        )
    return part.fill


@dataclass(frozen=True)
class TableEncoding:
    """The columns of a table that a model reads, in order, and its target."""

    columns: tuple[Part, ...]
    target: str
    missing: tuple[str, ...]
    separator: str = ","
    header: bool = True

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.features]

    @property
    def names(self) -> list[str]:
        """The columns that a model reads."""
        return [part.name for part in self.columns]

    @property
    def dates(self) -> tuple[str, ...]:
        """The columns that hold dates."""
        return tuple(part.name for part in self.columns if getattr(part, "date", False))

    def get_feature_names_out(self, input_features: object = None) -> AnyArray:
        """The names of the features, in the order of the coefficients."""
        return np.array(self.feature_names, dtype=object)

    def transform(self, table: object) -> Array | sp.csr_matrix:
        """Raw rows (pandas, polars, pyarrow, or a dict of columns) as the matrix that the model takes.

        Columns are found by name, in any order, and others are ignored. A category that the model has not seen
        causes a warning, and has zeros in all features of its column.
        """
        chunk = chunk_of(table, self.names, self.dates)
        return self.rows(chunk, lambda text: warn_user(text, UserWarning))

    def check(self, chunk: Chunk) -> None:
        """Check that all columns that the model reads are present; others may be present, too."""
        absent = [part.name for part in self.columns if part.name not in chunk.columns]
        if absent:
            raise InputError(
                f"{chunk.where} lacks {listed([repr(n) for n in absent])}, which the model reads; its columns are "
                f"{listed(list(chunk.columns))}"
            )

    def rows(self, chunk: Chunk, note: Note) -> Array | sp.csr_matrix:
        """The rows of a chunk as a matrix."""
        return self.matrix(self.collected(chunk), note)

    def collected(self, chunk: Chunk) -> list[Column]:
        """The columns that the model reads, checked, each as numbers or categories."""
        self.check(chunk)
        missing = frozenset(self.missing)
        chunk = dated(chunk, self.dates, missing)
        columns = []
        for part in self.columns:
            levels = getattr(part, "levels", None)
            column = Column(part.name, missing - set(levels or ()), forced=levels is not None)
            values = chunk.columns[part.name]
            if isinstance(part, Category):
                values = part.spelled(values)
            column.add(values, chunk)
            columns.append(column)
        return columns

    def matrix(self, columns: list[Column], note: Note) -> Array | sp.csr_matrix:
        """Collected columns as a matrix: dense, or CSR if most of it is zero."""
        encoded = [p.encode(c, note) for p, c in zip(self.columns, columns, strict=True)]
        widths = [len(part.features) for part in self.columns]
        sparse = len(widths) < SPARSE * sum(widths)
        starts = np.concatenate([[0], np.cumsum(widths)])
        n = encoded[0].size if encoded else 0
        return (_sparse if sparse else _dense)(encoded, starts, (n, int(starts[-1])))

    def to_json(self) -> dict[str, object]:
        about = {k: v for k, v in vars(self).items() if k != "columns"} | {"kind": "table"}
        return about | {"columns": [asdict(part) for part in self.columns]}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> TableEncoding:
        """The encoding that ``to_json`` wrote; anything else raises ``ValueError``, ``KeyError`` or ``TypeError``."""
        return cls(
            tuple(map(_part, about["columns"])), str(about["target"]), tuple(map(str, about["missing"])),
            str(about["separator"]), bool(about["header"]),
        )  # fmt: skip


def _part(about: Mapping[str, Any]) -> Part:
    name, fill = str(about["name"]), about["fill"]
    if "levels" in about:
        return Category(name, tuple(map(str, about["levels"])), None if fill is None else str(fill))
    fill, centre, scale = (
        None if fill is None else float(fill),
        *map(float, (about["centre"], about["scale"])),
    )
    if not scale or not np.isfinite([fill or 0.0, centre, scale]).all():
        raise ValueError("a column is scaled by something that is no number")
    return Number(name, fill, centre, scale, bool(about.get("date", False)))


@np.errstate(under="ignore")  # Values that are tiny beside the largest one may underflow to zero.
def learned(
    column: Column, rows: Rows, *, impute: bool, standardise: bool, date: bool = False
) -> Part:
    """The encoding of a column, learned from these of its rows."""
    if column.kind() == "category":
        levels, codes = column.categories()
        codes = codes[rows]
        seen = np.unique(codes[codes >= 0])
        _refuse_unseen(column, seen.size)
        known = tuple(levels[k] for k in seen)
        return Category(column.name, known, levels[most_frequent(codes)] if impute else None)
    values = column.numbers()[rows]
    values = values[~np.isnan(values)]
    _refuse_unseen(column, values.size)
    power = int(np.frexp(np.abs(values).max())[1])
    # Values are at most 1 in size, so no sum and no square overflows.
    values = np.ldexp(values, -power)

    def back(value: float) -> float:
        with np.errstate(under="ignore"):  # What is too small for a float64 becomes 0.
            return float(np.ldexp(value, power))

    part = Number(column.name, back(np.median(values)) if impute else None, date=date)
    if not standardise:
        return part
    return replace(part, centre=back(values.mean()), scale=back(values.std()) or 1.0)


def _refuse_unseen(column: Column, values: int) -> None:
    if not values:
        raise InputError(
            f"column {column.name!r} holds no value in the rows to learn from, only in those that are held out; "
            "leave it out with --drop, or give another --seed or --holdout"
        )


def _dense(encoded: list[AnyArray], starts: AnyArray, shape: tuple[int, int]) -> Array:
    X = np.zeros(shape)
    for values, start in zip(encoded, starts, strict=False):
        if values.dtype == np.float64:
            X[:, start] = values
        else:
            rows = np.flatnonzero(values >= 0)
            X[rows, start + values[rows]] = 1.0
    return X


def _sparse(encoded: list[AnyArray], starts: AnyArray, shape: tuple[int, int]) -> sp.csr_matrix:
    rows, columns, data = [], [], []
    for values, start in zip(encoded, starts, strict=False):
        number = values.dtype == np.float64
        here = np.flatnonzero(values if number else values >= 0)
        rows.append(here)
        columns.append(np.full(here.size, start) if number else start + values[here])
        data.append(values[here] if number else np.ones(here.size))
    places = (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_matrix((np.concatenate(data), places), shape=shape)
