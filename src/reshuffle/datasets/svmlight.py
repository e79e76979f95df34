"""LIBSVM's text format, read strictly: ``label index:value index:value …``, a line for each sample.

``core/libsvm.hpp`` says what a line may be. What Python would also take for a number (``1_0``, ``nan``, digits of other
scripts) is refused with its line. Memory is bounded by the file: a packed file may be larger than it is packed by a
factor that text does not reach, and indices have a bound.
"""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import fstat
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.core import native
from reshuffle.errors import InputError
from reshuffle.files import Location, opened

MOST_FEATURES = 10_000_000  # A vector of this length takes 80 MB.
LARGEST = 2**31 - 1  # The largest index that the index arrays can hold.
PACKED = 200
"""A text may be at most this many times as large as its compressed file; numbers compress to between a fifth and a twentieth."""
SMALL = 1 << 26  # A decompressed file may have this many bytes in any case.
PIECE = 1 << 22
"""Bytes that are parsed at a time, within some 20 ms, so that an interruption is noticed soon."""
SHOWN = 40  # A message shows at most this many bytes of a wrong line.
DAMAGE = (ValueError, OSError, EOFError, OverflowError, zlib.error, MemoryError)
"""The errors that reading a damaged file may raise."""


def read_svmlight(
    path: Location, *, n_features: int | None = None, max_features: int = MOST_FEATURES
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Rows (CSR with 32-bit indices) and labels of a file, packed with gzip or bzip2 or not.

    Everything that is wrong with it is an ``InputError``. For the parameters see ``load_libsvm``.
    """
    with opened(path) as file:
        try:
            with _unpacked(file) as stream:
                size = fstat(file.fileno()).st_size
                values, indices, ends, labels = _parsed(_pieces(stream, path, size), path)
        except InputError:
            raise
        except DAMAGE as error:
            raise InputError(_damaged(path, str(error) or type(error).__name__)) from None
    if not labels.size:
        raise InputError(f"{path} holds no sample")
    if indices.size and indices.min() > 0:  # The first index is 1.
        indices -= 1
    width = int(indices.max(initial=0)) + 1
    if width > (max_features if n_features is None else n_features):
        raise InputError(_too_wide(path, width, n_features, max_features))
    pointers: AnyArray = ends.astype(np.int32 if values.size < 2**31 else np.int64)
    rows = (values, indices, pointers)
    return sp.csr_matrix(rows, shape=(labels.size, n_features or width)), labels


def _pieces(stream: Unpacked, path: Location, size: int) -> Iterator[bytes]:
    """Pieces of whole lines, of a few MB each; a longer line is a piece by itself."""
    read, most = 0, PACKED * size + SMALL
    held: list[bytes] = []
    while text := stream.read(min(PIECE, most + 1 - read)):
        read += len(text)
        if read > most:
            raise InputError(
                f"{path} is {PACKED} times as large as it is packed, and goes on: "
                "that is no data; unpack it first if it is"
            )
        cut = text.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, text[:cut]])
            held = []
        held.append(text[cut:])
    yield b"".join(held)


def _parsed(pieces: Iterator[bytes], path: Location) -> tuple[AnyArray, ...]:
    """Values, indices as they are written, ends of rows and labels of all pieces."""
    parts: list[tuple[AnyArray, ...]] = []
    lines = stored = 0
    for text in pieces:
        values, indices, ends, labels, fault, line, at = native.parse_libsvm(text, LARGEST)
        if fault:
            raise InputError(_wrong(path, fault, lines + line, text[at : at + SHOWN]))
        parts.append((values, indices, ends[1:] + stored, labels))
        lines, stored = lines + line, stored + values.size
    values, indices, ends, labels = map(np.concatenate, zip(*parts, strict=True))
    return values, indices, np.concatenate([[0], ends]), labels


def _wrong(path: Location, fault: str, line: int, text: bytes) -> str:
    """The reason why the line that begins with this text is refused."""
    start = text.split(b"\n")[0].decode("ascii", "replace").strip()
    if fault == "form":
        return _damaged(path, f"line {line} is {start!r}")
    if fault == "order":
        return _damaged(path, f"indices must rise, and those of line {line} do not: {start!r}")
    if fault == "index":
        return f"{path} has an index beyond {LARGEST}, the largest there is, in line {line}"
    return f"{path} has a {fault} that is too large for a number, in line {line}"


def _damaged(path: Location, reason: str) -> str:
    return f"{path} is not in LIBSVM format, or is damaged: {reason}"


Unpacked = BinaryIO | gzip.GzipFile | bz2.BZ2File


@contextmanager
def _unpacked(file: BinaryIO) -> Iterator[Unpacked]:
    """The text of the file, decompressed if its first bytes say that it is compressed."""
    start = file.read(3)
    file.seek(0)
    if start[:2] == b"\x1f\x8b":
        with gzip.open(file) as unpacked:
            yield unpacked
    elif start == b"BZh":
        with bz2.open(file) as unpacked:
            yield unpacked
    else:
        yield file


def _too_wide(path: Location, width: int, n_features: int | None, most: int) -> str:
    if n_features is not None:
        return f"{path} has {width} features, more than n_features = {n_features}"
    return (
        f"{path} has a feature with the index {width}; a vector of so many numbers takes {8 * width:,} "
        f"bytes. Give max_features={width} if that is so ({most} where it is not given)"
    )
