"""Checks columns of offsets and exposures, which must have a number in every row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from reshuffle.datasets.chunks import MISSING
from reshuffle.datasets.numbers import as_numbers
from reshuffle.errors import InputError


def numbers_of(values: Iterable[object], told: str) -> NDArray[np.float64]:
    """The numbers of a column that was kept aside; ``told`` is how a message names it."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
        lacking = np.isnan(numbers)
    else:
        texts = [None if v is None or v in MISSING or v != v else str(v) for v in values]
        lacking = np.array([text is None for text in texts], dtype=bool)
        known = [text for text in texts if text is not None]
        found = as_numbers(known)
        if found is None:
            wrong = next(text for text in known if as_numbers([text]) is None)
            raise InputError(f"{told} must be a column of numbers, got {wrong!r}")
        numbers = np.full(len(texts), np.nan)
        numbers[~lacking] = found
    if lacking.any():
        raise InputError(
            f"{told}: {np.count_nonzero(lacking):,} rows have no value, the first is row "
            f"{int(np.argmax(lacking)) + 1:,}; fill the column in, or leave these rows out"
        )
    return numbers
