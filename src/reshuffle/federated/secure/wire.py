"""The messages of a secure sum: their kinds, and bytes, by client, as parts of a record, which are read back with checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError

SUMS = ("train", "value", "curvature")
"""Questions whose answers the driver only adds up."""
TOLD = ("hello", "load", "metrics")
"""Questions that a site answers for itself, as docs/secure.md lists."""
START = "secure-"
"""The prefix of the kinds of messages of the protocol."""
HELLO = f"{START}hello"
INPUT = f"{START}input"
PREFIX = "secure_"
"""The prefix of the names of parts of a message that belong to the protocol."""


def sent(record: Mapping[str, Plain]) -> dict[str, Plain]:
    """A record under the names of the protocol."""
    return {f"{PREFIX}{name}": part for name, part in record.items()}


def without(record: Record) -> dict[str, Plain]:
    """A record without the parts of the protocol."""
    return {name: part for name, part in record.items() if not name.startswith(PREFIX)}


def as_array(data: bytes) -> AnyArray:
    """Bytes as a record may hold them."""
    return np.frombuffer(data, np.uint8)


def packed(name: str, rows: Mapping[int, bytes]) -> dict[str, Plain]:
    """Rows of bytes of one length, each of a client."""
    clients = sorted(rows)
    joined = as_array(b"".join(rows[client] for client in clients))
    return {
        name: joined.reshape(len(clients), -1) if clients else joined,
        f"{name}_of": numbers(clients),
    }


def numbers(clients: Sequence[int]) -> AnyArray:
    """The numbers of clients as an array."""
    return np.array(sorted(clients), dtype=np.int64)


def read_text(record: Record, name: str) -> str:
    """A text of a record."""
    found = record.get(f"{PREFIX}{name}")
    if not isinstance(found, str):
        raise InputError(f"a message of a secure sum lacks {name}")
    return found


def read_bytes(record: Record, name: str, size: int) -> bytes:
    """Bytes of a record, checked to be ``size``."""
    found = _array(record, name, np.uint8)
    if found.size != size:
        raise InputError(
            f"{name} in a message of a secure sum must have {size} bytes, got {found.size}"
        )
    return found.tobytes()


def read_numbers(record: Record, name: str) -> tuple[int, ...]:
    """Numbers of clients; one that is there twice is refused."""
    found = _array(record, name, np.int64)
    if found.ndim != 1:
        raise InputError(f"a message of a secure sum lacks {name}")
    clients = tuple(found.tolist())
    if len(set(clients)) < len(clients):
        raise InputError(f"{name} in a message of a secure sum names a site twice")
    return clients


def read_rows(record: Record, name: str, width: int) -> dict[int, bytes]:
    """Rows of bytes by clients, each of this width."""
    clients = read_numbers(record, f"{name}_of")
    joined = read_bytes(record, name, width * len(clients))
    return {client: joined[k * width : (k + 1) * width] for k, client in enumerate(clients)}


def _array(record: Record, name: str, kind: type[np.generic]) -> AnyArray:
    found = record.get(f"{PREFIX}{name}")
    if not isinstance(found, np.ndarray) or found.dtype != kind:
        raise InputError(f"a message of a secure sum lacks {name}")
    return found
