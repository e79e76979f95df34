"""Secure sums: the driver learns the sum of the sites' answers and no single one (docs/secure.md)."""

from reshuffle.federated.secure.settings import Secure

__all__ = ["Secure"]
