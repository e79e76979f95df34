"""Atomic writing, after which a reader finds either the old file or the new one, complete; and reading of regular files only.

A new temporary file is written beside the target; nobody else can have made or opened it, and it replaces the
target when all of it has reached the disk. Its writer holds a lock on it: a temporary file without a lock was
left behind by a process that was killed, and the next writer of the same target removes it.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from reshuffle.errors import FileError, InputError

Location = str | os.PathLike[str]
NAME = 180
"""The name of a temporary file holds at most this many bytes of its target's name; file systems allow 255 in all."""
FRESH = (
    os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
WAITLESS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def write_atomically(path: Location, content: bytes) -> None:
    """Replace the file at ``path`` by ``content``, completely or not at all."""
    with replacing(path) as file:
        file.write(content)


def write_new(path: Location, content: bytes, mode: int = 0o600) -> None:
    """Write a file that is not there yet; from the moment it exists it has this mode, so that nobody else reads a secret in it."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise InputError(f"{path} is there already; keys are not overwritten") from None
    with os.fdopen(number, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_csv(path: Location, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, completely or not at all."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


@contextmanager
def replacing(path: Location) -> Iterator[BinaryIO]:
    """A file to write, which replaces ``path`` at the end; an error inside leaves everything as it was.

    A link at ``path`` is replaced, not followed. The permissions are those of the umask. If the system refuses
    (a full disk, a folder that does not exist or cannot be written), a ``FileError`` is raised.
    """
    target = Path(path)
    if not target.name or not _can_be(target):
        raise InputError(f"{str(path)!r} does not name a file")
    try:
        if not _replaceable(target):
            raise FileError(f"cannot write {target}: it exists and is not a regular file")
        _remove_litter(target)
        # The list exists before the file does, since a signal may come at any moment.
        names = list[Path]()
        try:
            with _fresh(target, names) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(names[-1], target)
        except BaseException:
            for name in names:
                with contextlib.suppress(OSError):
                    name.unlink()
            raise
        _sync_folder(target.parent)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {target}: {_reason(error)}", error.errno) from None


@contextmanager
def opened(path: Location) -> Iterator[BinaryIO]:
    """Open a regular file for reading; folders, devices and pipes, which could block, are refused."""
    try:
        number = os.open(path, WAITLESS)
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}") from None
    except (OSError, ValueError) as error:  # A name that contains NUL raises ValueError.
        raise FileError(f"cannot read {path}: {_reason(error)}") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileError(f"{path} is not a file")
    with os.fdopen(number, "rb") as file:
        yield file


def check_folder(folder: Location) -> None:
    """Refuse a folder in which no file can be written, before the work whose result should go there.

    Nothing is created: if the folder does not exist yet, the nearest existing folder above it is checked.
    """
    place = Path(folder).absolute()
    try:
        while not _is_there(place):
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{place} is not a folder")
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{place} cannot be written")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write in {folder}: {_reason(error)}") from None


def check_apart(target: Location, *sources: Location) -> None:
    """Refuse to overwrite a file that is being read, which would be lost."""
    for source in sources:
        if os.path.exists(target) and os.path.exists(source) and os.path.samefile(target, source):
            raise FileError(f"cannot write {target}: {source} is read from it, and would be lost")


def _is_there(place: Path) -> bool:
    try:
        os.lstat(place)
    except FileNotFoundError:
        return False
    except NotADirectoryError:  # A part of the path above it is a file.
        return False
    return True


def _can_be(target: Path) -> bool:
    """Whether a file can have that name: without NUL, and in the system's encoding."""
    try:
        return b"\0" not in os.fsencode(target)
    except UnicodeEncodeError:
        return False


def _replaceable(target: Path) -> bool:
    """Whether the path is free, a file, or a link (to anything)."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _fresh(target: Path, names: list[Path]) -> BinaryIO:
    """A new, locked file with an unguessable name, which is appended to ``names``."""
    while True:
        names.append(target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp"))
        file = os.fdopen(os.open(names[-1], FRESH, 0o666), "w+b")
        _lock(file.fileno(), wait=True)
        # Another process may have removed it between the two lines above.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _remove_litter(target: Path) -> None:
    """Remove temporary files of this target that no living process is writing."""
    prefix = _prefix(target)
    with os.scandir(target.parent) as entries:
        names = [e.name for e in entries if e.name.startswith(prefix) and e.name.endswith(".tmp")]
    for name in names:
        left = target.parent / name
        with contextlib.suppress(OSError):
            number = os.open(left, WAITLESS | getattr(os, "O_NOFOLLOW", 0))
            try:
                if stat.S_ISREG(os.fstat(number).st_mode) and _lock(number, wait=False):
                    left.unlink()
            finally:
                os.close(number)


def _prefix(target: Path) -> str:
    return f".{os.fsencode(target.name)[:NAME].decode(sys.getfilesystemencoding(), 'ignore')}."


def _lock(number: int, *, wait: bool) -> bool:
    """Whether we now hold a lock on the file; on systems without locks (Windows) nothing is removed as litter."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # Another process is writing it, or this file system has no locks.
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Ask the system to write the folder's entry to disk as well, if it can."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
