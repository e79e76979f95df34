"""Callbacks after each epoch, which may observe, stop, save or show the run."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from reshuffle.errors import extra
from reshuffle.trace import Result
from reshuffle.validation import check_positive

if TYPE_CHECKING:
    from rich.progress import Progress

Callback = Callable[[Result], bool | None]
"""Called with the run so far after each evaluated epoch; returning ``True`` stops the run.

Later epochs change the arrays of the result: use ``result.snapshot()`` to keep it.
"""


class Checkpoint:
    """Saves the run so far every ``every`` evaluations, atomically, so that it can be resumed.

    With ``seconds`` it saves at most once in that time, for states that take long to write; if the process ends,
    everything after the last save is lost.

    >>> import reshuffle as rs
    >>> rs.ProxRR(epochs=10).solve(problem, callbacks=[rs.Checkpoint("run.npz")])  # doctest: +SKIP
    >>> rs.ProxRR(epochs=10).solve(problem, resume="run.npz")  # doctest: +SKIP
    """

    def __init__(
        self, path: str | os.PathLike[str], every: int = 1, seconds: float | None = None
    ) -> None:
        check_positive("every", every, integer=True)
        check_positive("seconds", seconds, optional=True)
        self.path, self.every, self.seconds = path, every, seconds or 0.0
        self._seen, self._saved = 0, -math.inf

    def __call__(self, result: Result) -> None:
        self._seen += 1
        late = time.monotonic() - self._saved >= self.seconds
        if self._seen % self.every == 0 and late:
            result.save(self.path)
            self._saved = time.monotonic()


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """A live line on stderr: epochs done, objective, time left, and at the end how the run ended."""

    def __init__(self, epochs: int, title: str) -> None:
        self._bar = _bar(20, "P = {task.fields[objective]:.6g}{task.fields[more]}")
        self._task = self._bar.add_task(title, total=epochs, objective=float("nan"), more="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def finish(self, result: Result) -> None:
        """Finish the line; a run that reached its accuracy counts as complete, however many epochs were left."""
        if result.reached:
            end = ", converged" if result.converged else ", stationary"
            self(result, end, total=result.epoch)
        elif result.epoch < (self._bar.tasks[0].total or 0):
            self(result, ", stopped")
        else:
            self(result)

    def __call__(self, result: Result, end: str = "", **change: Any) -> None:
        row = result.trace.last()
        known = [value for value in result.trace["objective"][-2:] if value == value]
        sent = row.get("bytes_up", 0.0) + row.get("bytes_down", 0.0)
        traffic = f", {sent / 1e6:.1f} MB" if "bytes_up" in row else ""
        self._bar.update(
            self._task,
            completed=result.epoch,
            objective=known[-1] if known else float("nan"),
            more=traffic + end,
            **change,
        )

    def line(self) -> str:
        with self._bar.console.capture() as captured:
            self._bar.console.print(self._bar.make_tasks_table(self._bar.tasks))
        return captured.get()


@contextmanager
def progress_bar(title: str, total: int, shown: bool) -> Iterator[Callable[[], None]]:
    """A bar on stderr if ``shown``; call the function that it yields once for each of ``total`` pieces."""
    if not shown:
        yield lambda: None
        return
    with _bar(40) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def _bar(width: int, *texts: str) -> Progress:
    """A bar on stderr with a description, a count, these texts and the time left."""
    with extra("cli", "rich", "a progress bar"):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(width), MofNCompleteColumn())
    more = map(TextColumn, texts)
    return Progress(*columns, *more, Remaining(), console=Console(stderr=True))
