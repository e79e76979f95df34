"""Gathers secure sums for the driver: it gets the sum of the sites' answers to a question, and no single answer.

It replaces ``Gathering``. The servers of FedRR, LocalSGD, ExactFedRR with state at the clients and FedNewton only add
replies up, so they can be given replies with the right sum: the first has the sum, the others have zeros.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.engines import Plain, Record, Reply, Task
from reshuffle.errors import ClientError, InputError
from reshuffle.federated.replies import Found, Gathering, Take
from reshuffle.federated.secure.attempt import Attempt, NoSum
from reshuffle.federated.secure.header import SumHeader, question_of
from reshuffle.federated.secure.parts import MODEL, is_added, model_of, scale_of
from reshuffle.federated.secure.ranges import Ranges
from reshuffle.federated.secure.settings import Secure
from reshuffle.federated.secure.wire import HELLO, read_text, sent
from reshuffle.objective import Array

logger = logging.getLogger("reshuffle")


class Once(Gathering):
    """Asks once; the protocol decides what to do about missing sites."""

    def __init__(self, plain: Gathering) -> None:
        super().__init__(
            plain.session,
            plain.engine,
            replace(plain.policy, retries=0),
            True,
            plain.called,
            plain.watch,
            lambda message: (0,),
        )

    def _handle_missing(self, missing: list[int], task: Task, found: Found) -> None:
        return


class SecureSums:
    """The driver's knowledge about the secure sums of a run: settings, names and ranges."""

    def __init__(self, secure: Secure, names: Sequence[str]) -> None:
        self.secure, self.names = secure, list(names)
        self.ranges = Ranges(secure.exponent)
        self.sizes = np.ones(len(names))
        """N_m of each site, once they are known."""
        self._errors: dict[tuple[str, str], float] = {}

    @property
    def error(self) -> float:
        """A bound on the errors of f and of the entries of ∇f, in the latest round and in all questions about single points."""
        return max(self._errors.values(), default=0.0)

    def account_for(self, kind: str, errors: Mapping[str, float]) -> None:
        """Record the errors of the parts of a sum. Those of a round replace those of the last; errors of answers about x = 0 count to the end."""
        for name, error in errors.items():
            before = 0.0 if kind == "train" else self._errors.get((kind, name), 0.0)
            self._errors[kind, name] = max(error, before)

    def meet(self, collect: Gathering, run: str) -> None:
        """Check the keys, names, clocks and thresholds of all sites before any data is touched."""
        count = len(self.names)
        more: dict[str, Plain] = sent({
            "names": json.dumps(self.names), "time": time.time(), "threshold": self.secure.threshold_of(count),
        })  # fmt: skip
        task = Task.question(HELLO, range(count), more, run)
        replies = Once(collect)(task)
        missing = [client for client in task.clients if client not in replies.replies]
        if missing:
            told = replies.told(collect.called, missing)
            raise ClientError(
                f"before the first round: {len(missing)} of {count} sites cannot take part in secure sums ({told})",
                missing,
            )
        pins = {c: read_text(replies.replies[c].more, "pins") for c in task.clients}
        for client, pinned in pins.items():
            if pinned != pins[0]:
                raise InputError(
                    f"sites must have pinned the same keys: those of {collect.called(client)} are other than those of "
                    f"{collect.called(0)}; compare their files NAME.pub"
                )

    def gatherer(self, plain: Gathering) -> SecureGathering:
        """The gatherer of sums that replaces a plain one."""
        return SecureGathering(plain, self)

    def header(self, task: Task) -> SumHeader:
        count = len(task.clients)
        return SumHeader(
            task.run, task.round, task.kind, question_of(task, task.kind), secrets.token_hex(16),
            tuple((client, self.names[client]) for client in sorted(task.clients)),
            *self.secure.terms_of(count),
            int(np.sum(self.sizes)), self.secure.exponent, dict(self.ranges.exponents),
        )  # fmt: skip


class SecureGathering:
    """Asks for sums, as often as the policy of a plain gathering allows."""

    def __init__(self, plain: Gathering, sums: SecureSums) -> None:
        self.plain, self.sums, self.once = plain, sums, Once(plain)

    def __call__(self, task: Task, take: Take | None = None) -> Found:
        """Replies whose sum is the sum of the sites' answers to a task."""
        if len(task.clients) < 2:
            raise InputError(
                "a secure sum needs at least two sites in a round: the sum of one is its own value; raise participation"
            )
        found, tries = Found(), 0
        while True:
            one = Attempt(self.once, task, self.sums.header(task), self.plain.average)
            try:
                totals = one.run()
            except NoSum:
                totals = None
            found.traffic += one.found.traffic
            if totals is not None:
                return self._filled(found, one, totals, take)
            if one.beyond:
                self.sums.ranges.raise_for(sorted(one.beyond))
                logger.info(
                    "round %d: the range of %s is raised", task.round, ", ".join(sorted(one.beyond))
                )
                continue
            found.reasons |= one.found.reasons
            found.diverged, found.lost = one.found.diverged, one.found.lost
            if found.diverged or found.lost:
                return found
            if one.final or tries == self.plain.policy.retries:
                raise self._failed(one, found)
            tries += 1
            found.traffic[2] += len(task.clients)

    def _failed(self, one: Attempt, found: Found) -> ClientError:
        task, missing = one.task, sorted(found.reasons)
        when = f"round {task.round}" if task.kind == "train" else f"asked for {task.kind!r}"
        needed = one.header.threshold if self.plain.average else len(task.clients)
        return ClientError(
            f"{when}: no secure sum, which needs {needed} of {len(task.clients)} sites to the end "
            f"({found.told(self.plain.called, missing)})",
            missing,
        )

    def _filled(
        self, found: Found, one: Attempt, totals: Mapping[str, Array], take: Take | None
    ) -> Found:
        """The replies: the first site's has the sums, those of the others have zeros."""
        missing = [c for c in one.task.clients if c not in one.survivors]
        if missing:
            logger.warning(
                "round %d: the secure sum is without %d sites (%s)",
                one.task.round, len(missing), one.found.told(self.plain.called, missing),
            )  # fmt: skip
        means = [name for name in totals if not is_added(name)]
        errors = {name: scale_of(one.header, name).rounding for name in means}
        self.sums.account_for(one.task.kind, errors)
        self.sums.ranges.follow(totals)
        first, sizes = one.survivors[0], self.sums.sizes
        weight = float(np.sum(sizes)) / float(sizes[first])
        sums = {name: part if is_added(name) else weight * part for name, part in totals.items()}
        zeros = {name: np.zeros(np.shape(part)) for name, part in totals.items()}
        for client in one.survivors:
            reply = _reply(one.task, client, sums if client == first else zeros)
            found.replies[client] = reply if take is None else take(reply)
        return found


def _reply(task: Task, client: int, parts: Mapping[str, AnyArray]) -> Reply:
    more: Record = {
        name: part if np.ndim(part) else float(part)
        for name, part in parts.items()
        if not name.startswith(MODEL)
    }
    return Reply(task.run, task.round, client, task.digest, model_of(parts), None, more)
