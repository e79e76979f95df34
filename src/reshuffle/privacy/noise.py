"""Noise whose seed is the system's: neither the run's seed nor anything in a file tells it."""

from __future__ import annotations

import hashlib
import hmac
import secrets

import numpy as np

KEY = 256
"""The bits of a key, as many as the generator's seed mixes."""


def secret_generator() -> np.random.Generator:
    """A generator that nobody can repeat."""
    return np.random.Generator(np.random.PCG64DXSM(secrets.randbits(KEY)))


class RepeatedNoise:
    """Random numbers that are a function of a secret key and of what it is added to.

    A client that is asked the same question twice, since its answer was lost, gives the same answer: two answers with
    different noise would tell more than one. Another question gets independent noise. The key does not leave the process.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(KEY // 8)

    def generator(self, *question: bytes) -> np.random.Generator:
        """The random numbers that belong to this question."""
        mixed = hmac.new(self._key, digestmod="sha256")
        for part in question:
            mixed.update(hashlib.sha256(part).digest())
        seed = int.from_bytes(mixed.digest(), "big")
        return np.random.Generator(np.random.PCG64DXSM(seed))

    def __getstate__(self) -> dict[str, bytes]:
        """A copy in another process has a key of its own."""
        return {"_key": secrets.token_bytes(KEY // 8)}
