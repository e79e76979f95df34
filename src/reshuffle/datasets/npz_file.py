"""Reads a .npz file, also a sparse matrix as written by scipy's ``save_npz``; its size is bounded before anything is allocated.

Every array must be as large as its part of the file says, and all parts together must not exceed what a file of that
size can unpack to if it holds data. Nothing is unpickled.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from math import prod
from typing import IO, Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from reshuffle.arrays import AnyArray
from reshuffle.capacity import check_room
from reshuffle.datasets.numbers import as_numbers
from reshuffle.datasets.source import damage
from reshuffle.datasets.svmlight import PACKED, SMALL
from reshuffle.errors import InputError

MOST_MEMBERS = 1000  # The most arrays that a file may hold; a sparse matrix has a handful.
DAMAGE: tuple[type[Exception], ...] = (
    OSError, ValueError, KeyError, TypeError, EOFError, OverflowError, MemoryError, RuntimeError, SyntaxError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""The errors that reading a damaged file may raise."""
OWN = (
    "data",
    "indices",
    "indptr",
    "shape",
    "format",
    "row",
    "col",
    "coords",
    "offsets",
    "_is_array",
)
"""The names that scipy gives to the parts of a matrix."""
MATRIX = "a sparse matrix as scipy.sparse.save_npz writes it"
TARGET = "y"
"""The default name of the member of a matrix file that holds the target."""


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


def read_matrix(file: BinaryIO, where: str) -> tuple[sp.csr_matrix, dict[str, AnyArray]]:
    """The matrix of a file, and the other arrays in it, by name."""
    content = file.read()
    arrays = read_npz(io.BytesIO(content), where, MATRIX)
    others = {name: array for name, array in arrays.items() if name not in OWN}
    with damage(f"{where} is not {MATRIX}, or is damaged", *DAMAGE):
        check_room(f"{where}: a matrix of so many rows", 8 * int(arrays["shape"].flat[0]))
        X = sp.csr_matrix(sp.load_npz(io.BytesIO(content)))
        X.check_format(full_check=True)
    if X.dtype.kind not in "fiub":
        raise InputError(f"{where} must hold real numbers, got {X.dtype}")
    X = X.astype(np.float64, copy=False)
    X.sum_duplicates()
    return X, others


def target_of(others: dict[str, AnyArray], given: str | None, rows: int, where: str) -> AnyArray:
    """The targets: the member ``given`` of the matrix file, or else the file of that name (.npy, or text, one per line)."""
    name = given or TARGET
    if name in others:
        y = others[name]
    elif given is not None and os.path.isfile(given):
        y = _from_file(given)
    else:
        inside = f"it holds {', '.join(others)}" if others else "it holds nothing but the matrix"
        raise InputError(
            f"--target must name an array in {where} or a file (.npy, or text with one target per line), "
            f"got {name!r}: {inside}, and there is no such file"
        )
    if y.shape != (rows,):
        raise InputError(
            f"target {name!r} must hold {rows} entries, one per row, got shape {y.shape}"
        )
    return y


def _from_file(path: str) -> AnyArray:
    if path.endswith(".npy"):
        with damage(f"{path} is not a numpy array, or is damaged", *DAMAGE):
            y: AnyArray = np.load(path, allow_pickle=False)
            return y
    try:
        with open(path, encoding="utf-8") as file:
            texts = [line.strip() for line in file]
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file with one target per line") from None
    while texts and not texts[-1]:
        texts.pop()
    if "" in texts:
        raise InputError(f"{path}, line {texts.index('') + 1}: there is no target")
    numbers = as_numbers(texts)
    return np.array(texts) if numbers is None else numbers
