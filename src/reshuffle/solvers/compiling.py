"""A line for who waits while kernels are compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

PATIENCE = 1.0  # seconds without a word
LINE = "reshuffle: compiling for this kind of problem; the result is kept for the next time"


@contextmanager
def announced() -> Iterator[None]:
    """Says so on stderr where what is inside takes longer than a second."""
    timer = Timer(PATIENCE, lambda: print(LINE, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
