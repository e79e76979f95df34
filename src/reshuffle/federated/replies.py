"""Gathers replies for the driver: asks clients again, refuses invalid answers with a reason, and counts the bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, Protocol

import numpy as np

from reshuffle.engines import Failure, Plain, Record, Reply, Session, Task, checksum
from reshuffle.errors import ClientError, InputError, shown
from reshuffle.objective import Array

logger = logging.getLogger("reshuffle")

Watch = Callable[[Task, Reply | Failure, str], None]
"""A function that is called with every answer, and with the reason if it is refused or missing."""
Take = Callable[[Reply], Reply]
"""Takes the arrays out of a reply as it comes, so that none is kept; or raises ``Unusable`` without having taken anything."""
Letter = tuple[dict[str, Plain], dict[int, dict[str, Plain]]]
"""Numbers and texts that go along with a task: to all clients, and to each."""
Said = Mapping[int, Record]
"""The answers of clients to a question."""
TRAFFIC = ("bytes_down", "bytes_up", "retries", "refused")
"""The columns of a trace that count a round's messages."""


class Unusable(ValueError):
    """A reply has parts that cannot be read: it is refused, and its client is asked again."""


@dataclass(frozen=True)
class Policy:
    """How many clients take part, and what happens if one does not answer."""

    participation: float = 1.0
    retries: int = 2
    timeout: float | None = None
    on_missing: Literal["raise", "average"] = "raise"
    on_lost: Literal["raise", "restart"] = "raise"

    def few(self, clients: int) -> int:
        """The number of clients of a round, but for the last of a turn, in which each of the ``clients`` comes once."""
        return max(1, round(self.participation * clients))

    def turns(self, clients: int) -> int:
        """The number of rounds of a turn."""
        return -(-clients // self.few(clients))

    def fewest(self, clients: int) -> int:
        """The number of clients of the last round of a turn."""
        return clients % self.few(clients) or self.few(clients)


@dataclass(eq=False)
class Found:
    """The replies of a round, and the reasons of clients that did not reply."""

    replies: dict[int, Reply] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    """The latest reason of each client that is missing."""
    traffic: Array = field(default_factory=lambda: np.zeros(len(TRAFFIC)))
    diverged: str = ""
    """The clients whose local work overflowed."""
    lost: bool = False
    """Whether a client has lost its state, so that all clients must begin anew."""

    @property
    def said(self) -> Said:
        return {c: reply.more for c, reply in self.replies.items()}

    def told(self, called: Callable[[int], str], clients: Sequence[int] | None = None) -> str:
        """The missing clients, and the reasons."""
        missing = sorted(self.reasons.keys() - self.replies.keys()) if clients is None else clients
        return "; ".join(f"{called(c)}: {self.reasons.get(c, 'no answer')}" for c in missing[:5])


class Gatherer(Protocol):
    """Asks clients, and gathers their replies."""

    def __call__(self, task: Task, take: Take | None = None) -> Found: ...


@dataclass(eq=False)
class Gathering:
    """Asks clients until all have answered, as often as the policy allows."""

    session: Session
    engine: str
    policy: Policy
    average: bool
    called: Callable[[int], str] = "client {}".format
    watch: Watch | None = None
    reply_shape: Callable[[Array], tuple[int, ...]] = np.shape

    def __call__(self, task: Task, take: Take | None = None) -> Found:
        """The replies to a task; if ``take`` is given, each as ``take`` leaves it."""
        found = Found()
        for attempt in range(self.policy.retries + 1):
            asked = [c for c in task.clients if c not in found.replies]
            if not asked or found.diverged or found.lost:
                break
            found.traffic[0] += task.nbytes(asked)
            found.traffic[2] += len(asked) if attempt else 0
            self._attempt(task, set(asked), found, take)
        missing = [c for c in task.clients if c not in found.replies]
        if missing and not found.diverged and not found.lost:
            self._handle_missing(missing, task, found)
        return found

    def _attempt(self, task: Task, wanted: set[int], found: Found, take: Take | None) -> None:
        overflowed, shape = [], self.reply_shape(task.x) if task.kind == "train" else (0,)
        for answer in self._ask(task.part(sorted(wanted)), take is not None):
            known = isinstance(answer.client, int) and answer.client in wanted
            if isinstance(answer, Failure):
                if not known:
                    continue
                found.reasons[answer.client] = answer.reason
                self._show(task, answer, answer.reason)
                overflowed += [answer.client] if answer.diverged else []
                found.lost |= answer.lost and self.policy.on_lost == "restart"
                continue
            reason, taken = refusal(answer, task, wanted, found, shape), answer
            if not reason and take is not None:
                try:
                    taken = take(answer)
                except Unusable as error:
                    reason = str(error)
            self._show(task, answer, reason)
            if not reason:
                found.traffic[1] += answer.nbytes
                found.replies[answer.client] = taken
                del answer  # This happens before the next reply comes.
                continue
            found.traffic[3] += 1
            logger.warning("round %d: a reply is refused: %s", task.round, reason)
            if known and answer.client not in found.replies:
                found.reasons[answer.client] = reason
        if overflowed:
            others = f", and {len(overflowed) - 1} more" if overflowed[1:] else ""
            first = overflowed[0]
            found.diverged = f"{self.called(first)}: {found.reasons[first]}{others}"

    def _show(self, task: Task, answer: Reply | Failure, reason: str) -> None:
        if self.watch is not None:
            self.watch(task, answer, reason)

    def _ask(self, task: Task, one_by_one: bool) -> Iterator[Reply | Failure]:
        """The answers that the engine brings back; anything else is refused."""
        stream = getattr(self.session, "stream", None) if one_by_one else None
        answers = (stream or self.session.run_round)(task, self.policy.timeout)
        known = stream is not None or isinstance(answers, list)
        for answer in answers if known else [answers]:
            if not isinstance(answer, (Reply, Failure)) or not known:
                kind = type(answers).__name__
                raise InputError(
                    f"engine {self.engine}: run_round must return a list of Reply and Failure, got a {kind}"
                )
            yield answer

    def _handle_missing(self, missing: list[int], task: Task, found: Found) -> None:
        answered, told = len(found.replies), found.told(self.called, missing)
        share = f"{len(missing)} of {len(task.clients)} clients"
        if task.kind == "hello":
            text = f"before the first round: {share} cannot take part ({told})"
        else:
            when = f"round {task.round}" if task.kind == "train" else f"asked for {task.kind!r}"
            text = f"{when}: {share} missing ({told})"
        if not self.average or not answered:
            raise ClientError(text, missing)
        logger.warning("%s; averaging the %d that answered", text, answered)


def refusal(
    reply: Reply, task: Task, wanted: set[int], found: Found, shape: tuple[int, ...]
) -> str:
    """The reason why a reply does not answer the task; empty if it does."""
    for name, word in (("run", "run"), ("round", "round"), ("digest", "digest of the model")):
        said, asked = getattr(reply, name), getattr(task, name)
        if said != asked:
            return f"its reply belongs to another {word}: {shown(said)}, not {shown(asked)}"
    if not isinstance(reply.client, int) or reply.client not in wanted:
        return f"it says that it is from client {shown(reply.client)}, which was not asked"
    wrong = _no_model(reply, shape)
    if wrong:
        return wrong
    if reply.client in found.replies:
        if found.replies[reply.client].check != reply.check:
            raise ClientError(
                f"round {task.round}: client {reply.client} answered twice, with different models",
                [reply.client],
            )
        return f"client {reply.client} answered twice"
    return ""


def _no_model(reply: Reply, shape: tuple[int, ...]) -> str:
    model = reply.model
    if type(model) is not np.ndarray:  # A masked array would lose its mask.
        return f"its model must be an array, got a {type(model).__name__}"
    if model.dtype != np.float64 or model.shape != shape:
        got = f"{model.dtype} of shape {model.shape}"
        return f"its model must be float64 of shape {shape}, got {got}"
    more = reply.more
    if more and not (isinstance(more, Mapping) and all(map(is_plain, more, more.values()))):
        return "its reply must hold arrays, numbers and strings by name, and holds something else"
    if reply.check is not None and reply.check != checksum(model, more):
        return "it was damaged on the way: the checksum is another"
    if not is_finite(model) or (more and not all(map(is_finite, more.values()))):
        return "its model or its numbers hold NaN or infinity"
    return ""


def is_finite(part: object) -> bool:
    """Whether a part of a record has no NaN and no infinity; a sum tells, unless it overflows."""
    if isinstance(part, np.ndarray):
        return part.dtype.kind != "f" or isfinite(part.sum()) or bool(np.isfinite(part).all())
    return not isinstance(part, float) or isfinite(part)


def is_plain(name: object, value: object) -> bool:
    """Whether a value may be part of a record."""
    if isinstance(value, np.ndarray):
        return isinstance(name, str) and value.dtype.kind in "fiub"
    return isinstance(name, str) and type(value) in (str, int, float)


def trains(task: Task) -> bool:
    """Whether a client takes part in a round by this message: in the clear, or as its input of a secure sum."""
    return task.kind == "train" or (task.kind == "secure-input" and "setup" in task.more)


@dataclass
class Traffic:
    """Messages of one kind, and their bytes to and from clients."""

    messages: int = 0
    down: int = 0
    up: int = 0


@dataclass
class ClientTally:
    """One client's part in a run."""

    name: str
    samples: int | None = None
    rounds: int = 0
    """The number of rounds in which it took part."""
    failed: int = 0
    """How often it did not answer, or its answer was refused."""
    reason: str = ""
    """The latest reason."""
    loss: float | None = None
    """The mean loss of its own samples, when it last said so."""
    traffic: dict[str, Traffic] = field(default_factory=dict)
    """The traffic by kind of message."""

    @property
    def down(self) -> int:
        return sum(one.down for one in self.traffic.values())

    @property
    def up(self) -> int:
        return sum(one.up for one in self.traffic.values())


class Tally:
    """Counts all answers as the ``watch`` of a federation, and passes each on to the next function."""

    def __init__(self, names: Sequence[str], then: Watch | None = None) -> None:
        self.parts = [ClientTally(name) for name in names]
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
            part.rounds += trains(task)
            if task.kind == "hello":
                part.samples = int(answer.more["samples"])
            if "value" in answer.more:
                part.loss = float(answer.more["value"])

    def by_kind(self) -> dict[str, Traffic]:
        total: dict[str, Traffic] = {}
        for part in self.parts:
            for name, one in part.traffic.items():
                kind = total.setdefault(name, Traffic())
                kind.messages += one.messages
                kind.down += one.down
                kind.up += one.up
        return total
