"""``open_shards``: X and y of a folder of shards."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.digests import digest
from reshuffle.errors import InputError
from reshuffle.files import Location
from reshuffle.shards import Manifest, ShardReader, Shards, read_manifest
from reshuffle.shards.layout import check_present
from reshuffle.shards.rows import MEMORY
from reshuffle.validation import check_positive

MOST_ROWS = 2**32 - 1
"""The most rows of one problem, whose rows are numbered with 32 bits."""


def open_shards(
    folder: Location, *, memory: int = MEMORY, with_targets: bool = True
) -> tuple[Shards, AnyArray]:
    """X and y of a folder made by ``reshuffle convert``, for a ``Problem``, an estimator or a site.

    X is read a window at a time, unless it is smaller than ``memory``: then it is read once, when a problem is made of it,
    and treated like an array. y is in memory. Labels that are numbers are as in the file; labels that are texts are
    texts again.

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
    return _opened(Path(folder), finished_manifest(folder), memory, with_targets)


def finished_manifest(folder: Location) -> Manifest:
    """The manifest of a folder; refused if its conversion is unfinished."""
    manifest = read_manifest(folder)
    if not manifest.complete:
        raise InputError(
            f"{os.fspath(folder)} is an unfinished conversion: run `reshuffle convert` again with the same arguments, and it "
            f"continues after the {manifest.rows:,} rows that are there"
        )
    return manifest


def part_identity(manifest: Manifest) -> str:
    """A digest that identifies these shards: from the checksums of their files and the meaning of their numbers."""
    crcs = [file.crc32 for shard in manifest.shards for file in shard.files.values()]
    return digest(crcs, manifest.features, list(manifest.classes), list(manifest.names))


def open_part(
    folder: Path, first: int, last: int, memory: int, identity: str
) -> tuple[Shards, AnyArray]:
    """X and y of shards ``first`` up to ``last``; no other file of the folder is needed.

    ``identity`` is the ``part_identity`` of these shards on the driver; other rows are refused.
    """
    part = finished_manifest(folder).part(first, last)
    if part_identity(part) != identity:
        raise InputError(
            f"shards {first} to {last - 1} of {folder} are not those of the driver's folder of that name: copy the folder with "
            "its manifest to every host"
        )
    return _opened(folder, part, memory, with_targets=True)


def _opened(
    place: Path, manifest: Manifest, memory: int, with_targets: bool
) -> tuple[Shards, AnyArray]:
    if manifest.rows > MOST_ROWS:
        raise InputError(
            f"{place} has {manifest.rows:,} rows; a problem has at most {MOST_ROWS:,}: use several folders as sites, or "
            "rs.federated.DividedFolder"
        )
    check_present(place, manifest)
    X = Shards(ShardReader(place, manifest), memory)
    if not with_targets:
        return X, np.empty(0)
    y = X.targets()
    return X, np.array(manifest.classes)[y.astype(np.int64)] if manifest.classes else y
