"""Generators for every random choice of the package: a pure function of the seed and of the use.

No generator is part of a run's state. The permutation of epoch t depends on the seed and t alone, so
a resumed run, a restarted client or another engine draws the same numbers.
"""

from __future__ import annotations

import numpy as np

from reshuffle.errors import InputError, shown


def generator(seed: int, *stream: int) -> np.random.Generator:
    """The generator of one use, named by integers (an epoch, a client and a round, ...)."""
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence([seed, *stream])))


class Stream:
    """The random numbers of one epoch or round; each client has its own stretch of them.

    ``at(k)`` is a generator that begins with the k-th number, so a client's draws do not depend on
    which clients drew before it, or where.
    """

    def __init__(self, seed: int, *stream: int) -> None:
        self._generator = generator(seed, *stream)
        self._bits = self._generator.bit_generator
        self._start = self._bits.state

    def at(self, position: int) -> np.random.Generator:
        self._bits.state = self._start
        if position:
            self._bits.advance(position)  # type: ignore[attr-defined]
        return self._generator


def check_seed(seed: object) -> int:
    """A seed is a non-negative integer, so that a run can always be repeated."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a non-negative integer, got {shown(seed)}")
    return int(seed)
