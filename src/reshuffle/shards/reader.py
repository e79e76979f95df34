"""Reads shards into buffers of this process; a thread reads the next window while the last one is used.

Files are read, not mapped. If a mapped file is truncated, the process ends with SIGBUS; if it is overwritten, its contents change
after they were checked. When a file is read, both are errors that name it. Every file is compared with its CRC-32
when it is first read, and again whenever its size, its time or its inode has changed. The arrays are checked in memory,
after they were read and before the core uses them: indices that lie beyond the features are refused.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import FileError
from reshuffle.rows import UNIT, Rows
from reshuffle.shards.layout import REMEDY, Manifest, Shard, StoredFile, npy_header
from reshuffle.validation import read_only

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

PIECE = 8 << 20
"""Bytes that one call reads: enough for the disk to read ahead, few enough that Ctrl-C is noticed."""


class Buffers:
    """Reusable arrays by name; an array is made anew only if the old one is too small."""

    def __init__(self, empty: Callable[[int, np.dtype[np.generic]], Any] = np.empty) -> None:
        self._empty = empty
        self._arrays: dict[str, Any] = {}

    def room(self, name: str, shape: tuple[int, ...], kind: DTypeLike) -> Any:
        """An array of this shape, whose contents are arbitrary."""
        size, dtype = int(np.prod(shape)), np.dtype(kind)
        old = self._arrays.get(name)
        if old is None or old.size < size or old.dtype != dtype:
            self._arrays.pop(name, None)  # free its memory before the next one is made
            self._arrays[name] = self._empty(size, dtype)
        return self._arrays[name][:size].reshape(shape)


class Piece(NamedTuple):
    """Rows ``begin`` up to ``end`` of a shard."""

    shard: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


class ShardReader:
    """The arrays of a folder's shards."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._seen: dict[str, tuple[int, int, int]] = {}
        self.bytes_read = 0
        """The bytes that have been read from all files so far."""
        self._counting = Lock()
        self._checking: dict[str, Lock] = {}

    def targets(self, *shards: int) -> NDArray[np.float64]:
        """The targets of the rows of these shards, of all if none is named, in memory."""
        numbers = shards or range(len(self.manifest.shards))
        counts = [self.manifest.shards[k].rows for k in numbers]
        out, start = np.empty(sum(counts)), 0
        for k, count in zip(numbers, counts, strict=True):
            self._fill(k, "targets", out[start : start + count], 0)
            start += count
        return out

    def window(
        self, pieces: Sequence[Piece], buffers: Buffers | None = None, verify: bool = True
    ) -> Rows:
        """The rows of these pieces, one after the other. If ``buffers`` are given, the rows lie there until the buffers are filled again.

        Without ``verify`` files that were not read whole before are not compared with their checksums.
        """
        buffers, spans = Buffers() if buffers is None else buffers, _joined(pieces)
        rows, unit = sum(piece.rows for piece in spans), self.manifest.unit
        if self.manifest.layout == "dense":
            shape = (rows, self.manifest.features)
            values, start = buffers.room("values", shape, self.manifest.number), 0
            for piece in spans:
                self._fill(
                    piece.shard, "values", values[start : start + piece.rows], piece.begin, verify
                )
                start += piece.rows
            return Rows.of_dense(values)
        indptr = buffers.room("indptr", (rows + 1,), "uint64")
        firsts, stored = self._pointers(spans, indptr, verify)
        indices = buffers.room("indices", (stored,), "uint32")
        values = UNIT if unit else buffers.room("values", (stored,), self.manifest.number)
        row = 0
        for piece, first in zip(spans, firsts, strict=True):
            part = slice(int(indptr[row]), int(indptr[row + piece.rows]))
            self._fill(piece.shard, "indices", indices[part], first, verify)
            if not unit and "values" in self.manifest.shards[piece.shard].files:
                self._fill(piece.shard, "values", values[part], first, verify)
            elif not unit:
                values[part] = 1
            row += piece.rows
        return Rows(read_only(values), read_only(indices), read_only(indptr))

    def _pointers(
        self, spans: Sequence[Piece], out: AnyArray, verify: bool
    ) -> tuple[list[int], int]:
        """Fill in the starts of the rows of a window; returns the position of the first value of each span in its file, and the number of all values."""
        firsts, row, stored = list[int](), 0, 0
        out[0] = 0
        for piece in spans:
            own = out[row : row + piece.rows + 1]
            self._fill(piece.shard, "indptr", own, piece.begin, verify)
            first, last = int(own[0]), int(own[-1])
            if not 0 <= first <= last <= self.manifest.shards[piece.shard].stored:
                raise FileError(
                    self._damaged(self.manifest.shards[piece.shard].files["indptr"].name)
                )
            own -= np.uint64(first)
            own += np.uint64(stored)
            firsts.append(first)
            row, stored = row + piece.rows, stored + last - first
        return firsts, stored

    def windows(self, groups: Sequence[Sequence[Piece]]) -> Iterator[Rows]:
        """The rows of each group of pieces in turn. A thread reads the next group while this one is used.

        Two sets of buffers are filled by turns: the rows of a window must be used before the next window is asked for.
        """
        slots = Buffers(), Buffers()
        with ThreadPoolExecutor(1, thread_name_prefix="shards") as pool:
            reads = (
                pool.submit(self.window, group, slot)
                for group, slot in zip(groups, cycle(slots), strict=False)
            )
            ahead = next(reads, None)
            while ahead is not None:
                rows, ahead = ahead.result(), next(reads, None)
                yield rows

    # --- one file ------------------------------------------------------------------------------

    def _fill(self, shard: int, name: str, out: AnyArray, first: int, verify: bool = True) -> None:
        """Read entries (rows, of a matrix) of an array of a shard, from ``first`` on.

        A file that has changed since it was last compared with its checksum is read whole and compared again.
        """
        about = self.manifest.shards[shard]
        stored, shape = about.files[name], _shape(about, name, self.manifest.features)
        path, header = self.folder / stored.name, npy_header(out.dtype.str, shape)
        each = out.dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        with _opened(path) as number:
            stamp = _stamp(number)
            if stamp[0] != stored.bytes or len(header) + each * shape[0] != stored.bytes:
                raise FileError(
                    f"{path} has {stamp[0]:,} bytes and should have {stored.bytes:,}: {REMEDY}"
                )
            body = out.reshape(-1).view(np.uint8).data if out.size else memoryview(b"")
            fresh, whole = self._seen.get(stored.name) != stamp, len(body) == each * shape[0]
            if fresh and verify and not whole:
                with self._checking.setdefault(stored.name, Lock()):  # one thread checks for all
                    if self._seen.get(stored.name) != stamp:
                        self._verify(number, path, header, stored)
                        self._seen[stored.name] = stamp
            check = zlib.crc32(header)
            for done in range(0, len(body), PIECE):
                piece = body[done : done + PIECE]
                self._read(number, piece, len(header) + first * each + done, path)
                check = zlib.crc32(piece, check) if fresh and whole else check
            if fresh and whole:
                self._compare(number, header, check, stored)
            if _stamp(number) != stamp:
                raise FileError(f"{path} was changed while it was read: {REMEDY}")
            if fresh and out.dtype.kind == "f" and not np.isfinite(out).all():
                raise FileError(f"{path} holds NaN or infinity, which no model can use: {REMEDY}")
            if verify:
                self._seen[stored.name] = stamp

    def _read(self, number: int, out: memoryview, offset: int, path: Path) -> None:
        """Fill the whole buffer from a file."""
        done = 0
        while done < len(out):
            got = os.preadv(number, [out[done:]], offset + done)
            if not got:
                raise FileError(f"{path} was cut while it was read: {REMEDY}")
            done += got
        with self._counting:  # several threads read for a device
            self.bytes_read += done

    def _verify(self, number: int, path: Path, header: bytes, stored: StoredFile) -> None:
        scratch, check = bytearray(PIECE), 0
        for offset in range(0, stored.bytes, PIECE):
            piece = memoryview(scratch)[: min(PIECE, stored.bytes - offset)]
            self._read(number, piece, offset, path)
            check = zlib.crc32(piece, check)
        self._compare(number, header, check, stored)

    def _compare(self, number: int, header: bytes, check: int, stored: StoredFile) -> None:
        if check != stored.crc32 or os.pread(number, len(header), 0) != header:
            raise FileError(self._damaged(stored.name))

    def _damaged(self, name: str) -> str:
        return f"{self.folder / name} is damaged: its checksum (CRC-32) is not the one that was written: {REMEDY}"

    def __getstate__(self) -> dict[str, object]:
        return {"folder": self.folder, "manifest": self.manifest}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state["folder"], state["manifest"])  # type: ignore[misc]


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The number of an open file; errors of the system name it."""
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            yield number
        finally:
            os.close(number)
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path} is missing: {REMEDY}") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno) from None


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, with adjacent pieces of a shard joined."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1].shard == piece.shard and found[-1].end == piece.begin:
            found[-1] = found[-1]._replace(end=piece.end)
        else:
            found.append(piece)
    return found


def _shape(shard: Shard, name: str, features: int) -> tuple[int, ...]:
    if name in ("targets", "indptr"):
        return (shard.rows + (name == "indptr"),)
    sparse = "indptr" in shard.files
    return (shard.stored,) if sparse else (shard.rows, features)


def _stamp(number: int) -> tuple[int, int, int]:
    """Size, time of the last change and inode of an open file."""
    about = os.fstat(number)
    return about.st_size, about.st_mtime_ns, about.st_ino
