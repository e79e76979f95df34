"""LIBSVM's text format, read strictly: ``label index:value index:value …``, a line for each sample.

Every line is matched against the format before a number is made of it, so that what Python would also take for a
number (``1_0``, ``nan``, digits of other scripts) is refused with its line. Memory is bounded by the file: a packed
file may be larger than it is packed by a factor that text does not reach, and indices have a bound.
"""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import fstat
from typing import Any, BinaryIO, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.files import Location, opened

MOST_FEATURES = 10_000_000  # 80 MB for each vector of this length
PACKED = (
    200  # times as large as the packed file: text of numbers packs to a fifth or a twentieth, and
)
SMALL = 1 << 26  # bytes that any packed file may have
NUMBER = rb"[+-]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+"
LINE = re.compile(
    rb"[ \t]*+(?:" + NUMBER + rb"(?:[ \t]++qid:\d++)?+(?:[ \t]++\d++:" + NUMBER + rb")*+)?+[ \t]*+"
    rb"(?:#[^\n]*+)?+\r?\n?"
)
DAMAGE = (ValueError, OSError, EOFError, OverflowError, zlib.error, MemoryError)
"""What reading a damaged file may raise."""


def read_svmlight(
    path: Location, *, n_features: int | None = None, max_features: int = MOST_FEATURES
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Rows (CSR with 32-bit indices) and labels of a file, packed with gzip or bzip2 or not.

    Everything that is wrong with it is an ``InputError``. For the parameters see ``load_libsvm``.
    """
    from sklearn.datasets import load_svmlight_file

    with opened(path) as file:
        try:
            with _unpacked(file) as stream:
                X, labels = load_svmlight_file(_Lines(stream, path, fstat(file.fileno()).st_size))
        except InputError:
            raise
        except OverflowError:
            raise InputError(
                f"{path} has an index beyond {2**31 - 1}, the largest there is"
            ) from None
        except DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"{path} is not in LIBSVM format, or is damaged: {reason}") from None
    if not X.shape[0]:
        raise InputError(f"{path} holds no sample")
    width = X.shape[1]
    if width > (max_features if n_features is None else n_features):
        raise InputError(_too_wide(path, width, n_features, max_features))
    for name, numbers in (("label", labels), ("value", X.data)):
        if not np.isfinite(numbers).all():
            raise InputError(f"{path} has a {name} that is too large for a number")
    pointers = np.int32 if X.nnz < 2**31 else np.int64
    rows = (X.data, X.indices.astype(np.int32), X.indptr.astype(pointers))
    return sp.csr_matrix(rows, shape=(X.shape[0], n_features or width)), labels


class _Lines:
    """The lines of a file, each of which has the form that it should have."""

    def __init__(self, stream: BinaryIO, path: Location, size: int) -> None:
        self.stream, self.path, self.most = stream, path, PACKED * size + SMALL

    def read(self) -> bytes:
        """What makes this a file to scikit-learn, which reads lines."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[bytes]:
        read = 0
        for number, line in enumerate(iter(lambda: self.stream.readline(self.most), b""), 1):
            read += len(line)
            if read > self.most:
                raise InputError(
                    f"{self.path} is {PACKED} times as large as it is packed, and goes on: "
                    "that is no data; unpack it first if it is"
                )
            if not LINE.fullmatch(line):
                start = line[:40].decode("ascii", "replace").strip()
                raise ValueError(f"line {number} is {start!r}")
            yield line


@contextmanager
def _unpacked(file: BinaryIO) -> Iterator[BinaryIO]:
    """The text of the file, whether it is packed or not: its first bytes say so."""
    start = file.read(3)
    file.seek(0)
    kind: Any = {b"\x1f\x8b": gzip.GzipFile}.get(
        start[:2], bz2.BZ2File if start == b"BZh" else None
    )
    if kind is None:
        yield file
    else:
        with kind(file) if kind is bz2.BZ2File else kind(fileobj=file) as stream:
            yield cast(BinaryIO, stream)


def _too_wide(path: Location, width: int, n_features: int | None, most: int) -> str:
    if n_features is not None:
        return f"{path} has {width} features, more than n_features = {n_features}"
    return (
        f"{path} has a feature with the index {width}; a vector of so many numbers takes {8 * width:,} "
        f"bytes. Give max_features={width} if that is so ({most} where it is not given)"
    )
