"""The driver's side of one attempt at a secure sum: it carries messages between sites, adds answers up, and removes the masks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from reshuffle.engines import Plain, Record, Reply, Task
from reshuffle.errors import InputError
from reshuffle.federated.replies import Found
from reshuffle.federated.secure.fixed_point import Words
from reshuffle.federated.secure.graph import neighbours
from reshuffle.federated.secure.header import WIDTH, KeyRow, SumHeader, view_of
from reshuffle.federated.secure.keys import SIGNATURE
from reshuffle.federated.secure.masks import (
    MASK,
    OWN,
    SIZE,
    add_mask,
    combine,
    derived,
    pair_mask_key,
    private_key,
    public_bytes,
)
from reshuffle.federated.secure.parts import Layout, decoded, layout_of, size_of
from reshuffle.federated.secure.protocol import SEALED
from reshuffle.federated.secure.wire import (
    INPUT,
    START,
    numbers,
    packed,
    read_bytes,
    read_rows,
    read_text,
    sent,
)
from reshuffle.objective import Array

T = TypeVar("T")
Ask = Callable[[Task, Callable[[Reply], Reply] | None], Found]
"""Asks each client of a task once, and gathers the answers that come."""


class NoSum(Exception):
    """Raised if too few sites are left to finish the attempt."""


@dataclass(eq=False)
class Attempt:
    """An attempt at the sum of the answers to ``task``."""

    ask: Ask
    task: Task
    header: SumHeader
    partial: bool
    """Whether the sum over only some of the sites is useful; if not, it is not unmasked."""
    found: Found = field(default_factory=Found)
    """The reasons, the traffic and the end of the attempt, without replies."""
    beyond: set[str] = field(default_factory=set)
    """The parts that are out of their range at some site."""
    final: bool = False
    """Whether sites have unmasked, after which there is no second attempt."""
    survivors: tuple[int, ...] = ()
    _rows: dict[int, KeyRow] = field(default_factory=dict)
    _layout: Layout | None = None
    _total: Words = field(default_factory=lambda: np.empty(0, np.uint64))

    def run(self) -> dict[str, Array]:
        """The sums of the parts over ``survivors``."""
        self._rows = self._phase(
            "keys", {"header": self.header.text()}, self.task.clients,
            lambda more: KeyRow.of(read_bytes(more, "keys", WIDTH)),
        )  # fmt: skip
        rows = packed("keys", {c: row.packed() for c, row in self._rows.items()})
        handed = self._phase(
            "shares", rows, self._rows, lambda more: read_rows(more, "sealed", SEALED)
        )
        self._input(handed)
        signed = self._phase(
            "agree", {"survivors": numbers(self.survivors)}, self.survivors,
            lambda more: read_bytes(more, "signature", SIGNATURE), every=False,
        )  # fmt: skip
        self.final = True
        given = self._phase(
            "unmask", packed("signatures", signed), signed,
            lambda more: (read_bytes(more, "seed", SIZE), read_rows(more, "shares", SIZE)), every=False,
        )  # fmt: skip
        self._unmask(tuple(handed), given)
        return decoded(self.header, self._layout or [], self._total)

    # --- what travels --------------------------------------------------------------------------

    def _phase(
        self,
        question: str,
        more: Mapping[str, Plain],
        clients: Iterable[int],
        read: Callable[[Record], T],
        every: bool = True,
    ) -> dict[int, T]:
        """The answers of the sites to a question, by client; sites whose answer is unusable are missing."""
        record, one = sent({**more, "attempt": self.header.attempt}), self.task
        task = Task.question(f"{START}{question}", clients, record, one.run, one.round)
        found = self._asked(task)
        good: dict[int, T] = {}
        for client in sorted(found.replies):
            try:
                good[client] = read(found.replies[client].more)
            except InputError as error:
                self.found.reasons[client] = str(error)
        self._check(tuple(good), every)
        return good

    def _input(self, handed: Mapping[int, Mapping[int, bytes]]) -> None:
        """The question itself, with each site's shares of the others; answers are added up as they come."""
        own: dict[int, Record] = {}
        for client in handed:
            shares = {u: sealed[client] for u, sealed in handed.items() if client in sealed}
            own[client] = {**self.task.own.get(client, {}), **sent(packed("sealed", shares))}
        told = sent({"senders": numbers(tuple(handed)), "attempt": self.header.attempt})
        asked = replace(
            self.task.part(tuple(handed)), kind=INPUT, more={**self.task.more, **told}, own=own
        )
        found = self._asked(asked, self._take)
        if found.diverged or found.lost or self.beyond:
            self.found.diverged, self.found.lost = found.diverged, found.lost
            raise NoSum
        self.survivors = tuple(sorted(found.replies))
        self._check(self.survivors, every=True)

    def _take(self, reply: Reply) -> Reply:
        """Add a masked answer to the others."""
        more = reply.more
        if "secure_beyond" in more:
            self.beyond.update(map(str, json.loads(read_text(more, "beyond"))))
            return replace(reply, more={})
        layout, words = layout_of(read_text(more, "layout")), more.get("secure_masked")
        whole = isinstance(words, np.ndarray) and words.dtype == np.uint64
        if not whole or np.shape(np.asarray(words)) != (size_of(layout),):
            raise InputError(
                f"the masked answer of client {reply.client} does not have the shape that it tells"
            )
        if self._layout is None:
            self._layout, self._total = layout, np.zeros(size_of(layout), np.uint64)
        if layout != self._layout:
            raise InputError(f"client {reply.client} answers with other parts than those before it")
        self._total += np.asarray(words, dtype=np.uint64)
        return replace(reply, more={})

    def _asked(self, task: Task, take: Callable[[Reply], Reply] | None = None) -> Found:
        found = self.ask(task, take)
        self.found.traffic += found.traffic
        self.found.reasons |= found.reasons
        return found

    def _check(self, left: tuple[int, ...], every: bool) -> None:
        """Give up if too few sites are left, or if ``every`` site's value is needed and one is missing, before anything is unmasked."""
        short = len(left) < self.header.threshold
        if short or (every and not self.partial and len(left) < len(self.task.clients)):
            raise NoSum

    # --- masks ---------------------------------------------------------------------------------

    def _unmask(
        self, senders: tuple[int, ...], given: Mapping[int, tuple[bytes, Mapping[int, bytes]]]
    ) -> None:
        """Remove the survivors' own masks, and the masks that they share with sites that dropped out."""
        graph = neighbours(tuple(self._rows), self.header.degree, view_of(self.header, self._rows))
        for u in self.survivors:
            seed = given[u][0] if u in given else self._combined(u, graph, given)
            add_mask(self._total, derived(seed, OWN), -1)
        for v in set(senders) - set(self.survivors):
            private = private_key(self._combined(v, graph, given), MASK)
            if public_bytes(private) != self._rows[v].masking:
                raise InputError(
                    f"the shares of a secret of {self.header.names[v]} do not fit its public key"
                )
            for u in graph[v]:
                if u in self.survivors:
                    key = pair_mask_key(private, self._rows[u].masking, self.header, u, v)
                    add_mask(self._total, key, -1 if u < v else 1)

    def _combined(
        self,
        owner: int,
        graph: Mapping[int, tuple[int, ...]],
        given: Mapping[int, tuple[bytes, Mapping[int, bytes]]],
    ) -> bytes:
        """A secret of a site that is gone, from the shares of its neighbours."""
        holders = sorted((*graph[owner], owner))
        shares = {
            place: given[h][1][owner]
            for place, h in enumerate(holders)
            if h in given and owner in given[h][1]
        }
        if len(shares) < self.header.shares:
            raise NoSum
        return combine(self.header.shares, shares)
