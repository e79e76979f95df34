"""The head of an attempt at a secure sum, which is sent to all its sites and signed by them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from reshuffle.cached import cached_property
from reshuffle.digests import digest
from reshuffle.engines import Task
from reshuffle.errors import InputError
from reshuffle.federated.secure.settings import Secure
from reshuffle.federated.secure.wire import SUMS, without

VERSION = "reshuffle secure sum 1"
"""The protocol, in every text that is hashed or signed."""
WHOLE = ("round", "threshold", "degree", "shares", "samples", "exponent")
"""The parts of a head that are whole numbers."""


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
