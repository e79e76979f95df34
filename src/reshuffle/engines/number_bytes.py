"""Writes numbers in fewer bytes: only the leading bytes of each double, for arrays whose last digits are zero.

A double is a sign, 11 bits of exponent and 52 of mantissa. Its first w bytes keep 8w - 12 bits of the mantissa; rounded to them, a number changes
by at most 2^-(8w - 11) of itself, zero stays zero and no number overflows that is not within rounding of the largest.
"""

from __future__ import annotations

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError

WHOLE = 8
"""The bytes of a double."""
LEAST = 2
"""The fewest bytes of a number: sign, exponent and 4 bits of mantissa."""


def rounding(width: int) -> float:
    """The largest relative error of a number that is rounded to ``width`` bytes."""
    return 0.0 if width >= WHOLE else 2.0 ** (11 - 8 * width)


def rounded(x: Array, width: int) -> Array:
    """The nearest numbers of ``width`` bytes, halves to even; a number that would overflow is unchanged."""
    if width >= WHOLE:
        return x
    drop = np.uint64(8 * (WHOLE - width))
    one = np.uint64(1)
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.uint64)
    up = (one << (drop - one)) - one + ((bits >> drop) & one)
    found = (((bits + up) >> drop) << drop).view(np.float64)
    return np.where(np.isfinite(found), found, x)


def width_of(x: Array) -> int:
    """The fewest bytes that hold these numbers exactly."""
    bits = np.bitwise_or.reduce(np.ascontiguousarray(x).view(np.uint64), axis=None)
    width = WHOLE
    while width > LEAST and not int(bits) & (0xFF << 8 * (WHOLE - width)):
        width -= 1
    return width


def written(x: Array, width: int) -> AnyArray:
    """The leading bytes of each number, along a last axis; the numbers themselves if all bytes are needed."""
    if width >= WHOLE:
        return x
    return np.ascontiguousarray(
        x.astype(">f8").view(np.uint8).reshape(*x.shape, WHOLE)[..., :width]
    )


def read(sent: AnyArray) -> Array:
    """The numbers that ``written`` wrote."""
    if sent.dtype != np.uint8:
        return sent
    if sent.ndim == 0 or not LEAST <= sent.shape[-1] < WHOLE:
        raise InputError(
            f"numbers in fewer bytes must have {LEAST} to {WHOLE - 1}, got {sent.shape=}"
        )
    whole = np.zeros((*sent.shape[:-1], WHOLE), dtype=np.uint8)
    whole[..., : sent.shape[-1]] = sent
    return whole.view(">f8")[..., 0].astype(np.float64)
