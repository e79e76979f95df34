"""Sums whose bits do not depend on the order in which replies come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reshuffle.engines import Reply
from reshuffle.federated.answers import ARRAYS
from reshuffle.objective import Array

PIECE = 1 << 12  # entries at a time, so that intermediate results stay small


class Total:
    """Σ v in twice the precision: a rounded sum and the sum of its rounding errors (Knuth's two-sum).

    The error is some 2^-100 of Σ|v|, so that, rounded to double, sums in any order agree but for the rarest
    of chances.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.high, self.low = np.zeros(shape), np.zeros(shape)

    def add(self, v: Array) -> None:
        high, low, more = self.high.reshape(-1), self.low.reshape(-1), v.reshape(-1)
        for start in range(0, high.size, PIECE):
            at = slice(start, start + PIECE)
            a, b = high[at], more[at]
            total = a + b
            rest = total - a
            low[at] += (a - (total - rest)) + (b - rest)
            high[at] = total

    def value(self) -> Array:
        """The sum; nothing can be added any more."""
        self.high += self.low
        self.low = np.empty(0)
        return self.high


class Sums:
    """Adds up the arrays of replies and forgets them: residuals as they are, gradients (``ARRAYS``) by N_m/N."""

    def __init__(self, shape: tuple[int, ...], shares: Array) -> None:
        self.shape, self.shares = shape, shares
        self.model = Total(shape)
        self.totals: dict[str, Total] = {}

    def take(self, reply: Reply) -> Reply:
        """The reply without what was added."""
        self.model.add(reply.model)
        for name in ARRAYS:
            part = reply.more.get(name)
            if part is not None:
                total = self.totals.setdefault(name, Total(self.shape))
                total.add(float(self.shares[reply.client]) * np.asarray(part))
        rest = {name: part for name, part in reply.more.items() if name not in ARRAYS}
        return replace(reply, model=np.empty(0), more=rest)
