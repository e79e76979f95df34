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
from reshuffle.datasets.libsvm_blocks import LARGEST, MOST_FEATURES, libsvm_blocks
from reshuffle.datasets.source import DAMAGE as UNREADABLE
from reshuffle.datasets.source import damage, unpacked
from reshuffle.errors import InputError
from reshuffle.files import Location, opened
from reshuffle.shards import Block

PACKED = 200
"""A text may be at most this many times as large as its compressed file; numbers compress to between a fifth and a twentieth."""
SMALL = 1 << 26  # A decompressed file may have this many bytes in any case.
DAMAGE = (*UNREADABLE, ValueError, OverflowError, MemoryError)
"""The errors that reading a damaged file may raise."""


def read_svmlight(
    path: Location, *, n_features: int | None = None, max_features: int = MOST_FEATURES
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Rows (CSR with 32-bit indices) and labels of a file, packed or not.

    Everything that is wrong with it is an ``InputError``. For the parameters see ``load_libsvm``.
    """
    wrong = f"{path} is not in LIBSVM format, or is damaged"
    with opened(path) as file, damage(wrong, *DAMAGE), unpacked(file) as stream:
        most = PACKED * fstat(file.fileno()).st_size + SMALL
        blocks = libsvm_blocks(stream, str(path), largest=LARGEST, most=most)
        found = [block.rows for block in blocks if block.rows.rows]
    if not found:
        raise InputError(f"{path} holds no sample")
    values, *places, labels = Block.join(found)
    indices, ends = map(np.asarray, places)
    if indices.size and indices.min() > 0:  # Without index 0 the first column has index 1.
        indices -= 1
    width = int(indices.max(initial=0)) + 1
    if n_features is not None and width > n_features:
        raise InputError(f"{path} has {width} features, more than n_features = {n_features}")
    if n_features is None and width > max_features:
        raise InputError(
            f"{path} has a feature with the index {width}; a vector of so many numbers takes {8 * width:,} "
            f"bytes. Give max_features={width} if that is so ({max_features} where it is not given)"
        )
    pointers: AnyArray = ends.astype(np.int32 if values.size < 2**31 else np.int64)
    shape = (len(labels), n_features or width)
    return sp.csr_matrix((values, indices, pointers), shape=shape), labels
