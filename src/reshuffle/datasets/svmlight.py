"""Reads a whole file in LIBSVM format as a matrix and labels.

Memory is bounded by the size of the file: a packed file may grow at most by a factor that text does not reach, and indices are
bounded.
"""

from __future__ import annotations

from os import fstat

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.datasets import source
from reshuffle.datasets.libsvm_blocks import LARGEST, MOST_FEATURES, libsvm_blocks
from reshuffle.errors import InputError
from reshuffle.files import Location, opened
from reshuffle.shards import Block

PACKED = 200
"""A text may be at most this many times as large as its compressed file; numbers compress to between a fifth and a twentieth."""
SMALL = 1 << 26  # A decompressed file may have this many bytes in any case.
DAMAGE = (*source.DAMAGE, ValueError, OverflowError, MemoryError)
"""The errors that reading a damaged file may raise."""


def read_svmlight(
    path: Location, *, n_features: int | None = None, max_features: int = MOST_FEATURES
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Rows (CSR with 32-bit indices) and labels of a file, packed or not.

    Everything that is wrong with it is an ``InputError``. For the parameters see ``load_libsvm``.
    """
    with opened(path) as file:
        try:
            with source.unpacked(file) as stream:
                most = PACKED * fstat(file.fileno()).st_size + SMALL
                blocks = libsvm_blocks(stream, str(path), largest=LARGEST, most=most)
                found = [block.rows for block in blocks if block.rows.rows]
        except InputError:
            raise
        except DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"{path} is not in LIBSVM format, or is damaged: {reason}") from None
    if not found:
        raise InputError(f"{path} holds no sample")
    values, indices, ends, labels = Block.join(found)
    return _matrix(
        path, values, np.asarray(indices), np.asarray(ends), n_features, max_features
    ), labels


def _matrix(
    path: Location, values: AnyArray, indices: AnyArray, ends: AnyArray, n_features: int | None, most: int
) -> sp.csr_matrix:  # fmt: skip
    """The rows as a matrix; its first column has index 0, or 1 if index 0 does not occur."""
    if indices.size and indices.min() > 0:
        indices -= 1
    width = int(indices.max(initial=0)) + 1
    if n_features is not None and width > n_features:
        raise InputError(f"{path} has {width} features, more than n_features = {n_features}")
    if n_features is None and width > most:
        raise InputError(
            f"{path} has a feature with the index {width}; a vector of so many numbers takes {8 * width:,} "
            f"bytes. Give max_features={width} if that is so ({most} where it is not given)"
        )
    pointers: AnyArray = ends.astype(np.int32 if values.size < 2**31 else np.int64)
    return sp.csr_matrix((values, indices, pointers), shape=(len(ends) - 1, n_features or width))
