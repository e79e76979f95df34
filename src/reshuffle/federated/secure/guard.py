"""Guards a site: every answer that is part of a sum leaves the site masked.

It stands between the driver and the site's host. It answers the questions of the protocol itself; the question that a sum is to answer
is passed to the host, whose answer (with noise, if it adds any) is encoded and masked on its way out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike

import numpy as np

from reshuffle.digests import digest
from reshuffle.engines import Failure, Plain, Record, Reply, Task
from reshuffle.errors import InputError
from reshuffle.federated.local import local_of
from reshuffle.federated.secure.header import WIDTH, KeyRow, SumHeader, check_clock, question_of
from reshuffle.federated.secure.keys import SIGNATURE, SiteKeys, open_keys
from reshuffle.federated.secure.parts import beyond, layout_text, parts_of, words_of
from reshuffle.federated.secure.protocol import SEALED, SiteRound
from reshuffle.federated.secure.settings import Secure
from reshuffle.federated.secure.wire import (
    INPUT,
    START,
    TOLD,
    as_array,
    packed,
    read_numbers,
    read_rows,
    read_text,
    sent,
    without,
)

Answers = list[Reply | Failure]


@dataclass(eq=False)
class Guard:
    """The protocol's side of a host: the attempts of its clients, and the questions that they will not answer twice."""

    secure: Secure
    names: Mapping[int, str | None]
    folders: Mapping[int, str | PathLike[str] | None]
    rounds: dict[int, SiteRound] = field(default_factory=dict, repr=False)
    finished: dict[int, set[str]] = field(default_factory=dict, repr=False)
    """The labels of sums and the attempts that a client has taken part in."""
    _keys: dict[int, SiteKeys] = field(default_factory=dict, init=False, repr=False)

    def answers(
        self,
        task: Task,
        plain: Callable[[Task], Answers],
        samples: Callable[[int, Task], int],
    ) -> Answers:
        """The answers to a task; ``plain`` are those of the host, ``samples`` gives N_m."""
        if not task.kind.startswith(START):
            return self._unmasked(task, plain)
        found: Answers = []
        ready: dict[int, SiteRound] = {}
        for client in task.clients:
            try:
                if task.kind == INPUT:
                    ready[client] = self._opened(client, task)
                else:
                    found.append(task.reply(client, more=sent(self._answer(client, task))))
            except InputError as error:
                found.append(Failure(client, str(error)))
            except Exception as error:  # The text of the error could hold anything.
                found.append(Failure(client, f"{type(error).__name__} in a secure sum"))
        if ready:
            kind = next(iter(ready.values())).header.kind
            for answer in plain(_inner(task.part(tuple(ready)), kind)):
                found.append(self._masked(task, ready[answer.client], answer, samples))
        return found

    def _unmasked(self, task: Task, plain: Callable[[Task], Answers]) -> Answers:
        """The answers that leave a site unmasked; a single site's part of a sum is refused."""
        if task.kind in TOLD and not task.more.get("moments"):
            return plain(task)
        reason = f"this site takes part in secure sums only, and {task.kind} asks for an answer of its own"
        return [Failure(client, reason) for client in task.clients]

    # --- the questions -------------------------------------------------------------------------

    def _answer(self, client: int, task: Task) -> dict[str, Plain]:
        more, keys, question = task.more, self._signer(client), task.kind.removeprefix(START)
        if question == "hello":
            return self._introduced(client, more, keys)
        if question == "keys":
            return {"keys": as_array(self._begun(client, more).keys(keys, time.time()).packed())}
        one = self._round(client, more)
        if question == "shares":
            rows = {c: KeyRow.of(row) for c, row in read_rows(more, "keys", WIDTH).items()}
            return packed("sealed", one.shares(rows, keys, time.time()))
        if question == "agree":
            return {"signature": as_array(one.agree(read_numbers(more, "survivors"), keys))}
        if question == "unmask":
            signatures = read_rows(more, "signatures", SIGNATURE)
            self.finished.setdefault(client, set()).add(one.header.label)
            seed, shares = one.unmask(signatures, keys)
            return {"seed": as_array(seed), **packed("shares", shares)}
        raise InputError(f"a message of kind {task.kind} is not known here")

    def _introduced(self, client: int, more: Record, keys: SiteKeys) -> dict[str, Plain]:
        """Check before any data is touched that keys, names, clock and settings fit."""
        names = json.loads(read_text(more, "names"))
        if not 0 <= client < len(names) or names[client] != keys.name:
            called = names[client] if 0 <= client < len(names) else "nobody"
            raise InputError(
                f"the driver calls this site {called}, and its key belongs to {keys.name}"
            )
        count = len(names)
        wanted, own = int(more["secure_threshold"]), self.secure.threshold_of(count)
        if wanted != own:
            raise InputError(
                f"the driver has the threshold {wanted} of {count} sites, this site {own}"
            )
        check_clock(float(more["secure_time"]), time.time(), "the driver's clock is at")
        return {"pins": keys.digest_of(names)}

    def _begun(self, client: int, more: Record) -> SiteRound:
        """Begin a new attempt, if this site takes part in one with this head; the secrets of the last attempt are discarded."""
        header = SumHeader.of(read_text(more, "header"))
        past = self.finished.setdefault(client, set())
        if client in self.rounds:
            self.rounds.pop(client).forget()
        header.check(client, self._signer(client).name, self.secure, past)
        past.add(header.attempt)
        self.rounds[client] = SiteRound(header, client)
        return self.rounds[client]

    def _opened(self, client: int, task: Task) -> SiteRound:
        """Take the others' shares, and check that the question is the one that was announced to all sites."""
        one = self._round(client, task.more)
        sealed = read_rows(task.own.get(client, {}), "sealed", SEALED)
        one.open_shares(read_numbers(task.more, "senders"), sealed)
        same = digest(task.x) == task.digest
        if not same or question_of(task, one.header.kind) != one.header.question:
            raise InputError(
                "the question is another than the one that this sum was announced with"
            )
        return one

    def _masked(
        self,
        task: Task,
        one: SiteRound,
        answer: Reply | Failure,
        samples: Callable[[int, Task], int],
    ) -> Reply | Failure:
        """The host's answer, masked; a value out of range does not leave."""
        if isinstance(answer, Failure):
            one.forget()
            return answer
        try:
            own, whole = samples(answer.client, task), one.header.samples
            if own > whole:
                raise InputError(
                    f"the driver counts {whole:,} samples of all sites, and this site has {own:,}"
                )
            trains = one.header.kind == "train" and "work" in task.more
            blocks = local_of(without(task.more)).blocks(task.x) if trains else ()
            parts = parts_of(answer, own / whole, blocks)
            wild = [name for name, part in parts.items() if not np.isfinite(part).all()]
            if wild:
                raise InputError(f"its {wild[0]} holds NaN or infinity, and does not leave")
            large = beyond(one.header, parts)
            if large:
                one.forget()
                return task.reply(answer.client, more=sent({"beyond": json.dumps(large)}))
            words = one.masked(words_of(one.header, parts))
        except InputError as error:
            one.forget()
            return Failure(answer.client, str(error))
        masked = sent({"masked": words, "layout": layout_text(parts)})
        return task.reply(answer.client, more=masked)

    # --- what is kept --------------------------------------------------------------------------

    def _signer(self, client: int) -> SiteKeys:
        if client not in self._keys:
            self._keys[client] = open_keys(self.folders.get(client), self.names.get(client))
        return self._keys[client]

    def _round(self, client: int, more: Record) -> SiteRound:
        one = self.rounds.get(client)
        if one is None:
            raise InputError(
                "it has no secrets of this secure sum: it was not asked for keys, or was started anew"
            )
        if one.header.attempt != read_text(more, "attempt"):
            raise InputError(
                "this question belongs to another attempt at a secure sum than the latest"
            )
        return one

    def state(self) -> str:
        """The whole state as text, including secrets, only for the memory of the site's own node."""
        rounds = {client: one.text() for client, one in self.rounds.items()}
        finished = {client: sorted(labels) for client, labels in self.finished.items()}
        return json.dumps({"rounds": rounds, "finished": finished})

    def restore(self, state: str) -> None:
        found = json.loads(state)
        self.rounds = {int(client): SiteRound.of(text) for client, text in found["rounds"].items()}
        self.finished = {int(client): set(labels) for client, labels in found["finished"].items()}

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"rounds": {}, "finished": {}, "_keys": {}}


def _inner(task: Task, kind: str) -> Task:
    """The question that the sum answers, without the parts of the protocol."""
    own = {client: without(record) for client, record in task.own.items()}
    return replace(task, kind=kind, more=without(task.more), own=own)
