"""Kernels that are compiled on the way, once in a process, with a line for who waits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import TIMEOUT_MAX, Timer

from reshuffle.losses import Loss, named

PATIENCE = 1.0  # seconds without a word
_patience = PATIENCE
LINE = "reshuffle: compiling for this kind of problem"
KEPT = "; the result is kept for the next time"


READY: set[tuple[object, ...]] = set()
"""What has been compiled in this process."""


def once(kind: tuple[object, ...], loss: Loss, work: Callable[[], object]) -> float:
    """Do what compiles, or loads, the kernels of this kind where this process has not yet; the seconds it took."""
    if kind in READY:
        return 0.0
    clock = time.perf_counter()
    with named(loss), announced():
        work()
    READY.add(kind)
    return time.perf_counter() - clock


@contextmanager
def announced() -> Iterator[None]:
    """Says so on stderr where what is inside takes longer than a second."""
    timer = Timer(_patience, lambda: print(_line(), file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _line() -> str:
    from reshuffle.kernels.cache import lasting

    return LINE + (KEPT if lasting() else "")


@contextmanager
def unannounced() -> Iterator[None]:
    """No line, however long it takes: for a process whose user asked for silence, in all its threads."""
    global _patience
    _patience = TIMEOUT_MAX
    try:
        yield
    finally:
        _patience = PATIENCE
