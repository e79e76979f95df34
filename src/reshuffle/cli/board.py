"""The live table of a federated run, with the last reply of each client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table

from reshuffle.engines import Failure, Reply, Task
from reshuffle.federated.replies import trains

MOST = 25  # Lines of the table: more would not fit on a screen.


@dataclass
class SiteLine:
    """The entries of the table for one client."""

    name: str
    samples: int | None = None
    round: int | None = None
    """The round of its last reply."""
    loss: float | None = None
    answers: int = 0
    refused: int = 0
    state: str = "not asked yet"


class Board(AbstractContextManager["Board"]):
    """A table with one line per client, updated during the run by every reply (as ``watch`` of a federation)."""

    def __init__(self, names: Sequence[str], shown: bool) -> None:
        self.lines = [SiteLine(name) for name in names]
        self._shown = shown
        self._live = Live(
            get_renderable=self.table,
            console=Console(stderr=True),
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Board:
        if self._shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._live.stop()

    def __call__(self, task: Task, answer: Reply | Failure, reason: str) -> None:
        if not isinstance(answer.client, int) or not 0 <= answer.client < len(self.lines):
            return
        line = self.lines[answer.client]
        if reason:
            line.refused += not isinstance(answer, Failure)
            line.state = reason
            return
        line.answers += 1
        line.state = "answered"
        if isinstance(answer, Reply):
            if trains(task):
                line.round = task.round + 1
            if task.kind == "hello":
                line.samples = int(answer.more["samples"])
            if "value" in answer.more:
                line.loss = float(answer.more["value"])

    def table(self) -> Table:
        """The table: clients in trouble first, then the largest ones."""
        table = Table("client", "samples", "round", "loss", "answers", "refused", "state")
        order = sorted(self.lines, key=lambda one: (one.state == "answered", -(one.samples or 0)))
        for line in order[:MOST]:
            table.add_row(
                line.name,
                *("–" if v is None else f"{v:,}" for v in (line.samples, line.round)),
                "–" if line.loss is None else f"{line.loss:.5g}",
                str(line.answers),
                str(line.refused),
                line.state[:60],
            )
        if len(order) > MOST:
            table.caption = f"and {len(order) - MOST} more"
        return table
