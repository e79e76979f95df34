"""The source of bytes: a file or standard input, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, BinaryIO

from reshuffle.errors import InputError
from reshuffle.files import Location

STDIN = "-"
PACKED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""The first bytes of compressed files, and the function that opens each kind; a file's name is not trusted."""
FORMATS = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"PK\x05\x06": "npz"}
"""The first bytes of files that are not text."""
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""The errors that reading a damaged file may raise."""


@contextmanager
def damage(told: str, *kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds become an ``InputError`` that begins with ``told``; one that is so already stays."""
    try:
        yield
    except (InputError, BrokenPipeError):  # The broken pipe is that of our output.
        raise
    except kinds as error:
        raise InputError(f"{told}: {str(error) or type(error).__name__}") from None


@contextmanager
def opened(path: Location) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input if ``path`` is "-", decompressed if necessary.

    An error while they are read is raised as an ``InputError``.
    """
    stdin = str(path) == STDIN
    with (
        damage(f"cannot read {told(path)}", *DAMAGE),
        nullcontext(sys.stdin.buffer) if stdin else open(path, "rb") as raw,
        unpacked(raw) as plain,
    ):
        yield raw if plain is raw else io.BufferedReader(plain)


def unpacked(file: BinaryIO) -> AbstractContextManager[Any]:
    """The content of an open file, decompressed if its first bytes say that it is compressed."""
    unpack = next((u for magic, u in PACKED.items() if first_bytes(file, magic)), nullcontext)
    return unpack(file)


def told(path: Location) -> str:
    """The name of a source in a message."""
    return "standard input" if str(path) == STDIN else str(path)


def binary_format(file: BinaryIO) -> str | None:
    """ "parquet" or "npz" if the first bytes say so, otherwise None."""
    return next((name for magic, name in FORMATS.items() if first_bytes(file, magic)), None)


def first_bytes(file: BinaryIO, wanted: bytes) -> bool:
    """Whether a file begins with these bytes, which stay in its buffer."""
    peek = getattr(file, "peek", None)
    return peek is not None and bytes(peek(len(wanted))[: len(wanted)]) == wanted
