"""What the sites of an attempt sign: their public keys for it, and the set of sites on which they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reshuffle.errors import InputError
from reshuffle.federated.secure.header import SumHeader, hashed
from reshuffle.federated.secure.keys import SIGNATURE, SiteKeys

KEY = 32
"""Bytes of a public key."""
TIME = 8
WIDTH = 2 * KEY + TIME + SIGNATURE
"""Bytes of a row."""
SKEW = 300
"""Seconds by which two clocks may differ. Kerberos allows as much; a clock that keeps time over the network is off by far less."""


@dataclass(frozen=True)
class KeyRow:
    """A site's public keys of one attempt."""

    sealing: bytes
    masking: bytes
    time: int
    """When they were made, in seconds since 1970 by the site's own clock."""
    signature: bytes

    def packed(self) -> bytes:
        return self.sealing + self.masking + self.time.to_bytes(TIME, "big") + self.signature

    @classmethod
    def of(cls, row: bytes) -> KeyRow:
        if len(row) != WIDTH:
            raise InputError(f"the public keys of a site have {WIDTH} bytes, got {len(row)}")
        time = int.from_bytes(row[2 * KEY : 2 * KEY + TIME], "big")
        return cls(row[:KEY], row[KEY : 2 * KEY], time, row[2 * KEY + TIME :])

    def check(self, signer: SiteKeys, header: SumHeader, name: str, now: float) -> None:
        """Refuse keys that the site of this name has not signed for this attempt, and old ones."""
        text = _text(header, name, self.sealing, self.masking, self.time)
        signer.check(name, text, self.signature)
        check_clock(self.time, now, f"the keys of {name} were made at")


def row_of(signer: SiteKeys, header: SumHeader, now: int, sealing: bytes, masking: bytes) -> KeyRow:
    """The signed row of these public keys."""
    text = _text(header, signer.name, sealing, masking, now)
    return KeyRow(sealing, masking, now, signer.sign(text))


def view_of(header: SumHeader, rows: Mapping[int, KeyRow]) -> bytes:
    """The digest of the head and of everybody's public keys."""
    return hashed(header.hash, *(rows[u].packed() for u in sorted(rows)))


def set_text(view: bytes, senders: Sequence[int], survivors: Sequence[int]) -> bytes:
    """The text that sites sign under a set."""
    lists = (" ".join(map(str, found)).encode() for found in (senders, survivors))
    return hashed(b"set", view, *lists)


def check_clock(time: float, now: float, what: str) -> None:
    """Refuse a time that is far from this site's own clock."""
    if abs(time - now) > SKEW:
        raise InputError(
            f"{what} a time {abs(time - now):,.0f} s {'after' if time > now else 'before'} this site's clock, and {SKEW} s are "
            "allowed: set the clocks (NTP)"
        )


def _text(header: SumHeader, name: str, sealing: bytes, masking: bytes, time: int) -> bytes:
    return hashed(b"keys", header.hash, name.encode(), sealing, masking, b"%d" % time)
