"""The kinds of messages of a secure sum."""

from __future__ import annotations

SUMS = ("train", "value", "curvature")
"""Questions whose answers the driver only adds up."""
TOLD = ("hello", "load", "metrics")
"""Questions that a site answers for itself, as docs/secure.md lists."""
START = "secure-"
"""The prefix of the kinds of messages of the protocol."""


def kind_of(question: str) -> str:
    """The kind of the message with a question of the protocol."""
    return START + question


HELLO = kind_of("hello")
INPUT = kind_of("input")
