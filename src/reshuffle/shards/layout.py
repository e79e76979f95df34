"""The layout of a folder of shards, version 1: ``manifest.json``, and the arrays of each shard as ``.npy`` files.

Shard k has k as five digits in the names of its files: ``00000.targets.npy``; for sparse rows ``00000.indptr.npy`` (uint64,
from 0), ``00000.indices.npy`` (uint32) and ``00000.values.npy``, which is left out if all values are 1; for dense
rows a matrix ``00000.values.npy``. The manifest has the size and the CRC-32 of every file.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from reshuffle.errors import FileError, InputError
from reshuffle.files import Location, opened, write_atomically

MANIFEST = "manifest.json"
FORMAT = "reshuffle shards"
VERSION = 1
LAYOUTS = ("csr", "dense")
NUMBERS = ("float64", "float32")
LARGEST = 64 << 20
"""The most bytes of a manifest that are read: a shard takes some 600 bytes, and a terabyte has some thousand shards."""


@dataclass(frozen=True)
class StoredFile:
    """One array of a shard."""

    name: str
    bytes: int
    crc32: int


@dataclass(frozen=True)
class Shard:
    """Some consecutive rows."""

    rows: int
    stored: int
    """The number of values, including values of 1 that are not written."""
    files: dict[str, StoredFile]
    """The files by the names of their arrays: targets, indptr, indices and values."""


@dataclass(frozen=True)
class Manifest:
    """The contents of a folder of shards."""

    layout: str
    """"csr" or "dense"."""
    number: str
    """The type of the values: "float64" or "float32"."""
    features: int
    shard_rows: int
    """Rows of every shard but the last."""
    shards: tuple[Shard, ...] = ()
    complete: bool = False
    """Whether the conversion has reached its end."""
    largest_square: float = 0.0
    """max_i ‖a_i‖²."""
    sum_of_squares: float = 0.0
    """Σ_i ‖a_i‖²."""
    classes: tuple[str, ...] = ()
    """Labels that are texts: the targets are then their numbers in this list."""
    names: tuple[str, ...] = ()
    """The columns of a table."""
    source: dict[str, Any] = field(default_factory=dict)
    """Where the rows come from, and where an interrupted conversion resumes."""

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def stored(self) -> int:
        return sum(shard.stored for shard in self.shards)

    @property
    def bytes(self) -> int:
        """The bytes of all arrays on disk."""
        return sum(file.bytes for shard in self.shards for file in shard.files.values())

    @property
    def row_bytes(self) -> int:
        return self.memory_of(self.stored, self.rows)

    def memory_of(self, stored: int, rows: int) -> int:
        """The bytes that rows with this many values take in memory, without their targets."""
        each = (0 if self.unit else np.dtype(self.number).itemsize) + (self.layout == "csr") * 4
        return each * stored + 8 * rows

    def part(self, first: int, last: int) -> Self:
        """The manifest of the shards from ``first`` to ``last`` alone; it gets a share of Σ_i ‖a_i‖² in proportion to its rows."""
        shards = self.shards[first:last]
        share = sum(shard.rows for shard in shards) / max(self.rows, 1)
        return replace(self, shards=shards, sum_of_squares=share * self.sum_of_squares)

    @property
    def unit(self) -> bool:
        """Whether all values are 1, and none is stored."""
        sparse = self.layout == "csr"
        return sparse and not any("values" in shard.files for shard in self.shards)


def is_shard_folder(path: Location) -> bool:
    """Whether this is a folder with a manifest, finished or not."""
    try:
        return (Path(path) / MANIFEST).is_file()
    except OSError:
        return False


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, either completely or not at all."""
    about = {"format": FORMAT, "version": VERSION} | asdict(manifest)
    write_atomically(folder / MANIFEST, json.dumps(about, indent=1).encode())


def read_manifest(folder: Location) -> Manifest:
    """The manifest of a folder; it is refused if its version is another one or its contents contradict each other."""
    path = Path(folder) / MANIFEST
    if not is_shard_folder(folder):
        raise InputError(
            f"{os.fspath(folder)} is no folder of shards: it has no {MANIFEST}. "
            "`reshuffle convert DATA FOLDER` makes one"
        )
    with opened(path) as file:
        text = file.read(LARGEST + 1)
    try:
        about = json.loads(text) if len(text) <= LARGEST else None
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or about.pop("format", None) != FORMAT:
        raise InputError(f"{path} is damaged, or not the manifest of a folder of shards")
    version = about.pop("version", None)
    if version != VERSION:
        raise InputError(
            f"{os.fspath(folder)} has version {version!r} of the layout of shards; this version of the package reads "
            f"version {VERSION}: convert the data again"
        )
    try:
        shards = tuple(_shard(shard) for shard in about.pop("shards"))
        about |= {name: tuple(map(str, about[name])) for name in ("classes", "names")}
        found = Manifest(shards=shards, **about)
        _check(found)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return found


def _shard(about: dict[str, Any]) -> Shard:
    files = {name: StoredFile(**file) for name, file in about["files"].items()}
    for file in files.values():
        if os.path.basename(file.name) != file.name or not file.name.endswith(".npy"):
            raise ValueError(f"{file.name!r} is not a name that a file of a shard can have")
    return Shard(int(about["rows"]), int(about["stored"]), files)


def _check(found: Manifest) -> None:
    if found.layout not in LAYOUTS or found.number not in NUMBERS:
        raise ValueError(f"layout {found.layout!r} of {found.number!r} is not known")
    wanted = {"targets", "values"} if found.layout == "dense" else {"targets", "indptr", "indices"}
    for number, shard in enumerate(found.shards):
        if not wanted <= set(shard.files) <= {"targets", "values", "indptr", "indices"}:
            raise ValueError(f"shard {number} has the arrays {sorted(shard.files)}")
        last = number == len(found.shards) - 1
        if not 0 < shard.rows <= found.shard_rows or (not last and shard.rows < found.shard_rows):
            raise ValueError(f"shard {number} has {shard.rows} rows of {found.shard_rows}")
    sizes = (found.features, found.shard_rows, *(shard.stored for shard in found.shards))
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError("sizes must be whole numbers")
    for name in ("largest_square", "sum_of_squares"):
        if not 0 <= float(getattr(found, name)) < np.inf:
            raise ValueError(f"{name} must be a number that is not negative")


@cache
def npy_header(kind: str, shape: tuple[int, ...]) -> bytes:
    """The header that numpy writes before an array."""
    about, out = {"descr": kind, "fortran_order": False, "shape": shape}, io.BytesIO()
    np.lib.format.write_array_header_1_0(out, about)
    return out.getvalue()


def check_present(folder: Path, manifest: Manifest) -> None:
    """Refuse a folder in which a file is missing or has the wrong size; no file is read for this."""
    for shard in manifest.shards:
        for file in shard.files.values():
            try:
                size = os.stat(folder / file.name).st_size
            except FileNotFoundError:
                raise FileError(f"{folder / file.name} is missing: {REMEDY}") from None
            if size != file.bytes:
                raise FileError(
                    f"{folder / file.name} has {size:,} bytes and should have {file.bytes:,}: {REMEDY}"
                )


REMEDY = (
    "copy the file from where the folder came from, or convert the data again into an empty folder"
)
"""The advice for a shard that is damaged or missing."""
