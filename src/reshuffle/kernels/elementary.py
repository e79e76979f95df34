"""exp, log and log1p that a loop over rows takes for several rows at a time.

Those of the C library are calls, one number each. These are a dozen multiplications and no branch, so that the
compiler makes vector instructions of them; they are off by at most two units in the last place (a test holds
them to it). With k = round(x/log 2) and r = x - k log 2, |r| <= log(2)/2,

    exp(x) = 2^k (1 + r + r^2/2! + ... + r^13/13!),

and for u = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), s = f/(2 + f),

    log(u) = k log 2 + 2 (s + s^3/3 + s^5/5 + ... + s^21/21),

both cut off where the next term is below the rounding of the sum. What would be below exp(-707) is 0, and
numbers below the smallest normal one count as that one.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from reshuffle.kernels.options import INSIDE

EXACTLY: Any = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True, **INSIDE}
"""No other order of the sums: their rounding is meant."""
LEAST, MOST = -707.0, 709.782712893384  # below, 2^k is no normal number; beyond, exp is infinite
NORMAL = float(np.finfo(np.float64).tiny)
PER_LOG2 = 1.0 / math.log(2.0)
LOG2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
"""log 2 in two parts; the first has 32 bits, so that its product with k is exact."""
EXP = tuple(1.0 / math.factorial(k) for k in range(14))
LOG = tuple(1.0 / (2 * k + 3) for k in range(10))
INTEGER = 1.5 * 2.0**52  # added to a number, it leaves the nearest integer in the last bits


def _bits(number: float) -> np.uint64:
    return np.float64(number).view(np.uint64)


BELOW, ONE, INTEGER_BITS = np.uint64(1), _bits(1.0), _bits(INTEGER)
PLACES = np.uint64(52)  # of the mantissa
MANTISSA = np.uint64((1 << 52) - 1)
ROOT = _bits(math.sqrt(0.5))
BIAS = 1023.0  # of an exponent


@intrinsic
def as_float(context, bits):
    """The number with these bits."""
    return types.float64(types.uint64), lambda c, build, s, a: build.bitcast(a[0], ir.DoubleType())


@intrinsic
def as_bits(context, number):
    """The bits of a number."""
    return types.uint64(types.float64), lambda c, build, s, a: build.bitcast(a[0], ir.IntType(64))


@njit(**EXACTLY)
def exp(x):
    inside = min(max(x, LEAST), MOST)
    shifted = inside * PER_LOG2 + INTEGER
    k = shifted - INTEGER
    r = (inside - k * LOG2[0]) - k * LOG2[1]
    r2 = r * r
    r4 = r2 * r2
    a = (EXP[2] + EXP[3] * r) + r2 * (EXP[4] + EXP[5] * r)
    b = (EXP[6] + EXP[7] * r) + r2 * (EXP[8] + EXP[9] * r)
    c = (EXP[10] + EXP[11] * r) + r2 * (EXP[12] + EXP[13] * r)
    sum_of_powers = 1.0 + (r + r2 * (a + r4 * (b + r4 * c)))
    # one power of two less, and then twice that: the largest k has no number of its own
    power = (as_bits(shifted) - INTEGER_BITS - BELOW) << PLACES
    found = 2.0 * as_float(as_bits(sum_of_powers) + power)
    found = found if x >= LEAST else 0.0
    found = found if x <= MOST else np.inf
    return found if x == x else x


@njit(**EXACTLY)
def log_of_both(u, rest):
    """log(u) + rest, where the rest is small."""
    moved = as_bits(max(u, NORMAL)) + (ONE - ROOT)
    k = (as_float((moved >> PLACES) + INTEGER_BITS) - INTEGER) - BIAS
    f = as_float((moved & MANTISSA) + ROOT) - 1.0
    s = f / (2.0 + f)
    q = s * s
    q2 = q * q
    q4 = q2 * q2
    a = (LOG[0] + LOG[1] * q) + q2 * (LOG[2] + LOG[3] * q)
    b = (LOG[4] + LOG[5] * q) + q2 * (LOG[6] + LOG[7] * q)
    sum_of_powers = 2.0 * q * (a + q4 * (b + q4 * (LOG[8] + LOG[9] * q)))
    half = 0.5 * f * f  # 2s = f - s f: most of the sum is f, which is exact
    return k * LOG2[0] + (f - (half - (s * (half + sum_of_powers) + (k * LOG2[1] + rest))))


@njit(**EXACTLY)
def log(x):
    found = log_of_both(x, 0.0)
    found = found if x < np.inf else x
    return found if x > 0.0 else (-np.inf if x == 0.0 else np.nan)


@njit(**EXACTLY)
def log1p(x):
    u = 1.0 + x
    found = log_of_both(u, (x - (u - 1.0)) / u)
    found = found if x < np.inf else x
    return found if x > -1.0 else (-np.inf if x == -1.0 else np.nan)


OWN: tuple[tuple[Any, Any], ...] = ((math.exp, exp), (math.log, log), (math.log1p, log1p))


def for_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with those of this file for math.exp, math.log and math.log1p."""
    if not isinstance(function, FunctionType):
        return function
    known = dict(function.__globals__)
    for name in function.__code__.co_names:
        for theirs, ours in OWN:
            if known.get(name) is theirs:
                known[name] = ours
    return FunctionType(
        function.__code__, known, function.__name__, function.__defaults__, function.__closure__
    )
