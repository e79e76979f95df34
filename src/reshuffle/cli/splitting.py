"""Chooses the rows of a file that are held out to evaluate a model: random ones, whole groups, or the latest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.dates import as_days
from reshuffle.datasets.numbers import check_complete, spelled
from reshuffle.errors import InputError
from reshuffle.estimators.early_stopping import held_out
from reshuffle.losses.names import OF_NUMBERS, loss_by_name
from reshuffle.randomness import generator

GROUPS = 13  # The number of the random stream that draws held-out groups; rows use stream 11 and folds stream 12.


class Split(NamedTuple):
    """Rows to learn from, rows held out, and the group or the time of every row."""

    learn: Any
    held: Any
    groups: AnyArray | None = None


def split(
    n: int,
    codes: AnyArray | None,
    aside: Mapping[str, AnyArray],
    groups: str | None,
    time: str | None,
    share: float,
    seed: int,
) -> Split:
    """Hold out this share of n rows; ``codes`` are the classes, ``groups`` and ``time`` are names of columns."""
    if groups and time:
        raise InputError("--groups and --time exclude each other: give one of them")
    named = (
        _groups(aside[groups], groups) if groups else _times(aside[time], time) if time else None
    )
    if not share:
        return Split(slice(None), slice(0), named)
    if named is not None:
        held = (
            _latest(named, share, time or "") if time else _whole(named, share, seed, groups or "")
        )
        return Split(np.flatnonzero(~held), np.flatnonzero(held), named)
    most = n if codes is None else int(np.bincount(codes).max())
    if most < 2:
        of = "" if codes is None else " of a class"
        raise InputError(
            f"--holdout {share:g} needs two rows{of} or more, to learn from one and be judged by the other; "
            "give --holdout 0 to learn from all"
        )
    return Split(*held_out(n, codes, float(share), seed))


def _whole(groups: AnyArray, share: float, seed: int, name: str) -> NDArray[np.bool_]:
    """Hold out groups in random order until their rows come nearest to the share; at least one group stays."""
    found, group = np.unique(groups, return_inverse=True)
    if found.size < 2:
        raise InputError(
            f"--groups {name}: all rows are in one group, so none can be held out; give --holdout 0"
        )
    order = generator(seed, GROUPS).permutation(found.size)
    rows = np.cumsum(np.bincount(group)[order])
    count = 1 + int(np.argmin(np.abs(rows[:-1] - share * groups.size)))
    return np.isin(group, order[:count])


def _latest(when: AnyArray, share: float, name: str) -> NDArray[np.bool_]:
    """Hold out the latest rows; rows of the same time stay together."""
    moments, moment = np.unique(when, return_inverse=True)
    if moments.size < 2:
        raise InputError(
            f"--time {name}: all rows have the same time, so none is later; give --holdout 0"
        )
    before = np.cumsum(np.bincount(moment))
    first = 1 + int(np.argmin(np.abs(before[:-1] - (1 - share) * when.size)))
    return np.asarray(moment >= first)


def _groups(values: AnyArray, name: str) -> AnyArray:
    check_complete(values, f"--groups {name}", "group")
    return values if values.dtype != object else values.astype(str)


def _times(values: AnyArray, name: str) -> NDArray[np.float64]:
    """The times of a column: numbers unchanged, dates as days."""
    told = f"--time {name}"
    check_complete(values, told, "time")
    if values.dtype != object:
        return values.astype(np.float64)
    absent = np.zeros(values.size, dtype=bool)
    numbers, wrong = spelled(values.tolist(), absent)
    if not wrong:
        return numbers
    return as_days(values.tolist(), told, absent, lambda k: f"row {k + 1:,}")


def check_log_target(y: AnyArray, classes: bool, loss: str) -> None:
    """Refuse a logarithm of numbers that are not positive, and one that would be taken twice."""
    if classes:
        raise InputError("--log-target is for numbers, and the target is taken for classes")
    if loss_by_name(loss, OF_NUMBERS).log_link:
        raise InputError(
            f"--log-target: the loss {loss} models the logarithm of the mean already; leave one of the two out"
        )
    if not y.min() > 0:
        raise InputError(
            f"--log-target needs a target above zero, and its smallest value is {y.min():g}; "
            "--loss poisson takes counts, with zeros"
        )
