"""The cryptography of an attempt: keys for one purpose each, masks, sealed messages, and shares of secrets.

A mask is the keystream of a cipher under a key that two sites alone know, added at one and subtracted at the other. The key of a pair
comes from X25519 and HKDF-SHA256, the keystream from AES-256 in counter mode. Shares travel through the driver, which cannot read
them: AES-256-GCM under a key that only two sites have. Every key is used for one keystream, or for one message in one direction, so
that counters and nonces may begin at zero. Shares are Shamir's, over GF(2¹²⁸), in pycryptodome's arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from reshuffle.errors import InputError
from reshuffle.federated.secure.fixed_point import Words
from reshuffle.federated.secure.header import SumHeader, hashed

MASK, SEAL, OWN = b"mask", b"seal", b"own"
"""Purposes of keys."""
PIECE = 1 << 14
"""Words of a keystream that are made at a time: 128 KiB, which stay in the processor's cache."""
ZEROS = memoryview(bytes(8 * PIECE))
"""The zeros that are encrypted, so that the result is the keystream."""
COUNTER = bytes(16)
"""The first counter block."""
NONCE = bytes(12)
TAG = 16
"""Bytes by which a sealed message is longer than what it holds."""
SIZE = 16
"""Bytes of a secret, and of each of its shares."""


# --- keys --------------------------------------------------------------------------------------


def derived(secret: bytes, purpose: bytes) -> bytes:
    """HKDF-SHA256 of a secret, for one purpose."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def private_key(seed: bytes, purpose: bytes) -> X25519PrivateKey:
    """The X25519 key of a seed of 128 random bits, which is the strength of the curve itself."""
    return X25519PrivateKey.from_private_bytes(derived(seed, purpose))


def public_bytes(private: X25519PrivateKey) -> bytes:
    """The 32 bytes of the public key."""
    return private.public_key().public_bytes_raw()


def pair_secret(private: X25519PrivateKey, public: bytes) -> bytes:
    """The secret that two sites have in common, from which keys are derived."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # With a point of low order everybody would know the secret.
        raise InputError("a public key of a site is not a valid point of the curve") from None


def pair_mask_key(
    private: X25519PrivateKey, public: bytes, header: SumHeader, one: int, two: int
) -> bytes:
    """The key of the mask that two sites have in common, the same from either side."""
    purpose = hashed(MASK, header.hash, b"%d %d" % (min(one, two), max(one, two)))
    return derived(pair_secret(private, public), purpose)


def seal_key(
    private: X25519PrivateKey, public: bytes, header: SumHeader, sender: int, receiver: int
) -> bytes:
    """The key that seals what one of two sites hands to the other, in this direction."""
    purpose = hashed(SEAL, header.hash, b"%d %d" % (sender, receiver))
    return derived(pair_secret(private, public), purpose)


# --- masks, sealed messages, shares ------------------------------------------------------------


def add_mask(total: Words, key: bytes, sign: int) -> None:
    """Add the keystream of a key to ``total``, modulo 2⁶⁴, or subtract it where ``sign`` is -1."""
    encryptor = Cipher(AES256(key), CTR(COUNTER)).encryptor()
    stream = bytearray(min(8 * total.size, len(ZEROS)) + 15)
    change = np.add if sign > 0 else np.subtract
    for start in range(0, total.size, PIECE):
        part = total[start : start + PIECE]
        encryptor.update_into(ZEROS[: 8 * part.size], stream)
        change(part, np.frombuffer(stream, "<u8", part.size), out=part)


def seal(key: bytes, text: bytes, view: bytes) -> bytes:
    """The sealed text; a site that was told of another ``view`` of the attempt cannot open it."""
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


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """A share for each holder: any ``threshold`` of them recover the secret, and fewer reveal nothing."""
    return [bytes(share) for _, share in Shamir.split(threshold, holders, secret, False)]


def combine(threshold: int, shares: Mapping[int, bytes]) -> bytes:
    """The secret, from the shares by the numbers of their holders, which begin with 0."""
    few = list(shares.items())[:threshold]
    return bytes(Shamir.combine([(number + 1, share) for number, share in few], False))
