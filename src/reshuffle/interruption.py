"""Bounds the work of each call of a kernel, so that Ctrl-C and time limits take effect soon.

Python handles a signal when a kernel returns. Time limits are checked at the same points (``listen``): when time is up,
the current epoch is abandoned, and the run ends with the result of the epoch before.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class CallSize:
    """How much work one call of the core may do before it returns to Python."""

    work: int = 1 << 24
    """The number of values and coordinates that a call reads: about a tenth of a second if memory is slow."""
    visits: int | None = None
    """The least number of visits of a call, unless rows are very long; None leaves it to the loop."""


CALL = CallSize()
"""The size of calls in this process."""
_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class OutOfTime(BaseException):
    """Time is up. It is not an ``Exception``, so that no handler on the way takes it for a failure."""


@contextmanager
def until(deadline: float) -> Iterator[None]:
    """In the block, ``listen`` raises ``OutOfTime`` from this time of ``time.perf_counter`` on; other threads are not affected."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def listen() -> None:
    """Raise ``OutOfTime`` if time is up."""
    if time.perf_counter() >= _DEADLINE.get():
        raise OutOfTime


def cuts(count: int, work: Callable[[int], int], grain: int = 1) -> list[slice]:
    """The boundaries of calls over this many entries, each with work of at most ``CALL.work``, or one larger entry.

    ``work(k)`` is the cost of the entries before k. A call takes a multiple of ``grain`` entries if it takes that
    many: sums over groups of entries then do not depend on where calls end.
    """
    found, start = [], 0
    while start < count:
        stop = bisect_right(range(count + 1), work(start) + CALL.work, lo=start, key=work) - 1
        stop = max(stop, start + 1)
        if stop < count and stop - start > grain:
            stop -= (stop - start) % grain
        found.append(slice(start, stop))
        start = stop
    return found
