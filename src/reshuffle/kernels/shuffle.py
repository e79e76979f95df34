"""Drawing an order inside a kernel; ``core/shuffle.hpp`` is the same for Python."""

from __future__ import annotations

from numba import njit

from reshuffle.kernels.options import CACHE


@njit(cache=CACHE, nogil=True)
def shuffle(visits, uniforms, last):
    """Fisher-Yates, a piece at a time: half the memory of numpy's permutation, and faster.

    Exchanges positions last, last-1, ... with positions drawn by the given uniform numbers.
    """
    for k in range(min(uniforms.size, last)):
        position = last - k
        other = int(uniforms[k] * (position + 1))
        visits[position], visits[other] = visits[other], visits[position]
