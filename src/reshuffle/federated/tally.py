"""What travelled between the driver and each client, counted as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reshuffle.engines import Failure, Reply, Task
from reshuffle.federated.collect import Watch


@dataclass
class Traffic:
    """Messages of one kind, and their bytes to and from clients."""

    messages: int = 0
    down: int = 0
    up: int = 0


@dataclass
class Part:
    """One client's part in a run."""

    name: str
    samples: int | None = None
    rounds: int = 0
    """In which it took part."""
    failed: int = 0
    """How often it did not answer, or its answer was refused."""
    reason: str = ""
    """Why, the last time."""
    loss: float | None = None
    """The mean loss of its own samples, when it last said so."""
    traffic: dict[str, Traffic] = field(default_factory=dict)
    """By kind of message."""

    @property
    def down(self) -> int:
        return sum(one.down for one in self.traffic.values())

    @property
    def up(self) -> int:
        return sum(one.up for one in self.traffic.values())


class Tally:
    """Told of every answer (``watch`` of a federation), it counts them and tells the next."""

    def __init__(self, names: Sequence[str], then: Watch | None = None) -> None:
        self.parts = [Part(name) for name in names]
        self.then = then

    def __call__(self, task: Task, answer: Reply | Failure, reason: str) -> None:
        if self.then is not None:
            self.then(task, answer, reason)
        if not isinstance(answer.client, int) or not 0 <= answer.client < len(self.parts):
            return
        part = self.parts[answer.client]
        kind = part.traffic.setdefault(task.kind, Traffic())
        kind.messages += 1
        kind.down += task.nbytes([answer.client])
        if reason:
            part.failed, part.reason = part.failed + 1, reason
        elif isinstance(answer, Reply):
            kind.up += answer.nbytes
            part.rounds += task.kind == "train"
            if task.kind == "hello":
                part.samples = int(answer.more["samples"])
            if "value" in answer.more:
                part.loss = float(answer.more["value"])

    def by_kind(self) -> dict[str, Traffic]:
        """Over all clients."""
        total: dict[str, Traffic] = {}
        for part in self.parts:
            for name, one in part.traffic.items():
                kind = total.setdefault(name, Traffic())
                kind.messages += one.messages
                kind.down += one.down
                kind.up += one.up
        return total
