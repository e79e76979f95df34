"""Decides, from the head of an attempt, whether a site takes part in it."""

from __future__ import annotations

from collections.abc import Collection

from reshuffle.errors import InputError
from reshuffle.federated.secure.header import SumHeader
from reshuffle.federated.secure.settings import Secure
from reshuffle.federated.secure.wording import SUMS


def check_header(header: SumHeader, client: int, name: str, secure: Secure) -> None:
    """Refuse a head with strange sites, another name for this one, or settings other than this site's."""
    count = len(header.sites)
    if count < 2:
        raise InputError("the sum of one site is its own value: at least two must be asked")
    clients = [number for number, _ in header.sites]
    if clients != sorted(set(clients)) or len(set(header.names.values())) < count:
        raise InputError("the sites of a secure sum must be different, and in ascending order")
    called = header.names.get(client)
    if called != name:
        raise InputError(f"the driver calls this site {called}, and its key belongs to {name}")
    wanted = (secure.threshold_of(count), secure.degree_of(count), secure.shares_of(count))
    if (header.threshold, header.degree, header.shares) != wanted:
        raise InputError(
            f"the driver asks for a sum with threshold, neighbours and shares {header.threshold}, {header.degree}, "
            f"{header.shares}, and this site takes part with {', '.join(map(str, wanted))}"
        )
    if header.kind not in SUMS:
        raise InputError(f"there is no secure sum of {header.kind}")


def check_first(header: SumHeader, past: Collection[str]) -> None:
    """Refuse a question that this site has helped to answer, and an attempt that was begun before."""
    if header.label in past:
        raise InputError(
            f"this site has taken part in the sum of {header.kind} in round {header.round}: a second one over other sites "
            "would tell a single value"
        )
    if header.attempt in past or not header.attempt:
        raise InputError("this attempt at a secure sum was begun before")
