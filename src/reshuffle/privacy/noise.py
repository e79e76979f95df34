"""Noise with a seed from the operating system, which neither the seed of the run nor any file reveals."""

from __future__ import annotations

import hashlib
import hmac
import secrets

import numpy as np

from reshuffle.errors import InputError

KEY = 256
"""The bits of a key, as many as the seed of the generator uses."""


def secret_generator() -> np.random.Generator:
    """A generator that nobody can repeat."""
    return np.random.Generator(np.random.PCG64DXSM(secrets.randbits(KEY)))


class RepeatedNoise:
    """Random numbers that depend only on a secret key and the question to whose answer they are added.

    A client that is asked the same question again because its answer was lost gives the same answer: two answers with
    different noise would reveal more than one. Other questions get independent noise. A copy in another process has a
    key of its own, because the bytes from which it was made have travelled.

    ``key`` is for a host that starts a new process for every message: 32 bytes from the system, which it keeps in its own
    memory for one run on one set of data. Under one key different data must not be asked the same question.
    """

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and len(key) != KEY // 8:
            raise InputError(f"the key of noise must have {KEY // 8} bytes, got {len(key)}")
        self._key = key or secrets.token_bytes(KEY // 8)

    def of(self, name: str) -> RepeatedNoise:
        """The noise of one client among others."""
        return RepeatedNoise(hmac.digest(self._key, name.encode(), "sha256"))

    def generator(self, *question: bytes) -> np.random.Generator:
        """The random numbers that belong to this question."""
        mixed = hmac.new(self._key, digestmod="sha256")
        for part in question:
            mixed.update(hashlib.sha256(part).digest())
        seed = int.from_bytes(mixed.digest(), "big")
        return np.random.Generator(np.random.PCG64DXSM(seed))

    def __reduce__(self) -> tuple[type[RepeatedNoise], tuple[()]]:
        return RepeatedNoise, ()
