"""The settings of secure sums, which driver and sites have in common, and the parts of both, made where the packages for them are installed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from reshuffle.errors import InputError, extra, shown
from reshuffle.federated.secure.fixed_point import MOST_SITES, SPAN, exponent_of
from reshuffle.federated.secure.graph import degree_of, least_of

if TYPE_CHECKING:
    from reshuffle.federated.secure.gathering import SecureSums
    from reshuffle.federated.secure.guard import Guard
    from reshuffle.federated.site import Site

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
"""Names of sites that have keys: they are names of files too."""


@dataclass(frozen=True)
class Secure:
    """Secure sums: the driver learns Σ_m of the sites' answers, and no single one (docs/secure.md).

    Parameters
    ----------
    threshold : how many sites must stay until the end of a round; so many sites together could also undo the masks of another. More than
        half of those asked. Default: more than two thirds.
    keys : a folder at each site with its private signing key NAME.key and the public keys NAME.pub of all sites, as
        ``reshuffle federate keys`` writes them. A site may have a folder of its own: ``Site(keys=…)``.
    neighbours : the number of sites with which each shares masks and secrets. Default: all; among more than 20 sites, as many as
        make collusion of a quarter of them useless.
    range : the largest value that a site may send at first. If a site has a larger one, it refuses to send it; the range is then
        raised for all sites, and the round is repeated. The error of a sum is at most 2⁻⁴⁰ of the range.

    Examples
    --------
    >>> import reshuffle as rs
    >>> rs.federated.Secure(threshold=2, keys="keys").threshold_of(3)
    2
    """

    threshold: int | None = None
    keys: str | os.PathLike[str] | None = None
    neighbours: int | None = None
    range: float = 64.0

    def __post_init__(self) -> None:
        for name in ("threshold", "neighbours"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 2):
                raise InputError(f"{name} must be an integer of at least 2, got {shown(value)}")
        if self.neighbours is not None and self.neighbours % 2:
            raise InputError(
                f"neighbours must be even, as many to each side, got {self.neighbours}"
            )
        number = isinstance(self.range, (int, float)) and not isinstance(self.range, bool)
        if not (number and isfinite(self.range) and self.range > 0):
            raise InputError(f"range must be a positive number, got {shown(self.range)}")
        if not -SPAN <= self.exponent <= SPAN:
            raise InputError(f"range must be from 2^-{SPAN} to 2^{SPAN}, got {shown(self.range)}")

    @property
    def exponent(self) -> int:
        return exponent_of(self.range)

    def threshold_of(self, count: int) -> int:
        found = self.threshold or min(least_of(count), count)
        if not count / 2 < found <= count:
            raise InputError(
                f"threshold must be more than half of the {count} sites that are asked and at most all of them, got {found}"
            )
        return found

    def degree_of(self, count: int) -> int:
        return degree_of(count) if self.neighbours is None else min(self.neighbours, count - 1)

    def shares_of(self, count: int) -> int:
        """The number of shares that recover a secret of one of ``count`` sites."""
        degree = self.degree_of(count)
        return self.threshold_of(count) if degree >= count - 1 else least_of(degree + 1)

    def terms_of(self, count: int) -> tuple[int, int, int]:
        """The threshold, the number of neighbours and the number of shares for ``count`` sites."""
        return self.threshold_of(count), self.degree_of(count), self.shares_of(count)

    def check_names(self, names: list[str | None]) -> None:
        """Refuse sites that cannot have a secure sum."""
        if len(names) < 2:
            raise InputError(
                "secure sums need at least two sites: the sum of one is its own value, got one"
            )
        if len(names) > MOST_SITES:
            raise InputError(
                f"secure sums are for at most {MOST_SITES:,} sites, got {len(names):,}"
            )
        for number, name in enumerate(names):
            if name is None or not NAME.fullmatch(name):
                raise InputError(
                    f"site {number} must have a name of the letters A to Z and a to z, digits, '.', '_' and '-', by which the others know its key, "
                    f"got {shown(name)}"
                )
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise InputError(
                f"sites with secure sums must have different names, and {twice[0]!r} occurs twice"
            )
        self.threshold_of(len(names))


def check_secure(secure: object) -> Secure | None:
    """The settings that an argument ``secure`` stands for."""
    if secure is None or secure is False:
        return None
    if secure is True:
        return Secure()
    if not isinstance(secure, Secure):
        raise InputError(f"secure must be True, False or federated.Secure(…), got {shown(secure)}")
    return secure


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
