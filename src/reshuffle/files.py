"""Files that a reader finds whole, the old one or the new one; and files that are read only where they are files.

Writing goes to a fresh temporary file beside the target, which nobody else can have made or opened, and which
takes the target's place when all of it has reached the disk. Its writer holds a lock on it: a temporary file
without one was left behind by a process that was killed, and the next writer of the same target removes it.
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
    """Put ``content`` in the place of ``path``, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


def write_csv(path: Location, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


@contextmanager
def replacing(path: Location) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of ``path`` at the end; an error inside leaves all as it was.

    A link at ``path`` is replaced, not followed. The permissions are those of the umask. What the system refuses
    (a full disk, a folder that is not there or cannot be written) is a ``FileError``.
    """
    target = Path(path)
    if not target.name or not _can_be(target):
        raise InputError(f"{str(path)!r} does not name a file")
    try:
        if not _replaceable(target):
            raise FileError(f"cannot write {target}: there is something that is not a file")
        _remove_litter(target)
        names: list[Path] = []  # known before there is such a file: a signal may come at any moment
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
    """A regular file to read: no folder, no device, no pipe that would make one wait."""
    try:
        number = os.open(path, WAITLESS)
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise FileError(f"cannot read {path}: {_reason(error)}") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileError(f"{path} is not a file")
    with os.fdopen(number, "rb") as file:
        yield file


def check_folder(folder: Location) -> None:
    """Refuse a folder in which no file could be written, before the work whose result is to go there.

    Nothing is made: where it is not there yet, the nearest folder above it is asked.
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
    """Refuse to write over a file that is read, which its owner would lose."""
    for source in sources:
        if os.path.exists(target) and os.path.exists(source) and os.path.samefile(target, source):
            raise FileError(f"cannot write {target}: {source} is read from it, and would be lost")


def _is_there(place: Path) -> bool:
    try:
        os.lstat(place)
    except FileNotFoundError:
        return False
    except NotADirectoryError:  # a file stands above it
        return False
    return True


def _can_be(target: Path) -> bool:
    """Whether the system can have a file of that name: without NUL, and in its own encoding."""
    try:
        return b"\0" not in os.fsencode(target)
    except UnicodeEncodeError:
        return False


def _replaceable(target: Path) -> bool:
    """Whether there is nothing yet, or a file, or a link (to whatever)."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _fresh(target: Path, names: list[Path]) -> BinaryIO:
    """A new file, locked, of a name that nobody can guess: the last of ``names``."""
    while True:
        names.append(target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp"))
        file = os.fdopen(os.open(names[-1], FRESH, 0o666), "w+b")
        _lock(file.fileno(), wait=True)
        if os.fstat(file.fileno()).st_nlink:  # else a cleaner came between the two lines above
            return file
        file.close()


def _remove_litter(target: Path) -> None:
    """Remove temporary files of this target that no living process writes."""
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
    """Whether the file is locked by us now; without locks (Windows) nothing is taken for litter."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # somebody writes it, or this file system has no locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """The new name reaches the disk too, where the system can be told so."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
