"""Seals shares for their way through the driver, which cannot read them: AES-256-GCM under a key that only two sites have.

A key holds for one direction of one pair in one attempt and seals one message, so that its nonce may be zero. What the sites
were told of the attempt is authenticated along: a site that was told otherwise cannot open the message.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reshuffle.errors import InputError

NONCE = bytes(12)
TAG = 16
"""Bytes by which a sealed message is longer than what it holds."""


def seal(key: bytes, text: bytes, view: bytes) -> bytes:
    """The sealed text; ``view`` is the digest of the messages that the sender has received."""
    return AESGCM(key).encrypt(NONCE, text, view)


def unseal(key: bytes, sealed: bytes, view: bytes, sender: str) -> bytes:
    """The text of a sealed message, from a site that was told the same."""
    try:
        return AESGCM(key).decrypt(NONCE, sealed, view)
    except InvalidTag:
        raise InputError(
            f"the shares from {sender} cannot be opened: they were changed on the way, or {sender} was told of other sites or "
            "keys than this site"
        ) from None
