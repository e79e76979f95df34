"""A node as the SuperLink knows it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

SHORT = 16
"""Hexadecimal digits of a key's sha256 that messages show: enough for people to compare two of them."""


if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo


@dataclass(frozen=True)
class Node:
    """A node that is connected to the SuperLink."""

    id: int
    registered: str
    """The name under which its key was registered; empty if it was not registered."""
    key: str
    """The sha256 of its public key."""
    started: str
    """The time at which it last connected; another value means another process."""

    @classmethod
    def of(cls, info: NodeInfo) -> Node:
        key = hashlib.sha256(bytes(info.public_key)).hexdigest()
        return cls(int(info.node_id), str(info.name), key, str(info.last_activated_at))


def short(key: str) -> str:
    """The beginning of a key, for messages."""
    return key[:SHORT]
