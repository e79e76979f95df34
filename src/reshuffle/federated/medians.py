"""Finds medians over the federation from counts alone.

The sites say how many values of a column are below a threshold, and the driver halves the interval that holds the
⌈n/2⌉-th smallest of all n values:

    Σ_m #{values of site m below lo} < ⌈n/2⌉ ≤ Σ_m #{values of site m below hi}.

Thresholds are floating-point numbers with ten bits after the point, so that the search ends after 22 messages and no value is
found to more than three digits, because a median is the value of a single row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reshuffle.objective import Array

BITS = 10
"""Bits of the mantissa of a threshold: intervals are a thousandth of their position wide, enough to fill in a value."""
SHIFT = 52 - BITS
"""Bits of a double that a threshold does not have."""
SIGN = np.uint64(1 << 63)
LOWEST = 1 << BITS
"""The number of the interval that begins at the lowest finite number."""
STEPS = 12 + BITS
"""The number of messages of a search: one for each bit of sign, exponent and mantissa."""


def threshold(number: NDArray[np.uint64]) -> Array:
    """The beginning of an interval: doubles in ascending order, cut to their leading bits."""
    ordered = number << np.uint64(SHIFT)
    bits = np.where(ordered & SIGN, ordered ^ SIGN, ~ordered)
    return bits.view(np.float64)


def is_threshold(values: Array) -> NDArray[np.bool_]:
    """Whether these are numbers that a search may ask about."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    ordered = np.where(bits & SIGN, ~bits, bits | SIGN)
    known: NDArray[np.bool_] = ordered & np.uint64((1 << SHIFT) - 1) == 0
    return known


def search(ask: Callable[[Array], Array], counts: Array) -> list[float]:
    """The lower medians of columns with ``counts`` values; ``ask`` returns the number of values, over all sites, below each threshold."""
    wanted = (np.asarray(counts, dtype=np.int64) + 1) // 2
    infinite = np.array([np.inf]).view(np.uint64) | SIGN
    low = np.full(wanted.size, LOWEST, dtype=np.uint64)
    high = np.full(wanted.size, infinite[0] >> np.uint64(SHIFT), dtype=np.uint64)
    for _ in range(STEPS):
        middle = (low + high) >> np.uint64(1)
        enough = ask(threshold(middle)) >= wanted
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    starts, ends = threshold(low), threshold(low + np.uint64(1))
    return [shortest(float(a), float(b)) for a, b in zip(starts, ends, strict=True)]


def shortest(low: float, high: float) -> float:
    """The number in [low, high) that is written with the fewest digits, near the middle.

    >>> shortest(36.99, 37.02), shortest(-0.001, 0.002), shortest(1023.5, 1024.0)
    (37.0, 0.0, 1023.8)
    """
    if low <= 0.0 < high:
        return 0.0
    middle = 0.5 * low + 0.5 * high
    for digits in range(1, 18):
        found = float(f"{middle:.{digits}g}")
        if low <= found < high:
            return found
    return low
