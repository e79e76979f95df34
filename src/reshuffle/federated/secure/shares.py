"""Divides a secret into shares: any ``threshold`` of them recover it, and fewer reveal nothing (Shamir, over GF(2¹²⁸)).

The arithmetic is pycryptodome's.
"""

from __future__ import annotations

from collections.abc import Mapping

from Crypto.Protocol.SecretSharing import Shamir

SIZE = 16
"""Bytes of a secret, and of each of its shares."""


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """A share for each holder."""
    return [bytes(share) for _, share in Shamir.split(threshold, holders, secret, False)]


def combine(threshold: int, shares: Mapping[int, bytes]) -> bytes:
    """The secret, from the shares by the numbers of their holders, which begin with 0."""
    few = list(shares.items())[:threshold]
    return bytes(Shamir.combine([(number + 1, share) for number, share in few], False))
