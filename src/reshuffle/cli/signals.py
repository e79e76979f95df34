"""SIGTERM like Ctrl-C, as long as a command runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def heard() -> Iterator[list[int]]:
    """Both signals are a ``KeyboardInterrupt``; those that came are in the list that is given.

    A process that was told to ignore them goes on doing so (nohup), and outside the main thread nothing is changed.
    """
    came: list[int] = []

    def interrupt(number: int, _: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    old = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                old[number] = signal.signal(number, interrupt)
    except ValueError:  # not the main thread: signals are heard elsewhere
        pass
    try:
        yield came
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
