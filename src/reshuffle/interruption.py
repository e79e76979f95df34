"""Ctrl-C and time limits are heard between two calls of a kernel, so that no call may do much.

Python hears a signal when a kernel returns. A time limit is looked at in the same places (``listen``): an epoch that
is still going on when time is up is left, and the run ends where the epoch before it did.
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
    """How much one call of the core may do before Python is heard again."""

    work: int = 1 << 24
    """Values and coordinates that a call reads: about a tenth of a second where memory is slow."""
    visits: int | None = None
    """The least visits of a call, where rows are not far too long; by default as the loop has it."""


CALL = CallSize()
"""The size of calls in this process."""
_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class OutOfTime(BaseException):
    """Time is up. Not an ``Exception``: nobody on the way should take it for a failure of theirs."""


@contextmanager
def calls_of(work: int, visits: int | None = None) -> Iterator[None]:
    """Calls are of this size inside, in all threads: smaller ones are interrupted sooner, and cost more."""
    before = CALL.work, CALL.visits
    CALL.work, CALL.visits = work, visits
    try:
        yield
    finally:
        CALL.work, CALL.visits = before


@contextmanager
def until(deadline: float) -> Iterator[None]:
    """Code inside that calls ``listen`` ends with ``OutOfTime`` at this time of ``time.perf_counter``; other threads go on."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def listen() -> None:
    """Ask whether time is up."""
    if time.perf_counter() >= _DEADLINE.get():
        raise OutOfTime


def cuts(count: int, work: Callable[[int], int], grain: int = 1) -> list[slice]:
    """Where calls over so many entries begin and end, each of ``CALL.work`` at most, or of one entry that is more.

    ``work(k)`` is what the entries before k cost. A call takes a multiple of ``grain`` entries where it takes that
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
