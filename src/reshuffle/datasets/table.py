"""A whole table as rows and targets, with the encoding that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.datasets.chunks import MISSING, Chunk, Values, lacking, listed, several
from reshuffle.datasets.columns import Column
from reshuffle.datasets.csv_file import unnamed
from reshuffle.datasets.dates import dated
from reshuffle.datasets.encoding import Rows, TableEncoding, learned
from reshuffle.datasets.rows_encoding import Encoding
from reshuffle.errors import InputError


@dataclass(frozen=True)
class Reading:
    """How to read a file; what is not given is inferred from its name and its first bytes."""

    target: str | None = None
    format: str | None = None
    separator: str | None = None
    header: bool = True
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: tuple[str, ...] = MISSING
    impute: bool = False
    standardise: bool = True
    """Scale columns of numbers to mean 0 and standard deviation 1, so that a penalty treats them alike."""
    dates: tuple[str, ...] = ()
    """Columns of dates, which become days since 1970-01-01."""
    aside: tuple[str, ...] = ()
    """Columns that are kept beside the rows, such as groups and times; they are features only if ``dates`` has them too."""
    drop_missing_target: bool = False
    """Leave out rows whose target has no value."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, targets (numbers, or labels as text), and how both came from the file.

    It unpacks as ``X, y, encoding``.
    """

    X: Any
    y: AnyArray
    encoding: Encoding
    aside: Mapping[str, AnyArray] = field(default_factory=dict)
    """The columns kept aside, which are not features."""
    dropped: int = 0
    """The number of rows that were left out because their target is missing."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """For each column, the number of missing values that were filled in."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.encoding))


LearnFrom = Callable[[AnyArray, Mapping[str, AnyArray]], Rows]
"""From the targets and the columns that were kept aside, the rows that an encoding is learned from."""


def everything(y: AnyArray, aside: Mapping[str, AnyArray]) -> Rows:
    """All rows."""
    return slice(None)


def read_table(
    chunks: Iterator[Chunk], reading: Reading, where: str, learn_from: LearnFrom = everything
) -> Data:
    """All rows of a table, with an encoding that is learned from some of them."""
    table = read_columns(chunks, reading, where)
    columns = table.columns
    rows = learn_from(table.y, table.aside)
    how = {"impute": reading.impute, "standardise": reading.standardise}
    parts = [learned(c, rows, date=c.name in reading.dates, **how) for c in columns.values()]
    encoding = TableEncoding(
        tuple(parts), str(reading.target), reading.missing, reading.separator or ",", reading.header
    )
    X = encoding.matrix(list(columns.values()), lambda text: None)
    filled = {c.name: c.lacking for c in columns.values() if c.lacking}
    return Data(X, table.y, encoding, table.aside, table.dropped, filled)


class Columns(NamedTuple):
    """A table before anything is encoded."""

    columns: dict[str, Column]
    y: AnyArray
    aside: dict[str, AnyArray]
    """The columns kept aside, which are not features."""
    dropped: int
    """The number of rows without a target that were left out."""


def read_columns(chunks: Iterator[Chunk], reading: Reading, where: str) -> Columns:
    """The columns of a table by name, and its target, before anything is encoded."""
    columns: dict[str, Column] = {}
    missing, wanted = frozenset(reading.missing), reading.target or ""
    aside: dict[str, list[Values]] = {name: [] for name in reading.aside}
    dropped = 0
    for chunk in chunks:
        if not columns:
            columns = _columns(list(chunk.columns), reading, where)
        if not len(chunk):
            continue
        if reading.drop_missing_target:
            absent = lacking(chunk.columns[wanted], columns[wanted].missing)
            if absent.any():
                dropped += int(np.count_nonzero(absent))
                chunk = chunk.take(np.flatnonzero(~absent))
        chunk = dated(chunk, reading.dates, missing)
        for name, column in columns.items():
            column.add(chunk.columns[name], chunk)
        for name, parts in aside.items():
            parts.append(chunk.columns[name])
    target = columns.pop(wanted)
    if not target.rows:
        raise InputError(
            f"{where} has no row with a value of the target {target.name!r}"
            if dropped
            else f"{where} has names of columns, and no rows"
        )
    beside = {name: _joined(parts) for name, parts in aside.items()}
    return Columns(columns, _targets(target), beside, dropped)


def _joined(parts: list[Values]) -> AnyArray:
    """A column kept aside: numbers if all chunks hold numbers, otherwise objects."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([*parts, np.empty(0)])
    return np.array([value for part in parts for value in part], dtype=object)


def check_named(
    names: Sequence[str], where: str, target: str | None, options: Mapping[str, Sequence[str]]
) -> None:
    """Check that the target, and what other options name, are among the names of columns."""
    there = f"its columns are {listed(names)}"
    for option, name in [(option, name) for option, wanted in options.items() for name in wanted]:
        if name not in names:
            raise InputError(
                f"--{option} must name a column of {where}, got {name!r}{several(name, names)}; {there}"
            )
    if target is None:
        raise InputError(f"--target must name the column of {where} to predict; {there}")
    if target not in names:
        raise InputError(f"--target must name a column of {where}, got {target!r}; {there}")


def _columns(names: list[str], reading: Reading, where: str) -> dict[str, Column]:
    """The columns to collect, the target among them."""
    check_named(names, where, reading.target, {
        "drop": reading.drop,
        "categorical": reading.categorical,
        "date": reading.dates,
        "groups, --time, --offset, --exposure": reading.aside,
    })  # fmt: skip
    if reading.target in reading.drop:
        raise InputError(
            f"--target must name a column that stays, and --drop has {reading.target!r}"
        )
    if reading.target in reading.aside:
        raise InputError(
            f"--groups, --time, --offset and --exposure must name other columns than the target {reading.target!r}"
        )
    # A column of dates may be kept aside and be a feature.
    aside = [name for name in reading.aside if name not in reading.dates]
    kept = [name for name in names if name not in (*reading.drop, *aside)]
    if len(kept) < 2:
        which = "those of --groups, --time, --offset and --exposure"
        others = f", apart from {which} ({', '.join(aside)})" if aside else ""
        raise InputError(f"{where} has no column beside the target {reading.target!r}{others}")
    nameless = [name for k, name in enumerate(names, 1) if name == unnamed(k) and name in kept]
    if nameless:
        raise InputError(
            f"{where}: the header gives column {names.index(nameless[0]) + 1} no name (an index that pandas wrote?); "
            f"name it, or leave it out with --drop {nameless[0]!r}"
        )
    missing, nothing = frozenset(reading.missing), frozenset({""})
    return {
        name: Column(name, nothing, forced=True)  # Every value is a category, including NA.
        if name in reading.categorical
        else Column(name, missing)
        for name in kept
    }


def _targets(column: Column) -> AnyArray:
    if column.lacking:
        raise InputError(
            f"{column.lacking_at}: the target {column.name!r} has no value; give --drop-missing-target to leave such "
            f"rows out (there {'are' if column.lacking > 1 else 'is'} {column.lacking:,})"
        )
    if column.kind() == "number":
        return column.numbers()
    levels, codes = column.categories()
    return np.array(levels)[codes]
