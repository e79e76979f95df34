"""Reads arrays of a .npz file from any source, compressed or not; its size is bounded before anything is allocated.

Every array must be as large as its part of the file says, and all parts together must not exceed what a file of that
size can unpack to if it holds data. Nothing is unpickled.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from math import prod
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from reshuffle.arrays import AnyArray
from reshuffle.datasets.source import damage
from reshuffle.datasets.svmlight import PACKED, SMALL

MOST_MEMBERS = 1000  # The most arrays that a file may hold; a sparse matrix has a handful.
DAMAGE: tuple[type[Exception], ...] = (
    OSError, ValueError, KeyError, TypeError, EOFError, OverflowError, MemoryError, RuntimeError, SyntaxError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""The errors that reading a damaged file may raise."""


def read_npz(file: BinaryIO, where: str, what: str = "a file of arrays") -> dict[str, AnyArray]:
    """All arrays of the file, by name; everything that is wrong with it is an ``InputError``."""
    content = file.read()
    with damage(f"{where} is not {what}, or is damaged", *DAMAGE):
        with zipfile.ZipFile(io.BytesIO(content)) as stored:
            _check(stored, PACKED * len(content) + SMALL)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def _check(stored: zipfile.ZipFile, most: int) -> None:
    members = stored.infolist()
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has {len(members)} parts")
    if sum(member.file_size for member in members) > most:
        raise ValueError(
            f"it is more than {PACKED} times as large as it is packed: that is no data"
        )
    for member in members:
        with stored.open(member) as stream:
            shape, _, dtype = read_header(stream)
            size = stream.tell() + prod(shape) * dtype.itemsize
        if size != member.file_size:
            raise ValueError(f"{member.filename} does not have the size that it says")


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape of an array, whether its columns come one after the other, and its type."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array is of version {version}")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("an array holds objects of Python")
    return shape, by_columns, dtype
