"""What the sites of an attempt at a secure sum sign: its head, their public keys for it, and the set of sites on which they agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from reshuffle.cached import cached_property
from reshuffle.digests import digest
from reshuffle.engines import Task
from reshuffle.errors import InputError
from reshuffle.federated.secure.keys import SIGNATURE, SiteKeys
from reshuffle.federated.secure.settings import Secure
from reshuffle.federated.secure.wire import SUMS, without

VERSION = "reshuffle secure sum 1"
"""The protocol, in every text that is hashed or signed."""
WHOLE = ("round", "threshold", "degree", "shares", "samples", "exponent")
"""The parts of a head that are whole numbers."""
KEY = 32
"""Bytes of a public key."""
TIME = 8
WIDTH = 2 * KEY + TIME + SIGNATURE
"""Bytes of a row."""
SKEW = 300
"""Seconds by which two clocks may differ. Kerberos allows as much; a clock that keeps time over the network is off by far less."""


@dataclass(frozen=True)
class SumHeader:
    """The question, the sites that are asked, and how their answers become integers."""

    run: str
    round: int
    kind: str
    """The kind of the question that is answered by a sum."""
    question: str
    """The digest of the question, which is the same for all sites."""
    attempt: str
    """A random number of this attempt alone."""
    sites: tuple[tuple[int, str], ...]
    """The clients that are asked, with their names, in ascending order."""
    threshold: int
    degree: int
    shares: int
    """The number of shares that recover a site's secret."""
    samples: int
    """N, over all sites: answers that are means over samples are multiplied by N_m/N."""
    exponent: int
    """Values of a part that ``ranges`` does not name are at most 2^exponent."""
    ranges: Mapping[str, int]

    @property
    def label(self) -> str:
        """The question by its run and number: no site takes part in two sums of one label."""
        return digest(self.run, self.round, self.kind)

    @cached_property
    def names(self) -> dict[int, str]:
        return dict(self.sites)

    def text(self) -> str:
        """The head in the form in which it is sent."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of(cls, text: str) -> SumHeader:
        try:
            found = json.loads(text)
            sites = tuple((int(client), str(name)) for client, name in found["sites"])
            ranges = {str(name): int(found["ranges"][name]) for name in found["ranges"]}
            whole = {name: int(found[name]) for name in WHOLE}
            return cls(**{**found, **whole, "sites": sites, "ranges": ranges})
        except (ValueError, TypeError, KeyError):
            raise InputError("the head of a secure sum is damaged") from None

    @cached_property
    def hash(self) -> bytes:
        return hashed(self.text().encode())

    def check(self, client: int, name: str, secure: Secure, past: Collection[str]) -> None:
        """Refuse, at a site, a head with strange sites, another name for this one, or settings other than its own; and a question
        that it has helped to answer, or an attempt that was begun, in the ``past``."""
        count = len(self.sites)
        if count < 2:
            raise InputError("the sum of one site is its own value: at least two must be asked")
        clients = [number for number, _ in self.sites]
        if clients != sorted(set(clients)) or len(set(self.names.values())) < count:
            raise InputError("the sites of a secure sum must be different, and in ascending order")
        called = self.names.get(client)
        if called != name:
            raise InputError(f"the driver calls this site {called}, and its key belongs to {name}")
        wanted = secure.terms_of(count)
        if (self.threshold, self.degree, self.shares) != wanted:
            raise InputError(
                f"the driver asks for a sum with threshold, neighbours and shares {self.threshold}, {self.degree}, "
                f"{self.shares}, and this site takes part with {', '.join(map(str, wanted))}"
            )
        if self.kind not in SUMS:
            raise InputError(f"there is no secure sum of {self.kind}")
        if self.label in past:
            raise InputError(
                f"this site has taken part in the sum of {self.kind} in round {self.round}: a second one over other sites "
                "would tell a single value"
            )
        if self.attempt in past or not self.attempt:
            raise InputError("this attempt at a secure sum was begun before")


def hashed(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each with its length, so that no two lists of parts give the same bytes."""
    found = hashlib.sha256(VERSION.encode())
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def question_of(task: Task, kind: str) -> str:
    """The digest of what a task asks of all its clients."""
    return digest(kind, task.run, task.round, task.step, task.digest, without(task.more))


@dataclass(frozen=True)
class KeyRow:
    """A site's public keys of one attempt."""

    sealing: bytes
    masking: bytes
    time: int
    """When they were made, in seconds since 1970 by the site's own clock."""
    signature: bytes

    def packed(self) -> bytes:
        return self.sealing + self.masking + self.time.to_bytes(TIME, "big") + self.signature

    @classmethod
    def of(cls, row: bytes) -> KeyRow:
        if len(row) != WIDTH:
            raise InputError(f"the public keys of a site have {WIDTH} bytes, got {len(row)}")
        time = int.from_bytes(row[2 * KEY : 2 * KEY + TIME], "big")
        return cls(row[:KEY], row[KEY : 2 * KEY], time, row[2 * KEY + TIME :])

    def check(self, signer: SiteKeys, header: SumHeader, name: str, now: float) -> None:
        """Refuse keys that the site of this name has not signed for this attempt, and old ones."""
        text = _text(header, name, self.sealing, self.masking, self.time)
        signer.check(name, text, self.signature)
        check_clock(self.time, now, f"the keys of {name} were made at")


def row_of(signer: SiteKeys, header: SumHeader, now: int, sealing: bytes, masking: bytes) -> KeyRow:
    """The signed row of these public keys."""
    text = _text(header, signer.name, sealing, masking, now)
    return KeyRow(sealing, masking, now, signer.sign(text))


def view_of(header: SumHeader, rows: Mapping[int, KeyRow]) -> bytes:
    """The digest of the head and of everybody's public keys."""
    return hashed(header.hash, *(rows[u].packed() for u in sorted(rows)))


def set_text(view: bytes, senders: Sequence[int], survivors: Sequence[int]) -> bytes:
    """The text that sites sign under a set."""
    lists = (" ".join(map(str, found)).encode() for found in (senders, survivors))
    return hashed(b"set", view, *lists)


def check_clock(time: float, now: float, what: str) -> None:
    """Refuse a time that is far from this site's own clock."""
    if abs(time - now) > SKEW:
        raise InputError(
            f"{what} a time {abs(time - now):,.0f} s {'after' if time > now else 'before'} this site's clock, and {SKEW} s are "
            "allowed: set the clocks (NTP)"
        )


def _text(header: SumHeader, name: str, sealing: bytes, masking: bytes, time: int) -> bytes:
    return hashed(b"keys", header.hash, name.encode(), sealing, masking, b"%d" % time)
