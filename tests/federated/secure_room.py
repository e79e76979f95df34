"""Sites of a secure sum in one room, and a driver that can be told to misbehave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.digests import digest
from reshuffle.engines import Failure, Reply, Task
from reshuffle.federated.replies import Found
from reshuffle.federated.secure import Secure
from reshuffle.federated.secure.attempt import Attempt
from reshuffle.federated.secure.gathering import SecureSums
from reshuffle.federated.secure.guard import Guard
from reshuffle.federated.secure.header import SumHeader
from reshuffle.federated.secure.keys import make_keys

Change = Callable[[Task], Task | None]
"""What a dishonest driver, or a broken line, makes of a task to one client; None: it does not arrive."""
NOTHING = np.empty(0)


def named(count: int) -> list[str]:
    return [f"site{number}" for number in range(count)]


@dataclass(eq=False)
class Room:
    """Sites with values, each with a guard of its own."""

    folder: Path
    values: np.ndarray
    secure: Secure = field(default_factory=Secure)
    changes: dict[tuple[str, int], Change] = field(default_factory=dict)
    """By kind of message and client."""
    lost: set[tuple[str, int]] = field(default_factory=set)
    """Answers that do not arrive."""
    heard: list[tuple[Task, Reply]] = field(default_factory=list)
    """All that the driver ever saw."""
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = named(len(self.values))
        if not self.folder.exists():
            make_keys(self.folder, self.names)
        self.sums = SecureSums(self.secure, self.names)
        self.sums.sizes = np.full(len(self.values), 10)
        self.guards = {
            c: Guard(self.secure, {c: name}, {c: self.folder}) for c, name in enumerate(self.names)
        }

    def task(self, number: int = 0, **more: Any) -> Task:
        everyone = tuple(range(len(self.values)))
        record: Any = {"wants": "value", **more}
        return Task(
            "run", number, 1.0, NOTHING, digest(NOTHING), everyone, kind="train", more=record
        )

    def plain(self, task: Task) -> list[Reply | Failure]:
        """What the host of a site would say: its vector."""
        return [
            Reply(task.run, task.round, c, task.digest, self.values[c].copy()) for c in task.clients
        ]

    def say(self, task: Task, client: int) -> Reply | Failure:
        """A site's answer to a task, whoever wrote it."""
        (answer,) = self.guards[client].answers(task.part([client]), self.plain, lambda c, t: 10)
        if isinstance(answer, Failure):
            self.refusals.append(answer.reason)
        return answer

    def ask(self, task: Task, take: Any = None) -> Found:
        found = Found()
        for client in task.clients:
            change = self.changes.get((task.kind, client))
            asked = task.part([client]) if change is None else change(task.part([client]))
            if asked is None:
                continue
            answer = self.say(asked, client)
            if isinstance(answer, Failure):
                found.reasons[client] = answer.reason
            elif (task.kind, client) not in self.lost:
                self.heard.append((task, answer))
                found.replies[client] = answer if take is None else take(answer)
        return found

    def header(self, number: int = 0) -> SumHeader:
        return self.sums.header(self.task(number))

    def attempt(
        self, number: int = 0, partial: bool = True, header: SumHeader | None = None
    ) -> Attempt:
        return Attempt(self.ask, self.task(number), header or self.header(number), partial)

    def answer(self, kind: str, client: int) -> Reply:
        """What the driver heard of a client, the last time."""
        return next(
            reply
            for task, reply in reversed(self.heard)
            if (task.kind, reply.client) == (kind, client)
        )


def changed(**parts: Any) -> Change:
    """A task with other parts."""
    return lambda task: replace(task, more={**task.more, **parts})


def never(task: Task) -> None:
    return None
