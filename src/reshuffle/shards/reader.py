"""Reading shards into buffers that belong to this process, the next window while the last one is used.

Files are read, not mapped. A mapped file that is cut ends the process with SIGBUS, and one that is overwritten changes
under a kernel that has checked it; of a read, both are errors that name the file. Every file is compared with its CRC-32
when it is first read, and again whenever its size, its time or its inode has changed.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import FileError
from reshuffle.rows import UNIT, Rows
from reshuffle.shards.layout import REMEDY, Manifest, Shard
from reshuffle.validation import read_only

PIECE = 8 << 20
"""Bytes that one call reads: large enough for the disk to read ahead, small enough that Ctrl-C is heard."""
NO_INDEX = read_only(np.empty(0, dtype=np.uint32))

Buffers = dict[str, NDArray[Any]]


class ShardReader:
    """The arrays of a folder's shards."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._seen: dict[str, tuple[int, int, int]] = {}
        self.bytes_read = 0
        """Of all files so far."""

    def targets(self) -> NDArray[np.float64]:
        """The targets of all rows, in memory."""
        out, start = np.empty(self.manifest.rows), 0
        for shard in self.manifest.shards:
            self._fill(shard, "targets", out[start : start + shard.rows])
            start += shard.rows
        return out

    def some_targets(self, number: int) -> NDArray[np.float64]:
        """The targets of one shard."""
        shard = self.manifest.shards[number]
        out = np.empty(shard.rows)
        self._fill(shard, "targets", out)
        return out

    def window(self, numbers: Sequence[int], buffers: Buffers | None = None) -> Rows:
        """The rows of these shards, one after the other; in ``buffers``, where these are given, until they are filled again."""
        buffers = {} if buffers is None else buffers
        shards = [self.manifest.shards[k] for k in numbers]
        rows = sum(shard.rows for shard in shards)
        if self.manifest.layout == "dense":
            values = _room(buffers, "values", (rows, self.manifest.features), self.manifest.number)
            start = 0
            for shard in shards:
                self._fill(shard, "values", values[start : start + shard.rows])
                start += shard.rows
            return Rows(read_only(values), NO_INDEX, NO_INDEX)
        stored, unit = sum(shard.stored for shard in shards), self.manifest.unit
        indices = _room(buffers, "indices", (stored,), "uint32")
        indptr = _room(buffers, "indptr", (rows + 1,), "uint64")
        values = UNIT if unit else _room(buffers, "values", (stored,), self.manifest.number)
        start = at = 0
        for shard in shards:
            part, last = slice(at, at + shard.stored), start + shard.rows
            self._fill(shard, "indices", indices[part])
            if not unit and "values" in shard.files:
                self._fill(shard, "values", values[part])
            elif not unit:
                values[part] = 1
            self._fill(shard, "indptr", indptr[start : last + 1])
            if indptr[start] != 0 or indptr[last] != shard.stored:
                raise FileError(self._damaged(shard.files["indptr"].name))
            indptr[start : last + 1] += np.uint64(at)
            start, at = last, part.stop
        if not shards:
            indptr[:] = 0
        return Rows(read_only(values), read_only(indices), read_only(indptr))

    def windows(self, groups: Sequence[Sequence[int]]) -> Iterator[Rows]:
        """The rows of each group of shards in turn. A thread reads the next group while this one is used.

        Two sets of buffers are filled by turns: the rows of a window are to be used before the next one is asked for.
        """
        slots: tuple[Buffers, Buffers] = ({}, {})
        with ThreadPoolExecutor(1, thread_name_prefix="shards") as pool:
            ahead = pool.submit(self.window, groups[0], slots[0]) if groups else None
            for k in range(len(groups)):
                rows = ahead.result() if ahead is not None else None
                more = k + 1 < len(groups)
                ahead = (
                    pool.submit(self.window, groups[k + 1], slots[(k + 1) % 2]) if more else None
                )
                if rows is not None:
                    yield rows

    # --- one file ------------------------------------------------------------------------------

    def _fill(self, shard: Shard, name: str, out: NDArray[Any]) -> None:
        """Read an array of a shard, refused where it is not as the manifest says."""
        stored = shard.files[name]
        path = self.folder / stored.name
        try:
            number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            raise FileError(f"{path} is missing: {REMEDY}") from None
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}", error.errno) from None
        try:
            stamp = _stamp(number)
            header = _header(out.dtype.str, out.shape)
            if stamp[0] != stored.bytes or len(header) + out.nbytes != stored.bytes:
                raise FileError(
                    f"{path} has {stamp[0]:,} bytes and should have {stored.bytes:,}: {REMEDY}"
                )
            fresh = self._seen.get(stored.name) != stamp
            found = os.pread(number, len(header), 0)
            check = zlib.crc32(found) if fresh else 0
            body = out.reshape(-1).view(np.uint8).data if out.size else memoryview(b"")
            done = 0
            while done < len(body):
                got = os.preadv(number, [body[done : done + PIECE]], len(header) + done)
                if not got:
                    break
                check = zlib.crc32(body[done : done + got], check) if fresh else 0
                done += got
            if done < len(body) or _stamp(number) != stamp:
                raise FileError(f"{path} was cut or changed while it was read: {REMEDY}")
            if found != header or (fresh and check != stored.crc32):
                raise FileError(self._damaged(stored.name))
            if fresh and out.dtype.kind == "f" and not np.isfinite(out).all():
                raise FileError(f"{path} holds NaN or infinity, which no model can use: {REMEDY}")
            self._seen[stored.name] = stamp
            self.bytes_read += stamp[0]
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"cannot read {path}: {error.strerror}", error.errno) from None
        finally:
            os.close(number)

    def _damaged(self, name: str) -> str:
        return f"{self.folder / name} is damaged: its content is not that which was written (CRC-32): {REMEDY}"

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "manifest": self.manifest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["folder"], state["manifest"])  # type: ignore[misc]


def _stamp(number: int) -> tuple[int, int, int]:
    """Size, time of the last change and inode of an open file."""
    about = os.fstat(number)
    return about.st_size, about.st_mtime_ns, about.st_ino


@cache
def _header(kind: str, shape: tuple[int, ...]) -> bytes:
    """What numpy writes before an array."""
    about, out = {"descr": kind, "fortran_order": False, "shape": shape}, io.BytesIO()
    np.lib.format.write_array_header_1_0(out, about)
    return out.getvalue()


def _room(buffers: Buffers, name: str, shape: tuple[int, ...], kind: str) -> NDArray[Any]:
    """An array of this shape in a buffer, which is made anew only where the old one is too small."""
    size, dtype = int(np.prod(shape)), np.dtype(kind)
    if name not in buffers or buffers[name].size < size or buffers[name].dtype != dtype:
        buffers[name] = np.empty(size, dtype=dtype)
    return buffers[name][:size].reshape(shape)
