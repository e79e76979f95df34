"""Finds one encoding for the tables of all sites: their columns, by name, with the levels that occur at any site.

If features are standardised, numbers become (value - centre)/scale with the centre and scale of the federation. A missing number
becomes the federation's median, a missing category its most frequent one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

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
MOMENTS = ("filled", "means", "squares")
"""Arrays with an entry for each column that does not hold categories."""


class ColumnsReport(NamedTuple):
    """What a site says about the columns of its table."""

    kinds: dict[str, str]
    counts: dict[str, dict[str, int]]
    """Of each column of categories the levels with the number of their rows, 0 where it is not told."""
    unused: set[str]
    """The names to drop, or to take as categories, that the site does not have."""
    numbers: dict[str, dict[str, float]]
    """``filled``, ``means`` and ``squares``, as far as they are told, by the names of the other columns."""

    @classmethod
    def of(cls, record: Record, name: str, impute: bool) -> ColumnsReport:
        """The report in a record; one that contradicts itself is refused."""
        try:
            kinds = dict(json.loads(str(record["columns"])))
            levels = dict(json.loads(str(record["levels"])))
            unused = set(json.loads(str(record["unused"])))
            counts = {name: [0] * len(known) for name, known in levels.items()}
            if impute:
                counts = dict(json.loads(str(record["counts"])))
            texts = [name for name, kind in kinds.items() if kind == CATEGORY]
            others = [name for name in kinds if name not in texts]
            told = {n: np.asarray(record[n]) for n in MOMENTS if n in record}
            good = (
                set(kinds.values()) <= {NUMBER, CATEGORY, EMPTY}
                and set(levels) == set(counts) == set(texts)
                and all(isinstance(text, str) for text in chain(unused, *levels.values()))
                and all(len(set(levels[n])) == len(levels[n]) == len(counts[n]) for n in texts)
                and all(type(k) is int and k >= 0 for k in chain(*counts.values()))
                and all(values.shape == (len(others),) for values in told.values())
            )
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise InputError(f"{name} reports columns, levels and counts that do not fit together")
        tallies = {n: dict(zip(levels[n], counts[n], strict=True)) for n in texts}
        numbers = {n: dict(zip(others, values, strict=True)) for n, values in told.items()}
        return cls(kinds, tallies, unused, numbers)


def agree_encoding(
    said: Mapping[int, Record], called: Called, cells: Cells, standardise: bool, below: Below
) -> TableEncoding:
    """The encoding that all sites use, from their reports about their columns; columns are in the order of the first site."""
    reports = {c: ColumnsReport.of(said[c], called(c), cells.impute) for c in said}
    every = list(reports.values())
    _refuse_unused(every, cells)
    _same_columns({c: report.kinds for c, report in reports.items()}, called)
    parts: list[Part] = []
    for name in every[0].kinds:
        kind = _kind(name, {c: report.kinds[name] for c, report in reports.items()}, called)
        parts.append(Number(name) if kind == NUMBER else _category(name, every, cells))
    names = [part.name for part in parts if isinstance(part, Number)]
    told = {
        part: np.array([[one.numbers[part][n] for n in names] for one in every], dtype=np.float64)
        for part in every[0].numbers
    }
    known = {name: Number(name) for name in names}
    if cells.impute and names:
        fills = search(lambda at: below(names, at), told["filled"].sum(axis=0))
        known = {n: replace(known[n], fill=fill) for n, fill in zip(names, fills, strict=True)}
    if standardise and names:
        scales = pooled(told["filled"], told["means"], told["squares"].sum(axis=0))
        known = {
            n: replace(known[n], centre=float(centre), scale=float(scale))
            for n, centre, scale in zip(names, *scales, strict=True)
        }
    record = next(iter(said.values()))
    missing = (*Reading().missing, *cells.missing)
    return TableEncoding(
        tuple(known.get(part.name, part) for part in parts),
        str(record["target"]), missing, str(record["separator"]), True,
    )  # fmt: skip


def _refuse_unused(reports: Sequence[ColumnsReport], cells: Cells) -> None:
    """Refuse a name of a column to leave out, or to take as categories, that no site has."""
    nowhere = set.intersection(*(report.unused for report in reports))
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
    first, kind = next(iter(given.items()))
    strange = [c for c, found in given.items() if found != kind]
    if strange:
        words = {NUMBER: "numbers", CATEGORY: "texts"}
        raise InputError(
            f"sites must agree: column {name!r} of {called(strange[0])} holds {words[given[strange[0]]]}, of {called(first)} "
            f"{words[kind]}; correct it, take every value as a category with categories = [{name!r}], or leave it "
            f"out with drop = [{name!r}]"
        )
    return kind


def _category(name: str, reports: Sequence[ColumnsReport], cells: Cells) -> Category:
    """All levels that occur at any site, and the most frequent one if missing values are filled in."""
    total = Counter[str]()
    for report in reports:
        total.update(report.counts.get(name, {}))
    if len(total) > LEVELS and name not in cells.categories:
        raise InputError(
            f"column {name!r} has {len(total):,} different texts over all sites, which is too many for categories: leave "
            f"it out with drop = [{name!r}], or take each as a category with categories = [{name!r}]"
        )
    spelt = _one_spelling(total)
    ordered = tuple(sorted(spelt))
    usual = max(ordered, key=spelt.__getitem__) if cells.impute else None
    return Category(name, ordered, usual)


def _one_spelling(total: Mapping[str, int]) -> dict[str, int]:
    """Levels with their counts; numbers of equal value, such as 3 and 3.0, are one level, written in the shorter way."""
    known: dict[float | str, str] = {}
    found = Counter[str]()
    for level in sorted(total, key=lambda text: (len(text), text)):
        kept = known.setdefault(float(level) if is_number(level) else level, level)
        found[kept] += total[level]
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
