"""A whole table as rows and targets, and how the one came from the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.datasets.chunks import MISSING, Chunk, listed
from reshuffle.datasets.columns import Column
from reshuffle.datasets.csv_file import unnamed
from reshuffle.datasets.encoding import Rows, TableEncoding, learned
from reshuffle.datasets.rows_encoding import Encoding
from reshuffle.errors import InputError


@dataclass(frozen=True)
class Reading:
    """How a file is to be read; what is not said is found out from its name and its first bytes."""

    target: str | None = None
    format: str | None = None
    separator: str | None = None
    header: bool = True
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: tuple[str, ...] = MISSING
    impute: bool = False
    standardise: bool = True
    """Columns of numbers to mean 0 and standard deviation 1, so that a penalty treats them alike."""


class Data(NamedTuple):
    """Rows, targets (numbers, or labels as text), and how both came from the file."""

    X: Any
    y: NDArray[Any]
    encoding: Encoding


LearnFrom = Callable[[NDArray[Any]], Rows]
"""From the targets, the rows that an encoding is learned from."""


def everything(y: NDArray[Any]) -> Rows:
    """All rows."""
    return slice(None)


def read_table(
    chunks: Iterator[Chunk], reading: Reading, where: str, learn_from: LearnFrom = everything
) -> Data:
    """All rows of a table, with the encoding that some of them ask for."""
    columns, y = read_columns(chunks, reading, where)
    rows = learn_from(y)
    parts = [
        learned(column, rows, impute=reading.impute, standardise=reading.standardise)
        for column in columns.values()
    ]
    encoding = TableEncoding(
        tuple(parts), str(reading.target), reading.missing, reading.separator or ",", reading.header
    )
    return Data(encoding.matrix(list(columns.values()), lambda text: None), y, encoding)


def read_columns(
    chunks: Iterator[Chunk], reading: Reading, where: str
) -> tuple[dict[str, Column], NDArray[Any]]:
    """The columns of a table by name, and its target, before anything is encoded."""
    columns: dict[str, Column] = {}
    for chunk in chunks:
        if not columns:
            columns = _columns(list(chunk.columns), reading, where)
        if len(chunk):
            for name, column in columns.items():
                column.add(chunk.columns[name], chunk)
    target = columns.pop(reading.target or "")
    if not target.rows:
        raise InputError(f"{where} has names of columns, and no rows")
    return columns, _targets(target)


def _columns(names: list[str], reading: Reading, where: str) -> dict[str, Column]:
    """The columns to collect, the target among them."""
    there = f"its columns are {listed(names)}"
    for option, wanted in (("drop", reading.drop), ("categorical", reading.categorical)):
        for name in wanted:
            if name not in names:
                raise InputError(f"--{option} must name a column of {where}, got {name!r}; {there}")
    if reading.target is None:
        raise InputError(f"--target must name the column of {where} to predict; {there}")
    if reading.target not in names or reading.target in reading.drop:
        raise InputError(f"--target must name a column of {where}, got {reading.target!r}; {there}")
    kept = [name for name in names if name not in reading.drop]
    if len(kept) < 2:
        raise InputError(f"{where} has no column beside the target {reading.target!r}")
    nameless = [name for k, name in enumerate(names, 1) if name == unnamed(k) and name in kept]
    if nameless:
        raise InputError(
            f"{where}: the header gives column {names.index(nameless[0]) + 1} no name (an index that pandas wrote?); "
            f"name it, or leave it out with --drop {nameless[0]!r}"
        )
    missing, nothing = frozenset(reading.missing), frozenset({""})
    return {
        name: Column(name, nothing, forced=True)  # every value is a category, NA too
        if name in reading.categorical
        else Column(name, missing)
        for name in kept
    }


def _targets(column: Column) -> NDArray[Any]:
    if column.lacking:
        raise InputError(
            f"{column.lacking_at}: the target {column.name!r} has no value; leave such rows out "
            f"(there {'are' if column.lacking > 1 else 'is'} {column.lacking:,})"
        )
    if column.kind() == "number":
        return column.numbers()
    levels, codes = column.categories()
    return np.array(levels)[codes]
