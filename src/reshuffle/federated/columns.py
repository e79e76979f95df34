"""Reads a site's table column by column, before the sites agree on its encoding."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.datasets.columns import Column
from reshuffle.datasets.encoding import Number, TableEncoding, fill_of
from reshuffle.datasets.numbers import numbers_of
from reshuffle.datasets.reading import column_names, load_columns
from reshuffle.datasets.table import Reading
from reshuffle.digests import digest
from reshuffle.engines import Plain
from reshuffle.errors import InputError
from reshuffle.federated.medians import is_threshold
from reshuffle.federated.private_text import in_words_of_sites
from reshuffle.objective import Array

NUMBER, CATEGORY, EMPTY = "number", "category", "empty"
"""Kinds of columns. An empty column holds no value at this site; its kind is decided by the other sites."""


@dataclass(frozen=True)
class Cells:
    """How the tables of all sites are read.

    ``drop`` names columns that are left out at sites that have them, ``columns`` those that are kept (all if it is
    empty), ``categories`` those whose values are all categories, ``missing`` further texts that mean a missing value.
    ``impute`` says whether missing values are filled in, by the medians and most frequent categories of the federation.
    ``offset`` and ``exposure`` name columns that are no features: see ``Problem``.
    """

    impute: bool = False
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    offset: str | None = None
    exposure: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.impute, bool):
            raise InputError(f"impute must be True or False, got {self.impute!r}")
        for name in ("drop", "columns", "categories", "missing"):
            given: object = getattr(self, name)
            texts = not isinstance(given, str) and isinstance(given, Sequence)
            if not texts or not all(isinstance(one, str) for one in given):  # type: ignore[attr-defined]
                raise InputError(f"{name} must be a list of texts, got {given!r}")
            object.__setattr__(self, name, tuple(given))  # type: ignore[arg-type]
        for name in ("offset", "exposure"):
            column = getattr(self, name)
            if column is not None and not (isinstance(column, str) and column):
                raise InputError(f"{name} must be the name of a column, got {column!r}")
            if column is not None and column in (*self.drop, *self.columns, *self.categories):
                raise InputError(
                    f"{name} must be a column that drop, columns and categories do not name, got {column!r}"
                )
        for name in ("columns", "categories"):
            both = [one for one in getattr(self, name) if one in self.drop]
            if both:
                raise InputError(f"column {both[0]!r} is in {name} and in drop: take it out of one")

    @property
    def shifts(self) -> dict[str, str]:
        """The columns of the offset and the exposure, if they are named."""
        named = {"offset": self.offset, "exposure": self.exposure}
        return {name: column for name, column in named.items() if column is not None}


@dataclass(frozen=True, eq=False)
class SiteColumns:
    """The columns of a table that a model may read, and the names to drop that it does not have."""

    columns: dict[str, Column]
    reading: Reading
    unused: tuple[str, ...] = ()

    def check_filled(self) -> None:
        """Refuse missing values that are not filled in."""
        for name, column in self.columns.items():
            if column.lacking and not self.reading.impute:
                with in_words_of_sites():
                    fill_of(Number(name), column)

    def kind(self, name: str) -> str:
        column = self.columns[name]
        if column.rows == column.lacking:
            return EMPTY
        with in_words_of_sites():
            return column.kind()

    def report(self, moments: bool) -> dict[str, Plain]:
        """The record by which a site describes its columns: names, kinds and levels. If missing values are filled in, also the rows with
        each level and with a number; if columns are standardised, also means and squares of columns of numbers."""
        kinds = {name: self.kind(name) for name in self.columns}
        levels, counts = {}, {}
        for name in [n for n, kind in kinds.items() if kind == CATEGORY]:
            levels[name], codes = self.columns[name].categories()
            counts[name] = np.bincount(codes[codes >= 0], minlength=len(levels[name])).tolist()
        record: dict[str, Plain] = {
            "columns": json.dumps(kinds),
            "levels": json.dumps(levels),
            "unused": json.dumps(self.unused),
            "target": str(self.reading.target),
            "separator": self.reading.separator or ",",
        }
        if self.reading.impute:
            record["counts"] = json.dumps(counts)
        numbers = [self.present(n) for n, kind in kinds.items() if kind != CATEGORY]
        if self.reading.impute or moments:
            record["filled"] = np.array([v.size for v in numbers], dtype=np.float64)
        if moments:
            means = [v.mean() if v.size else 0.0 for v in numbers]
            spread = [np.sum((v - m) ** 2) for v, m in zip(numbers, means, strict=True)]
            record["means"] = np.array(means, dtype=np.float64)
            record["squares"] = np.array(spread, dtype=np.float64)
        return record

    def present(self, name: str) -> Array:
        """The values of a column of numbers that are not missing."""
        values = self.columns[name].numbers()
        return values[~np.isnan(values)]

    def below(self, names: Sequence[str], at: Array) -> dict[str, Plain]:
        """For each of these columns of numbers, the number of its values below a threshold."""
        if not self.reading.impute or not is_threshold(at).all():
            raise InputError(
                "counts are told for medians alone, and no more exactly than these need"
            )
        counts = [np.count_nonzero(self.present(n) < t) for n, t in zip(names, at, strict=True)]
        return {"below": np.array(counts, dtype=np.int64)}

    def encoded(self, encoding: TableEncoding) -> object:
        """The rows in the encoding on which all sites have agreed."""
        absent = [part.name for part in encoding.columns if part.name not in self.columns]
        if absent:
            raise InputError(f"its table has no column {absent[0]!r}, which was agreed on")
        with in_words_of_sites():
            found = [self.columns[part.name] for part in encoding.columns]
            return encoding.matrix(found, lambda text: None)

    def content(self) -> str:
        parts: list[object] = []
        for name, column in self.columns.items():
            category = self.kind(name) == CATEGORY
            parts += [name, *(column.categories() if category else [column.numbers()])]
        return digest(*parts)


def read(
    path: str | os.PathLike[str], target: str | None, cells: Cells, drop: Sequence[str] = ()
) -> tuple[SiteColumns, AnyArray, dict[str, Array]]:
    """A CSV or Parquet file as columns, targets, and offset and exposure if these are columns.

    ``drop`` are columns of this site alone, which it must have; those of ``cells`` it may have.
    """
    reading = Reading(target=target, impute=cells.impute, standardise=False)
    reading = replace(reading, missing=(*reading.missing, *cells.missing))
    names = column_names(path, reading)
    if target is None:
        reading = replace(reading, target=names[-1])
    aside = tuple(dict.fromkeys(cells.shifts.values()))
    for name, column in cells.shifts.items():
        if column not in names or column == reading.target or column in drop:
            raise InputError(
                f"{name} must name a column of {os.fspath(path)} beside the target, got {column!r}; its columns are {', '.join(names)}"
            )
    wanted = [n for n in (*cells.columns, *drop) if n not in names]
    if wanted:
        where = "columns" if wanted[0] in cells.columns else "drop of this site"
        raise InputError(
            f"{where} must name columns of {os.fspath(path)}, got {wanted[0]!r}; its columns are {', '.join(names)}"
        )
    left = (*cells.drop, *drop, *aside)
    kept = [n for n in cells.columns or names if n not in left]
    others = tuple(n for n in names if n not in kept and n not in (reading.target, *aside))
    forced = tuple(n for n in cells.categories if n in kept)
    reading = replace(reading, drop=others, categorical=forced, aside=aside)
    with in_words_of_sites():
        columns, y, beside, _ = load_columns(path, reading)
    unused = tuple(n for n in (*cells.drop, *cells.categories) if n not in names)
    shifts = {
        name: numbers_of(beside[column], f"{name} = {column!r}")
        for name, column in cells.shifts.items()
    }
    return SiteColumns(columns, reading, unused), y, shifts
