"""Numbers written as text, read strictly: what could mean something else is not a number."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets.chunks import lacking
from reshuffle.errors import InputError

_DIGITS = r"(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS})(?:[eE][+-]?[0-9]+)?").fullmatch


def is_number(text: str) -> bool:
    """Whether a text is one finite decimal number.

    These are not numbers: ``1_000`` or ``1,5``, which others read differently; ``007``, which is a code; ``nan`` and ``inf``;
    ``1e999``, which no float64 can hold.

    >>> [is_number(t) for t in ("-1.5e-05", "007", "1_0", "inf", "1e999")]
    [True, False, False, False, False]
    """
    return _NUMBER(text) is not None and abs(float(text)) != np.inf


def is_beyond(text: str) -> bool:
    """Whether a text is a decimal number that no float64 can hold."""
    return _NUMBER(text) is not None and abs(float(text)) == np.inf


def spelled(
    texts: Sequence[object] | AnyArray, absent: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], list[int]]:
    """The numbers that texts spell, NaN where they spell none, and the rows where that is so although a text is there."""
    given = [str(text) for text, gone in zip(texts, absent.tolist(), strict=True) if not gone]
    found, wrong = as_numbers(given), []
    if found is None:
        rows = np.flatnonzero(~absent).tolist()
        wrong = [row for row, text in zip(rows, given, strict=True) if not is_number(text)]
        found = np.array([float(text) if is_number(text) else np.nan for text in given])
    values = np.full(len(texts), np.nan)
    values[~absent] = found
    return values, wrong


def as_numbers(texts: list[str]) -> NDArray[np.float64] | None:
    """The numbers that these texts spell, or None if one is not a number."""
    if not all(map(_NUMBER, texts)):
        return None
    values = np.array([float(text) for text in texts], dtype=np.float64)
    return values if np.isfinite(values).all() else None


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
