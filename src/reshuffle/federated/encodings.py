"""Finds one encoding for the tables of all sites: their columns, by name, with the levels that occur at any site.

If features are standardised, numbers become (value - centre)/scale with the centre and scale of the federation. A missing number
becomes the federation's median, a missing category its most frequent one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from reshuffle.datasets.columns import LEVELS
from reshuffle.datasets.encoding import Category, Number, Part, TableEncoding
from reshuffle.datasets.numbers import is_number
from reshuffle.datasets.table import Reading
from reshuffle.engines import Record
from reshuffle.errors import InputError
from reshuffle.federated.columns import CATEGORY, EMPTY, NUMBER, Cells
from reshuffle.federated.medians import search
from reshuffle.objective import Array

Called = Callable[[int], str]
Below = Callable[[list[str], Array], Array]
"""A function that returns the number of values, over all sites, of these columns below these thresholds."""


def agree_encoding(
    said: Mapping[int, Record], called: Called, cells: Cells, standardise: bool, below: Below
) -> TableEncoding:
    """The encoding that all sites use, from their reports about their columns; columns are in the order of the first site."""
    columns = {c: _columns_of(record, called(c), cells) for c, record in said.items()}
    _refuse_unused(said, cells)
    _same_columns(columns, called)
    first = next(iter(columns.values()))
    parts: list[Part] = []
    for name in first:
        if _kind(name, {c: kinds[name] for c, kinds in columns.items()}, called) == NUMBER:
            parts.append(Number(name))
        else:
            parts.append(_category(name, said, cells))
    numbers = [part for part in parts if isinstance(part, Number)]
    told = {
        name: _by_name(name, [part.name for part in numbers], columns, said)
        for name in ("filled", "means", "squares")
        if name in next(iter(said.values()))
    }
    if cells.impute and numbers:
        names, counts = [part.name for part in numbers], told["filled"].sum(axis=0)
        fills = search(lambda at: below(names, at), counts)
        numbers = [replace(part, fill=fill) for part, fill in zip(numbers, fills, strict=True)]
    if standardise and numbers:
        scales = pooled(told["filled"], told["means"], told["squares"].sum(axis=0))
        numbers = [
            replace(part, centre=float(centre), scale=float(scale))
            for part, centre, scale in zip(numbers, *scales, strict=True)
        ]
    known: dict[str, Part] = {part.name: part for part in numbers}
    parts = [known.get(part.name, part) for part in parts]
    record = next(iter(said.values()))
    missing = (*Reading().missing, *cells.missing)
    return TableEncoding(
        tuple(parts), str(record["target"]), missing, str(record["separator"]), True
    )


def _columns_of(record: Record, name: str, cells: Cells) -> dict[str, str]:
    """The columns of a site and their kinds; a report that contradicts itself is refused."""
    try:
        columns = dict(json.loads(str(record["columns"])))
        levels = dict(json.loads(str(record["levels"])))
        counts = dict(json.loads(str(record["counts"]))) if cells.impute else levels
        unused = set(json.loads(str(record["unused"])))
        texts = [name for name, kind in columns.items() if kind == CATEGORY]
        numbers = len(columns) - len(texts)
        arrays = [record[n] for n in ("filled", "means", "squares") if n in record]
        good = (
            set(columns.values()) <= {NUMBER, CATEGORY, EMPTY}
            and set(levels) == set(counts) == set(texts)
            and all(isinstance(text, str) for text in chain(unused, *levels.values()))
            and all(len(set(levels[n])) == len(levels[n]) == len(counts[n]) for n in texts)
            and (
                not cells.impute or all(type(k) is int and k >= 0 for k in chain(*counts.values()))
            )
            and all(np.shape(array) == (numbers,) for array in arrays)
        )
    except (ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise InputError(f"{name} reports columns, levels and counts that do not fit together")
    return columns


def _refuse_unused(said: Mapping[int, Record], cells: Cells) -> None:
    """Refuse a name of a column to leave out, or to take as categories, that no site has."""
    unused = [set(json.loads(str(record["unused"]))) for record in said.values()]
    nowhere = set.intersection(*unused)
    for setting in ("drop", "categories"):
        for name in getattr(cells, setting):
            if name in nowhere:
                raise InputError(f"{setting} must name columns of the sites, and none has {name!r}")


def _same_columns(columns: Mapping[int, Mapping[str, str]], called: Called) -> None:
    """Check that all sites have the same columns, in any order."""
    (first, wanted), *others = columns.items()
    for client, found in others:
        for having, lacking, names in (
            (client, first, [n for n in found if n not in wanted]),
            (first, client, [n for n in wanted if n not in found]),
        ):
            if names:
                raise InputError(
                    f"sites must agree: {called(having)} has a column {names[0]!r}, and {called(lacking)} has none; leave "
                    f"it out with drop = [{names[0]!r}], or name the columns to use with columns = [...]"
                )


def _kind(name: str, kinds: Mapping[int, str], called: Called) -> str:
    """The kind of a column, number or category, which must be the same at all sites that have a value."""
    given = {c: kind for c, kind in kinds.items() if kind != EMPTY}
    if not given:
        raise InputError(
            f"column {name!r} holds no value at any site; leave it out with drop = [{name!r}]"
        )
    for wanted, other in ((NUMBER, CATEGORY), (CATEGORY, NUMBER)):
        first, kind = next(iter(given.items()))
        strange = [c for c, found in given.items() if found == other]
        if kind == wanted and strange:
            words = {NUMBER: "numbers", CATEGORY: "texts"}
            raise InputError(
                f"sites must agree: column {name!r} of {called(strange[0])} holds {words[other]}, of {called(first)} "
                f"{words[wanted]}; correct it, take every value as a category with categories = [{name!r}], or leave it "
                f"out with drop = [{name!r}]"
            )
    return next(iter(given.values()))


def _category(name: str, said: Mapping[int, Record], cells: Cells) -> Category:
    """All levels that occur at any site, and the most frequent one if missing values are filled in."""
    total: dict[str, int] = {}
    for record in said.values():
        levels = json.loads(str(record["levels"])).get(name, [])
        counts = (
            json.loads(str(record["counts"]))[name]
            if cells.impute and levels
            else [0] * len(levels)
        )
        for level, count in zip(levels, counts, strict=True):
            total[level] = total.get(level, 0) + count
    if len(total) > LEVELS and name not in cells.categories:
        raise InputError(
            f"column {name!r} has {len(total):,} different texts over all sites, which is too many for categories: leave "
            f"it out with drop = [{name!r}], or take each as a category with categories = [{name!r}]"
        )
    total = _one_spelling(total)
    ordered = tuple(sorted(total))
    usual = max(ordered, key=lambda level: total[level]) if cells.impute else None
    return Category(name, ordered, usual)


def _one_spelling(total: Mapping[str, int]) -> dict[str, int]:
    """Levels with their counts; numbers of equal value, such as 3 and 3.0, are one level, written in the shorter way."""
    known: dict[float | str, str] = {}
    found: dict[str, int] = {}
    for level in sorted(total, key=lambda text: (len(text), text)):
        kept = known.setdefault(float(level) if is_number(level) else level, level)
        found[kept] = found.get(kept, 0) + total[level]
    return found


def _by_name(
    part: str,
    names: list[str],
    columns: Mapping[int, Mapping[str, str]],
    said: Mapping[int, Record],
) -> Array:
    """The sites' reports of their columns of numbers, in one order; zero where a site lacks a column."""
    found = np.zeros((len(said), len(names)))
    for row, (client, record) in zip(found, said.items(), strict=True):
        own = [name for name, kind in columns[client].items() if kind != CATEGORY]
        place = dict(zip(own, np.asarray(record[part]), strict=True))
        row[:] = [place[name] for name in names]
    return found


def pooled(weights: Array, means: Array, squares: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every feature over the federation, from those of the sites.

    n·variance = Σ_m (squares_m + n_m(mean_m - mean)²): squares about the mean of each site, so that a mean far
    from zero takes no digits.
    """
    total = weights.sum(axis=0)
    mean = (weights * means).sum(axis=0) / total
    scale = np.sqrt((squares + (weights * (means - mean) ** 2).sum(axis=0)) / total)
    scale[~(scale > 1e-12 * np.abs(mean))] = 1.0  # Constant features stay as they are.
    return mean, scale
