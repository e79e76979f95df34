"""Checks columns that are kept aside, such as offsets, groups and times: they must have a value in every row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.chunks import lacking
from reshuffle.datasets.numbers import spelled
from reshuffle.errors import InputError


def check_complete(values: Sequence[object] | AnyArray, told: str, what: str = "value") -> None:
    """Refuse a column in which a row has no value; ``told`` is how a message names it."""
    absent = lacking(values)
    if absent.any():
        raise InputError(
            f"{told}: {np.count_nonzero(absent):,} rows have no {what}, the first is row "
            f"{int(np.argmax(absent)) + 1:,}; fill the column in, or leave these rows out"
        )


def numbers_of(values: Sequence[object] | AnyArray, told: str) -> NDArray[np.float64]:
    """The numbers of a column that was kept aside."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
    else:
        numbers, wrong = spelled(values, lacking(values))
        if wrong:
            raise InputError(f"{told} must be a column of numbers, got {str(values[wrong[0]])!r}")
    check_complete(values, told)
    return numbers
