"""Numbers written as text, read strictly: what could mean something else is not a number."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

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


def as_numbers(texts: list[str]) -> NDArray[np.float64] | None:
    """The numbers that these texts spell, or None if one is not a number."""
    if not all(map(_NUMBER, texts)):
        return None
    values = np.array([float(text) for text in texts], dtype=np.float64)
    return values if np.isfinite(values).all() else None
