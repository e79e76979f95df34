"""The purposes of keys: each key is derived for one purpose, in one attempt, for two sites or for one."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from reshuffle.federated.secure.header import SumHeader, hashed
from reshuffle.federated.secure.masks import derived, pair_secret
from reshuffle.federated.secure.rows import KeyRow

MASK, SEAL, OWN = b"mask", b"seal", b"own"
"""Purposes of keys."""


def view_of(header: SumHeader, rows: Mapping[int, KeyRow]) -> bytes:
    """The digest of the head and of everybody's public keys."""
    return hashed(header.hash, *(rows[u].packed() for u in sorted(rows)))


def own_mask_key(seed: bytes) -> bytes:
    """The key of a site's own mask."""
    return derived(seed, OWN)


def pair_mask_key(
    private: X25519PrivateKey, public: bytes, header: SumHeader, one: int, two: int
) -> bytes:
    """The key of the mask that two sites have in common, the same from either side."""
    purpose = hashed(MASK, header.hash, b"%d %d" % (min(one, two), max(one, two)))
    return derived(pair_secret(private, public), purpose)


def seal_key(secret: bytes, header: SumHeader, sender: int, receiver: int) -> bytes:
    """The key that seals what one site hands to another, in this direction, from the secret of the two."""
    return derived(secret, hashed(SEAL, header.hash, b"%d %d" % (sender, receiver)))
