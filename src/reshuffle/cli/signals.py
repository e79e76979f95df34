"""While a command runs, SIGTERM is treated like Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard() -> Iterator[list[int]]:
    """Both signals raise ``KeyboardInterrupt``; the list that is yielded collects those that arrived.

    A process that ignores them (nohup) still does so, and nothing is changed outside the main thread.
    """
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    old = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                old[number] = signal.signal(number, interrupt)
    except ValueError:  # not the main thread, which alone can handle signals
        pass
    try:
        yield came
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
