"""Arrays and metadata in one file: a zip of .npy files that ``np.load`` reads, without pickle.

Reading a file from any source gives the arrays that were saved, or raises ``InputError``:

- it must be a regular file, its members uncompressed and together no larger than the file, so that no more is
  allocated than the file holds (a zip bomb is refused by its header);
- headers of arrays are matched against the one form that numpy writes, never evaluated, and ``headers`` gives
  names, shapes and types before any array is read;
- the member ``sha256`` is that of all others, their names and order included.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy

from reshuffle.arrays import AnyArray, Hasher
from reshuffle.errors import InputError, shown
from reshuffle.files import Location, opened, replacing

ABOUT, CHECKSUM = "about", "sha256"
FIRST_KIND = "saved result"
MOST_MEMBERS = 1000
"""A file with more arrays than this is refused; a saved state has about twenty."""
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([<>|][fiubU]\d{1,9})', 'fortran_order': False, "
    rb"'shape': \((|\d{1,18},|\d{1,18}(?:, \d{1,18}){1,7})\), \} *\n"
)
DAMAGE: tuple[type[Exception], ...] = (
    OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, RecursionError,
    OverflowError, zipfile.BadZipFile, NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip
"""The errors that reading a damaged or forged file may raise."""


class Header(NamedTuple):
    """The shape and type of an array that has not been read yet."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def size(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def header_of(array: AnyArray) -> Header:
    """The header of an array in memory."""
    return Header(array.shape, array.dtype)


def write_archive(
    path: Location,
    kind: str,
    version: int,
    about: Mapping[str, object],
    arrays: Mapping[str, object],
) -> None:
    """Write the arrays, and ``about`` as JSON, completely or not at all.

    ``kind`` and ``version`` say what the file is; ``read_archive`` compares them.
    """
    text = json.dumps({"kind": kind, "version": version} | dict(about))
    checksum = hashlib.sha256()
    with replacing(path) as file, zipfile.ZipFile(file, "w") as stored:
        for name, array in {ABOUT: np.array(text), **arrays}.items():
            _write(stored, name, np.asarray(array), checksum)
        _write(stored, CHECKSUM, np.array(checksum.hexdigest()), hashlib.sha256())


@contextmanager
def read_archive(path: Location, kind: str, *versions: int) -> Iterator[Archive]:
    """Open a file of this kind and one of these versions; anything that is wrong with it raises ``InputError``."""
    with opened(path) as file:
        try:
            archive = Archive(file)
        except DAMAGE as error:
            raise InputError(f"{path} is not a {kind}, or is damaged: {_said(error)}") from None
        said, version = archive.identity
        if said != kind:
            raise InputError(f"{path} is not a {kind}, but says that it is a {shown(said)}")
        if not isinstance(version, int) or version not in versions:
            known = " and ".join(map(str, versions))
            raise InputError(f"{path} has version {shown(version)} of a {kind}; this reads {known}")
        try:
            yield archive
        except DAMAGE as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is a damaged {kind}: {_said(error)}") from None


class Archive:
    """An open file: ``about``, the ``headers`` of its arrays, and the arrays on demand."""

    def __init__(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS:
            raise ValueError(f"it has {len(members)} parts")
        if any(m.compress_type or m.file_size != m.compress_size for m in members):
            raise ValueError("its parts are compressed")
        if sum(m.file_size for m in members) > size or any(m.file_size < 0 for m in members):
            raise ValueError("its parts are larger than the file")
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        if len(self._members) != len(members):
            raise ValueError("two of its parts have one name")
        self.headers = {name: self._header(name) for name in self._members}
        self.about: dict[str, Any] = json.loads(str(self._read(ABOUT, "U")[()]))
        if not isinstance(self.about, dict):
            raise ValueError("what it says about itself is no object")
        del self.headers[ABOUT]
        self._checked = self.headers.pop(CHECKSUM, None) is not None
        if "kind" in self.about and not self._checked:
            raise ValueError("its checksum is missing")

    @property
    def identity(self) -> tuple[object, object]:
        """Kind and version. Files of the first versions, all of them results, contain only a ``format``."""
        about = self.about
        return about.get("kind", FIRST_KIND), about.get("version", about.get("format"))

    def arrays(self) -> dict[str, AnyArray]:
        """All arrays, in the order of the file, checked against the checksum if there is one."""
        checksum = hashlib.sha256()
        found = {name: self._read(name, checksum=checksum) for name in (ABOUT, *self.headers)}
        if self._checked and str(self._read(CHECKSUM, "U")[()]) != checksum.hexdigest():
            raise ValueError("its arrays are not those that were saved")
        del found[ABOUT]
        return found

    def _header(self, name: str) -> Header:
        with self._zip.open(self._members[name]) as stream:
            return self._start(name, stream)

    def _start(self, name: str, stream: IO[bytes]) -> Header:
        """The header, whose size must agree with that of the member."""
        header, start = _header_of(stream)
        if header.size != self._members[name].file_size - start:
            raise ValueError(f"{shown(name)} does not have the size that it says")
        return header

    def _read(self, name: str, kinds: str = "fiubU", checksum: Hasher | None = None) -> AnyArray:
        with self._zip.open(self._members[name]) as stream:
            header = self._start(name, stream)
            if header.dtype.kind not in kinds:
                raise ValueError(f"{shown(name)} has dtype {header.dtype}")
            content = np.empty(header.size, dtype=np.uint8)
            read: int = cast(Any, stream).readinto(content.data)
            if read != header.size or stream.read(1):
                raise ValueError(f"{shown(name)} is cut short")
        if checksum is not None:
            checksum.update(f"{name} {header.dtype.str} {header.shape}\0".encode())
            checksum.update(content.data)
        if not content.size:
            return np.empty(header.shape, header.dtype)
        found = content.view(header.dtype).reshape(header.shape)
        return found.astype(header.dtype.newbyteorder("="), copy=False)


def _header_of(stream: IO[bytes]) -> tuple[Header, int]:
    """The header at the beginning of a .npy file, and the offset of the numbers."""
    start = stream.read(len(MAGIC) + 2)
    if len(start) != len(MAGIC) + 2 or not start.startswith(MAGIC):
        raise ValueError("a part is no array")
    length = int.from_bytes(start[-2:], "little")
    form = HEADER.fullmatch(stream.read(length))
    if form is None:
        raise ValueError("a part is no array of numbers or text")
    shape = tuple(int(number) for number in form[2].decode().split(",") if number)
    return Header(shape, np.dtype(form[1].decode())), len(start) + length


def _write(stored: zipfile.ZipFile, name: str, array: AnyArray, checksum: Hasher) -> None:
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind not in "fiubU":
        raise InputError(f"{name} must hold numbers or text to be saved, got {array.dtype}")
    checksum.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
    checksum.update(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
    with stored.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
        npy.write_array(stream, array, allow_pickle=False, version=(1, 0))


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
