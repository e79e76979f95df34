"""A site's side of one attempt at a secure sum: five questions in a fixed order, each answered once.

    keys    → fresh public keys, signed
    shares  → shares of both secrets of this site, sealed for its neighbours
    input   → round(2^k·v) + its own mask ± the masks of pairs, modulo 2⁶⁴
    agree   → a signature under the set of sites whose input arrived
    unmask  → its own mask's seed; of a neighbour in the set the share of its own mask, of one that dropped out the share
              of its pairs' masks, and never both

(Bonawitz et al. 2017.) Secrets live in this object alone, until the last answer or the next attempt.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reshuffle.cached import cached_property
from reshuffle.errors import InputError
from reshuffle.federated.secure.fixed_point import Words
from reshuffle.federated.secure.graph import neighbours
from reshuffle.federated.secure.header import KeyRow, SumHeader, row_of, set_text, view_of
from reshuffle.federated.secure.keys import SiteKeys
from reshuffle.federated.secure.masks import (
    MASK,
    OWN,
    SEAL,
    SIZE,
    TAG,
    add_mask,
    derived,
    pair_mask_key,
    private_key,
    public_bytes,
    seal,
    seal_key,
    split,
    unseal,
)

ORDER = ("keys", "shares", "input", "agree", "unmask")
"""The questions of an attempt."""
SEALED = 2 * SIZE + TAG
"""Bytes of two sealed shares."""


@dataclass(eq=False)
class SiteRound:
    """The secrets of a site for one attempt, and how far it has come."""

    header: SumHeader
    me: int
    done: int = 0
    """The number of questions that were answered or begun; no question is answered a second time."""
    sealing: bytes = field(default=b"", repr=False)
    """The seed of the key that seals shares."""
    masking: bytes = field(default=b"", repr=False)
    """The seed of the key of the pairs' masks: the first secret that is shared."""
    own: bytes = field(default=b"", repr=False)
    """The seed of its own mask: the second."""
    rows: dict[int, KeyRow] = field(default_factory=dict)
    """The public keys of all sites of the attempt."""
    held: dict[int, bytes] = field(default_factory=dict, repr=False)
    """The two shares of each neighbour, one after the other, and those of its own secrets."""
    senders: tuple[int, ...] = ()
    """The sites that handed out shares."""
    survivors: tuple[int, ...] = ()
    """The set that this site has signed."""

    # --- the five answers ----------------------------------------------------------------------

    def keys(self, signer: SiteKeys, now: float) -> KeyRow:
        """Fresh keys, and the row that tells the public ones."""
        self._next("keys")
        self.sealing, self.masking, self.own = (secrets.token_bytes(SIZE) for _ in range(3))
        return row_of(signer, self.header, int(now), *self._public())

    def shares(self, rows: Mapping[int, KeyRow], signer: SiteKeys, now: float) -> dict[int, bytes]:
        """The sealed shares for each neighbour, once everybody's keys are found good."""
        self._next("shares")
        names = self.header.names
        self._check_set("that have keys", tuple(sorted(rows)), names)
        mine = rows[self.me]
        if (mine.sealing, mine.masking) != self._public():
            raise InputError("the driver gives other keys for this site than it has sent")
        for client, row in rows.items():
            if client != self.me:
                row.check(signer, self.header, names[client], now)
        keys = [key for row in rows.values() for key in (row.sealing, row.masking)]
        if len(set(keys)) < len(keys):
            raise InputError("two of the keys for this sum are the same")
        self.rows = {client: rows[client] for client in sorted(rows)}
        near = self._graph[self.me]
        holders = sorted((*near, self.me))
        first = split(self.masking, self.header.shares, len(holders))
        second = split(self.own, self.header.shares, len(holders))
        both = {h: a + b for h, a, b in zip(holders, first, second, strict=True)}
        self.held = {self.me: both[self.me]}
        sealer, sealed = private_key(self.sealing, SEAL), {}
        for v in near:
            key = seal_key(sealer, rows[v].sealing, self.header, self.me, v)
            sealed[v] = seal(key, both[v], self.view)
        return sealed

    def open_shares(self, senders: Sequence[int], sealed: Mapping[int, bytes]) -> None:
        """Take the shares of the neighbours, before anything is computed for the sum."""
        self._next("input")
        self.senders = tuple(sorted(senders))
        self._check_set("that have handed out shares", self.senders, self.rows)
        near, names = self._near, self.header.names
        if len(near) + 1 < self.header.shares:
            raise InputError(
                f"{len(near)} of its neighbours take part, and {self.header.shares - 1} are needed"
            )
        sealer = private_key(self.sealing, SEAL)
        for v in near:
            if v not in sealed:
                raise InputError(f"the shares from {names[v]} are missing")
            key = seal_key(sealer, self.rows[v].sealing, self.header, v, self.me)
            self.held[v] = unseal(key, sealed[v], self.view, names[v])

    def masked(self, words: Words) -> Words:
        """The integers of this site's answer, masked in place."""
        if not (self.senders and self.masking):
            raise InputError("it has no shares of the other sites yet, or has masked its answer")
        masker = private_key(self.masking, MASK)
        add_mask(words, derived(self.own, OWN), 1)
        for v in self._near:
            key = pair_mask_key(masker, self.rows[v].masking, self.header, self.me, v)
            add_mask(words, key, 1 if self.me < v else -1)
        self.masking = b""  # Nothing else is ever masked with this seed.
        return words

    def agree(self, survivors: Sequence[int], signer: SiteKeys) -> bytes:
        """A signature under the set of sites whose sum is to be unmasked."""
        self._next("agree")
        self.survivors = tuple(sorted(survivors))
        self._check_set("whose input arrived", self.survivors, self.senders)
        for u in self.survivors:
            holders = {*self._graph[u], u} & set(self.survivors)
            if len(holders) < self.header.shares:
                raise InputError(
                    f"{len(holders)} neighbours of {self.header.names[u]} are left, and {self.header.shares} are needed"
                )
        return signer.sign(set_text(self.view, self.senders, self.survivors))

    def unmask(
        self, signatures: Mapping[int, bytes], signer: SiteKeys
    ) -> tuple[bytes, dict[int, bytes]]:
        """The seed of its own mask, and of each neighbour the one share that the set allows."""
        self._next("unmask")
        names = self.header.names
        text = set_text(self.view, self.senders, self.survivors)
        signed = [u for u in signatures if u in self.survivors]
        for u in signed:
            if u != self.me:
                signer.check(names[u], text, signatures[u])
        if len(signed) < self.header.threshold:
            raise InputError(
                f"{len(signed)} sites have signed the set of this sum, and {self.header.threshold} must"
            )
        seed, kept = self.own, self.survivors
        given = {v: self.held[v][SIZE:] if v in kept else self.held[v][:SIZE] for v in self._near}
        self.forget()
        return seed, given

    def forget(self) -> None:
        """Discard all secrets; no further question is answered."""
        self.done, self.held = len(ORDER), {}
        self.sealing = self.masking = self.own = b""

    # --- what the answers are made of ----------------------------------------------------------

    @cached_property
    def _graph(self) -> dict[int, tuple[int, ...]]:
        """The neighbours of each site among those that have keys in this attempt."""
        return neighbours(tuple(self.rows), self.header.degree, self.view)

    @cached_property
    def view(self) -> bytes:
        """The digest of the messages that this site has received."""
        return view_of(self.header, self.rows)

    @property
    def _near(self) -> list[int]:
        """The neighbours of this site that have handed out shares."""
        return [v for v in self._graph[self.me] if v in self.senders]

    def _public(self) -> tuple[bytes, bytes]:
        return (
            public_bytes(private_key(self.sealing, SEAL)),
            public_bytes(private_key(self.masking, MASK)),
        )

    def _next(self, question: str) -> None:
        """Check that this is the next question; it counts as answered from now on, whatever happens."""
        place = ORDER.index(question)
        if self.done != place:
            what = "answered already" if self.done > place else "asked before its time"
            raise InputError(
                f"the question {question!r} of this secure sum was {what}: each is answered once, in order"
            )
        self.done = place + 1

    def _check_set(
        self, what: str, found: Sequence[int], known: Mapping[int, object] | Sequence[int]
    ) -> None:
        """Refuse a set with strangers, with somebody twice, without this site, or below the threshold."""
        if len(set(found)) < len(found) or any(u not in known for u in found):
            raise InputError(
                f"the set of sites {what} names sites that do not belong to this sum, or one twice"
            )
        if self.me not in found:
            raise InputError(f"the set of sites {what} is without this site")
        if len(found) < self.header.threshold:
            raise InputError(
                f"the set of sites {what} has {len(found)}, which is below the threshold {self.header.threshold}: nothing is said"
            )

    # --- between processes ---------------------------------------------------------------------

    def text(self) -> str:
        """The whole attempt, for a transport that starts a new process for every message.

        The text holds secrets: it may be kept in the memory of the site's own node, but never in files or logs.
        """
        return json.dumps({
            "header": self.header.text(), "me": self.me, "done": self.done,
            "seeds": [seed.hex() for seed in (self.sealing, self.masking, self.own)],
            "rows": {client: row.packed().hex() for client, row in self.rows.items()},
            "held": {client: both.hex() for client, both in self.held.items()},
            "senders": self.senders, "survivors": self.survivors,
        })  # fmt: skip

    @classmethod
    def of(cls, text: str) -> SiteRound:
        """The attempt of a text, in another process of the site."""
        found = json.loads(text)
        sealing, masking, own = map(bytes.fromhex, found["seeds"])
        return cls(
            SumHeader.of(found["header"]),
            found["me"],
            found["done"],
            sealing,
            masking,
            own,
            {int(c): KeyRow.of(bytes.fromhex(row)) for c, row in found["rows"].items()},
            {int(c): bytes.fromhex(both) for c, both in found["held"].items()},
            tuple(found["senders"]),
            tuple(found["survivors"]),
        )
