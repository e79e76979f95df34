"""Arrays that wait in temporary files until they are read: memory that the system can take back."""

from __future__ import annotations

import tempfile

import numpy as np

from reshuffle.objective import Array

SMALL = 1 << 19  # bytes, below which an array is not worth a file


def spilled(array: Array) -> Array:
    """The same numbers, mapped from a file without a name, which goes when the array goes.

    The file lies where ``tempfile`` puts it (``TMPDIR``). Where there is no room, the array stays in memory.
    """
    if array.nbytes < SMALL:
        return array
    try:
        with tempfile.TemporaryFile(prefix="reshuffle-") as file:
            file.write(np.ascontiguousarray(array).data)
            file.flush()
            return np.memmap(file, array.dtype, "r", shape=array.shape).view(np.ndarray)
    except OSError:
        return array
