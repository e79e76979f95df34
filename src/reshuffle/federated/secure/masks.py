"""Masks: the keystream of a cipher under a key that two sites alone know, added at one and subtracted at the other.

The key of a pair comes from X25519 and HKDF-SHA256, the keystream from AES-256 in counter mode. Every key is used for one
keystream, so that its counter may begin at zero.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from reshuffle.errors import InputError
from reshuffle.federated.secure.fixed_point import Words

PIECE = 1 << 14
"""Words of a keystream that are made at a time: 128 KiB, which stay in the processor's cache."""
ZEROS = memoryview(bytes(8 * PIECE))
"""The zeros that are encrypted, so that the result is the keystream."""
COUNTER = bytes(16)
"""The first counter block."""


def derived(secret: bytes, purpose: bytes, length: int = 32) -> bytes:
    """HKDF-SHA256 of a secret, for one purpose."""
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(secret)


def private_key(seed: bytes, purpose: bytes) -> X25519PrivateKey:
    """The X25519 key of a seed of 128 random bits, which is the strength of the curve itself."""
    return X25519PrivateKey.from_private_bytes(derived(seed, purpose))


def public_bytes(private: X25519PrivateKey) -> bytes:
    """The 32 bytes of the public key."""
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def pair_secret(private: X25519PrivateKey, public: bytes) -> bytes:
    """The secret that two sites have in common, from which keys are derived."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # With a point of low order everybody would know the secret.
        raise InputError("a public key of a site is not a valid point of the curve") from None


def add_mask(total: Words, key: bytes, sign: int) -> None:
    """Add the keystream of a key to ``total``, modulo 2⁶⁴, or subtract it where ``sign`` is -1."""
    encryptor = Cipher(AES256(key), CTR(COUNTER)).encryptor()
    stream = bytearray(min(8 * total.size, len(ZEROS)) + 15)
    change = np.add if sign > 0 else np.subtract
    for start in range(0, total.size, PIECE):
        part = total[start : start + PIECE]
        encryptor.update_into(ZEROS[: 8 * part.size], stream)
        change(part, np.frombuffer(stream, "<u8", part.size), out=part)
