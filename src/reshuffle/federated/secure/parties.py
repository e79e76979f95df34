"""The driver's and the sites' parts of secure sums, made where the packages that they need are installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reshuffle.errors import extra
from reshuffle.federated.secure.settings import Secure
from reshuffle.federated.site import Site

if TYPE_CHECKING:
    from reshuffle.federated.secure.gathering import SecureSums
    from reshuffle.federated.secure.guard import Guard


def check_installed() -> None:
    """Refuse secure sums where a package for them is missing."""
    with extra("secure", "cryptography", "a secure sum"):
        import cryptography.hazmat  # noqa: F401
    with extra("secure", "Crypto", "a secure sum"):
        import Crypto.Protocol.SecretSharing  # noqa: F401


def guard_of(secure: Secure, sites: Mapping[int, Site]) -> Guard:
    """The guard of these sites."""
    check_installed()
    from reshuffle.federated.secure.guard import Guard

    names = {client: site.name for client, site in sites.items()}
    folders = {client: site.keys for client, site in sites.items()}
    return Guard(secure, names, folders)


def sums_of(secure: Secure, names: Sequence[str]) -> SecureSums:
    """The driver's side."""
    check_installed()
    from reshuffle.federated.secure.gathering import SecureSums

    return SecureSums(secure, names)
