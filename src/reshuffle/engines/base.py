"""The messages between the driver and its clients, and the interface of an engine, which only transports them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.digests import digest
from reshuffle.engines.number_bytes import WHOLE, read, written
from reshuffle.errors import InputError

OVERHEAD = 20
"""Even a small client costs about as much time as this many samples."""
MANY = 16
"""With at least this many clients for each part, parts made of neighbours are even enough."""
NOTHING = np.empty(0)
"""The array of a message that needs none."""
Plain = str | int | float | AnyArray
Record = Mapping[str, Plain]
"""The part of a message besides the model: only arrays, numbers and strings."""


@dataclass(frozen=True, eq=False)
class Task:
    """The message of a round to its clients."""

    run: str
    round: int
    step: float
    x: Array
    digest: str
    """The digest of x: a reply must say which model it started from."""
    clients: tuple[int, ...]
    controls: Mapping[int, Array] = field(default_factory=dict)
    """The control variate of each client, for methods that have one."""
    kind: str = "train"
    """The kind of question: a local epoch, or another one that a host can answer."""
    more: Record = field(default_factory=dict)
    """Further numbers and texts for all clients."""
    own: Mapping[int, Record] = field(default_factory=dict)
    """Further numbers and texts for one client alone."""
    width: int = WHOLE
    """The bytes in which each number of x travels; the digits that they do not hold are zero."""

    @classmethod
    def question(
        cls, kind: str, clients: Iterable[int], more: Record, run: str, round: int = 0
    ) -> Task:
        """A question without a model."""
        none = digest(NOTHING)
        return cls(run, round, 0.0, NOTHING, none, tuple(clients), kind=kind, more=more)

    def parts(self, clients: Sequence[int], apart: bool) -> list[Task]:
        """This task for a host of these clients: in one part or, if they are kept ``apart``, one for each client."""
        whole = self.part(clients)
        parts = [self.part([c]) for c in whole.clients] if apart else [whole]
        return [part for part in parts if part.clients]

    def part(self, clients: Sequence[int]) -> Task:
        """This task for some of its clients."""
        asked = set(self.clients)
        mine = tuple(c for c in clients if c in asked)
        controls = {c: self.controls[c] for c in mine if c in self.controls}
        own = {c: self.own[c] for c in mine if c in self.own}
        return replace(self, clients=mine, controls=controls, own=own)

    def nbytes(self, clients: Sequence[int]) -> int:
        """The bytes that go to these clients, without the names of the parts."""
        same = len(clients) * (self.x.nbytes * self.width // WHOLE + size_of(self.more))
        each = sum(size_of(self.own[c]) for c in clients if c in self.own)
        return same + each + sum(self.controls[c].nbytes for c in clients if c in self.controls)

    def reply(self, client: int, model: Array = NOTHING, more: Record | None = None) -> Reply:
        """A client's reply to this task, with its checksum."""
        more = more or {}
        check = checksum(model, more)
        return Reply(self.run, self.round, client, self.digest, model, check, more)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"x": written(self.x, self.width)}

    def __setstate__(self, state: dict[str, AnyArray]) -> None:
        vars(self).update(state | {"x": read(state["x"])})


@dataclass(frozen=True, eq=False)
class Reply:
    """Everything that leaves a client in a round: its model, and the task that the model answers."""

    run: str
    round: int
    client: int
    digest: str
    model: Array
    check: int | None = None
    """``checksum(model, more)``, by which a reply that was damaged on its way is recognised."""
    more: Record = field(default_factory=dict)
    """The answers beside the model that the task asked for."""

    @property
    def nbytes(self) -> int:
        return self.model.nbytes + (size_of(self.more) if self.more else 0)


@dataclass(frozen=True)
class Failure:
    """A client that did not answer, and why."""

    client: int
    reason: str
    diverged: bool = False
    """Whether its local work overflowed; if it were asked again, it would fail again."""
    lost: bool = False
    """Whether the client lacks the state of earlier rounds that it should have."""


class Host(Protocol):
    """Holds the data of some clients and does their part of a round."""

    clients: tuple[int, ...]

    def sizes(self) -> dict[int, int]:
        """The number of samples N_m of each client, which is all that a client says before the first round."""
        ...

    def work(self, task: Task) -> list[Reply | Failure]: ...


class Session(Protocol):
    """The hosts of one run. Two runs have two sessions, even if they share an engine."""

    sizes: dict[int, int]
    """N_m as the clients themselves report it."""

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        """One answer for each client of the task, in any order."""
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Carries tasks to hosts and replies back. An engine knows nothing of the method."""

    def open(self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]) -> Session:
        """Distribute the clients over hosts.

        A host made by ``make_host`` is a description that can be pickled: it loads its clients' data
        on its first message.
        """
        ...


def open_session(
    engine: Engine, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]
) -> Session:
    """The hosts of a new run on this engine."""
    opened = engine.open(sizes, make_host)
    missing = [part for part in ("sizes", "run_round", "close") if not hasattr(opened, part)]
    if missing:
        raise InputError(
            f"engine {type(engine).__name__}: open() must return a Session, and what it returned lacks {missing}"
        )
    return opened


def checksum(model: AnyArray, more: Record) -> int:
    """CRC-32 of the contents of a reply, which detects damage but not malice."""
    found = zlib.crc32(model.data if model.flags.c_contiguous else model.tobytes())
    for name in sorted(more) if more else ():
        part = more[name]
        found = zlib.crc32(name.encode(), found)
        array = isinstance(part, np.ndarray)
        found = zlib.crc32(np.ascontiguousarray(part).data if array else repr(part).encode(), found)
    return found


def size_of(record: Record) -> int:
    """The bytes of a value: those of the entries of an array, of a text in UTF-8, and eight for a number."""
    return sum(
        value.nbytes
        if isinstance(value, np.ndarray)
        else len(value.encode())
        if isinstance(value, str)
        else 8
        for value in record.values()
    )


def balanced(sizes: Sequence[int], parts: int) -> list[list[int]]:
    """Clients in ``parts`` groups of about equal work.

    Few clients are assigned one by one, the largest first, to the lightest group; many stay with their
    neighbours, which can be trained together.
    """
    if len(sizes) > MANY * parts:
        work = np.cumsum(np.asarray(sizes) + OVERHEAD)
        cuts = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)
        return [part.tolist() for part in np.split(np.arange(len(sizes)), cuts) if part.size]
    groups: list[list[int]] = [[] for _ in range(min(parts, len(sizes)))]
    loads = [0] * len(groups)
    for client in sorted(range(len(sizes)), key=lambda c: (-sizes[c], c)):
        lightest = loads.index(min(loads))
        groups[lightest].append(client)
        loads[lightest] += sizes[client] + OVERHEAD
    return [sorted(group) for group in groups]
