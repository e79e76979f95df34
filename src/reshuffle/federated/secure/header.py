"""The head of an attempt at a secure sum, which is sent to all its sites and signed by them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from reshuffle.cached import cached_property
from reshuffle.digests import digest
from reshuffle.engines import Plain, Task
from reshuffle.errors import InputError

VERSION = "reshuffle secure sum 1"
"""The protocol, in every text that is hashed or signed."""
WHOLE = ("round", "threshold", "degree", "shares", "samples", "exponent")
"""The parts of a head that are whole numbers."""
PREFIX = "secure_"
"""The prefix of the names of parts of a message that belong to the protocol."""


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


def hashed(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each with its length, so that no two lists of parts give the same bytes."""
    found = hashlib.sha256(VERSION.encode())
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def question_of(task: Task, kind: str) -> str:
    """The digest of what a task asks of all its clients."""
    asked: dict[str, Plain] = {
        name: part for name, part in task.more.items() if not name.startswith(PREFIX)
    }
    return digest(kind, task.run, task.round, task.step, task.digest, asked)
