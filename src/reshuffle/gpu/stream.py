"""The random numbers of a round, as the kernels draw them: numpy's PCG64DXSM, started at any position."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from reshuffle.randomness import generator

MULTIPLIER = 0xDA942042E4DD58B5
"""The multiplier a of the state of PCG64DXSM."""
BYTES = 6
"""Positions have this many bytes (see orders.cuh)."""
REMEMBERED = 8
"""States that are kept: those of this round and the next, of a few seeds."""
WORD, WHOLE = (1 << 64) - 1, (1 << 128) - 1


def halves(number: int) -> tuple[int, int]:
    """The upper and the lower 64 bits of a number."""
    return number >> 64, number & WORD


@cache
def jumps() -> NDArray[np.uint64]:
    """A_k = a^k and C_k = 1 + a + … + a^(k-1) modulo 2^128, each in two halves, for k = digit·256^place."""
    rows: list[tuple[int, ...]] = []
    power, total = MULTIPLIER, 1
    for _ in range(BYTES):
        a, c = 1, 0
        for _ in range(256):
            rows.append((*halves(a), *halves(c)))
            a, c = a * power & WHOLE, (power * c + total) & WHOLE
        power, total = a, c
    return np.array(rows, dtype=np.uint64)


@lru_cache(maxsize=REMEMBERED)
def stream_state(seed: int, *stream: int) -> tuple[np.uint64, ...]:
    """The state and the increment of ``randomness.Stream``, in halves, as the kernels take them."""
    found = generator(seed, *stream).bit_generator.state["state"]
    both = (*halves(found["state"]), *halves(found["inc"]))
    return tuple(np.uint64(half) for half in both)
