"""``open_shards``: X and y of a folder of shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.files import Location
from reshuffle.shards import ShardReader, Shards, read_manifest
from reshuffle.shards.layout import check_present
from reshuffle.shards.rows import MEMORY
from reshuffle.validation import check_positive

MOST_ROWS = 2**32 - 1
"""The most rows of one problem, whose rows are numbered with 32 bits."""


def open_shards(
    folder: Location, *, memory: int = MEMORY, with_targets: bool = True
) -> tuple[Shards, AnyArray]:
    """X and y of a folder made by ``reshuffle convert``, for a ``Problem``, an estimator or a site.

    X is read a window at a time and never all in memory, unless it is smaller than ``memory``: then it is read once when
    a problem is made of it, and everything is as with arrays. y is in memory. Labels -1/+1, 0/1 or of two other numbers are
    as in the file; labels that are texts are texts again.

    Parameters
    ----------
    memory : bytes of rows that may be held at a time, by default 1 GiB. A quarter is a window of a shuffled
        epoch, a quarter the next one, which a thread reads, and half is for the features that an L1 penalty leaves over.

    Examples
    --------
    >>> import tempfile
    >>> from reshuffle.datasets import convert
    >>> path, folder = tempfile.mkdtemp() + "/rows", tempfile.mkdtemp() + "/shards"
    >>> with open(path, "w") as f:
    ...     _ = f.write("+1 1:0.5 3:2\\n-1 2:1\\n+1 3:1\\n")
    >>> _ = convert(path, folder)
    >>> X, y = open_shards(folder)
    >>> X.shape, y.tolist()
    ((3, 3), [1.0, -1.0, 1.0])
    >>> X @ [1.0, 1.0, 1.0]
    array([2.5, 1. , 1. ])
    """
    check_positive("memory", memory, integer=True)
    place, manifest = Path(folder), read_manifest(folder)
    if not manifest.complete:
        raise InputError(
            f"{place} is an unfinished conversion: run `reshuffle convert` again with the same arguments, and it goes on "
            f"after the {manifest.rows:,} rows that are there"
        )
    if manifest.rows > MOST_ROWS:
        raise InputError(
            f"{place} has {manifest.rows:,} rows; a problem has at most {MOST_ROWS:,}: use several folders, as sites"
        )
    check_present(place, manifest)
    X = Shards(ShardReader(place, manifest), memory)
    if not with_targets:
        return X, np.empty(0)
    y = X.targets()
    return X, np.array(manifest.classes)[y.astype(np.int64)] if manifest.classes else y
