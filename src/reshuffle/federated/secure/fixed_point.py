"""Fixed point modulo 2⁶⁴: numbers as integers, so that masks cancel exactly.

    v ↦ round(2^k·v) mod 2⁶⁴,    k = 62 - ⌈log₂ M⌉ - b,    for |v| ≤ 2^b at each of M sites.

The M integers are at most 2^(62-⌈log₂ M⌉) each, so that their sum stays within ±2⁶² and is read without ambiguity. The decoded
sum differs from the true one by at most (M/2)·2^-k from rounding at the sites and by 2^-53 of itself from its way back to floating
point, together less than 2⁻⁴⁰·2^b for M ≤ 2,048 (docs/secure.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.objective import Array

Words = NDArray[np.uint64]
MOST_SITES = 2048
"""With more sites than this, the rounding of all of them could exceed 2⁻⁴⁰ of the range."""
SPAN = 900
"""The exponent b lies within ±SPAN: then 2^k·v neither overflows nor leaves the normal numbers of floating point."""


@dataclass(frozen=True)
class FixedPoint:
    """The integers of numbers up to 2^``exponent``, of which ``sites`` are added."""

    exponent: int
    sites: int

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= MOST_SITES:
            raise InputError(
                f"a secure sum is over 1 to {MOST_SITES:,} sites: with more its error could exceed 2^-40 of the "
                f"range, got {self.sites:,}"
            )
        if not -SPAN <= self.exponent <= SPAN:
            raise InputError(
                f"the range of a secure sum must be from 2^-{SPAN} to 2^{SPAN}, got 2^{self.exponent}"
            )

    @property
    def bits(self) -> int:
        """k: an integer is the number times 2^k."""
        return 62 - (self.sites - 1).bit_length() - self.exponent

    @property
    def rounding(self) -> float:
        """A bound on the error of a sum of integers, from rounding at the sites: (M/2)·2^-k."""
        return float(np.ldexp(0.5 * self.sites, -self.bits))

    @property
    def error(self) -> float:
        """A bound on the error of a decoded sum, with its own rounding to floating point."""
        return self.rounding + float(np.ldexp(self.sites, self.exponent - 53))

    def holds(self, values: Array) -> bool:
        """Whether all values are finite and within the range."""
        bound = 2.0**self.exponent
        # The comparison is false for NaN.
        return not values.size or bool(-bound <= values.min() and values.max() <= bound)

    def encode(self, values: Array) -> Words:
        """The integers of these values; values beyond the range are refused."""
        if not self.holds(values):
            raise InputError(f"a value is not finite or beyond the agreed range 2^{self.exponent}")
        scaled = np.asarray(values * 2.0**self.bits)  # This product is exact.
        return np.rint(scaled, out=scaled).astype(np.int64).view(np.uint64)

    def decode(self, total: Words) -> Array:
        """The number that a sum of integers stands for."""
        found: Array = total.view(np.int64).astype(np.float64)
        found *= 2.0**-self.bits
        return found


def exponent_of(size: float) -> int:
    """The least b with |size| ≤ 2^b."""
    mantissa, exponent = frexp(abs(size))
    return exponent - 1 if mantissa == 0.5 else exponent
