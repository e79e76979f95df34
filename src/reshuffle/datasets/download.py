"""Downloads one file over HTTP: interrupted downloads are resumed, the file is checked, and it is complete or absent."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request

from reshuffle.datasets.address import Refused, check_address, opener
from reshuffle.errors import InputError
from reshuffle.files import write_atomically

PIECE = 1 << 16  # Bytes read between two updates of the progress bar and checks of the time limit.
ATTEMPTS = 3
PAUSE = 1.0  # Seconds between the first two attempts; each further pause is twice as long.
TEMPORARY = (408, 416, 425, 429)  # Status codes after which another attempt may succeed.

logger = logging.getLogger("reshuffle")


class Bounds(NamedTuple):
    """The limits of a download."""

    most: int
    timeout: float
    end: float

    def check(self, size: int) -> None:
        """Refuse more bytes than the file can have, and a download that takes too long."""
        if size > self.most:
            raise Refused(f"it has more than {self.most:,} bytes, the most that this file can have")
        if time.monotonic() > self.end:
            raise Refused("it takes longer than its time limit")


Advance = Callable[[int, int | None], None]
"""A function that is told the bytes received so far, and their total if the server says it."""


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    check: Callable[[Path], None] = lambda path: None,
    most: int = 1 << 30,
    progress: bool = False,
    timeout: float = 30.0,
    longest: float = 3600.0,
) -> None:
    """Put the file at ``url`` into ``target``, and its sha256 into a JSON file beside it.

    What has arrived is kept in ``target``.part: a further attempt, or a later call, asks for the
    rest only. A file whose ``sha256`` is not known is kept only if ``check`` does not refuse it. ``timeout`` is that of
    connecting and of each wait for data, ``longest`` that of all together, in seconds; ``most`` bounds the bytes.
    """
    check_address(url)
    part, end = beside(target, ".part"), time.monotonic() + longest
    with _alone(target.parent):
        if target.is_file():  # Another process has downloaded it meanwhile.
            return
        with _bar(target.name, progress) as advance:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    _receive(url, part, sha256 is not None, Bounds(most, timeout, end), advance)
                    break
                except Refused as error:
                    _forget(part)
                    raise InputError(f"cannot download {url}: {error}; nothing was kept") from None
                except (OSError, HTTPException, ValueError) as error:
                    if attempt == ATTEMPTS or not _may_pass(error):
                        raise InputError(_failure(url, target, error)) from None
                    time.sleep(PAUSE * 2 ** (attempt - 1))
        digest = digest_of(part)
        if sha256 is not None and digest != sha256:
            _forget(part)
            raise InputError(
                f"{url} has sha256 {digest}, not {sha256} as it should: the file was damaged on its "
                "way, or is another one now. It was not kept; try again"
            )
        if sha256 is None:
            _accept(url, part, check, digest)
        record = {
            "url": url, "bytes": part.stat().st_size, "sha256": digest,
            "first_seen": time.strftime("%Y-%m-%d", time.gmtime()), "pinned": sha256 is not None,
        }  # fmt: skip
        write_atomically(beside(target, ".json"), json.dumps(record, indent=1).encode())
        os.replace(part, target)
        beside(part, ".version").unlink(missing_ok=True)


def _accept(url: str, part: Path, check: Callable[[Path], None], digest: str) -> None:
    """Accept a file whose sha256 is unknown after checking its content, and log that."""
    try:
        check(part)
    except InputError as error:
        _forget(part)
        raise InputError(
            f"{url} is not what the catalogue says: {error}. It was not kept; try again, or another address"
        ) from None
    logger.warning(
        "no sha256 is known for %s: shape and classes fit, and it is taken as it came, with the sha256 %s. "
        "It will have to keep that one",
        url, digest,
    )  # fmt: skip


def recorded(target: Path) -> str | None:
    """The sha256 that ``download`` recorded beside the file."""
    try:
        return str(json.loads(beside(target, ".json").read_text())["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def digest_of(path: Path) -> str:
    """sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def beside(path: Path, ending: str) -> Path:
    """The path of the file with a suffix added to its name."""
    return path.with_name(path.name + ending)


def _receive(url: str, part: Path, checked: bool, bounds: Bounds, advance: Advance) -> None:
    """Write the file, or the rest of it, into ``part``; raises ``OSError`` if the body ends too early."""
    if part.is_symlink() or (part.exists() and not part.is_file()):
        _forget(part)
    have = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": "reshuffle", "Accept-Encoding": "identity"}
    version = _read(beside(part, ".version"))
    if have and (version or checked):  # Otherwise two versions of a file could be joined.
        headers["Range"] = f"bytes={have}-"
        if version:
            headers["If-Range"] = version
    try:
        response: HTTPResponse = opener().open(
            Request(url, headers=headers), timeout=bounds.timeout
        )
    except HTTPError as error:
        if error.code == 416:
            _forget(part)  # The server has no more bytes than we have: the part is of another file.
        raise
    with response:
        resumed = response.status == 206
        if resumed and not _continues(response, have, version):
            _forget(part)
            raise ConnectionError("the server sent another piece of the file than it was asked for")
        have = have if resumed else 0
        length = response.headers["Content-Length"]
        total = have + int(length) if length else None
        bounds.check(total or have)
        if not resumed:
            write_atomically(beside(part, ".version"), _version(response).encode())
        with _opened(part, resumed) as file:
            advance(have, total)
            # read1 returns what has arrived, so that the time limit is checked.
            while piece := response.read1(PIECE):
                bounds.check(have + len(piece))
                file.write(piece)
                have += len(piece)
                advance(have, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and have != total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _continues(response: HTTPResponse, have: int, version: str) -> bool:
    """Whether the reply continues our part: it begins at its end and is of the same version of the file."""
    where = response.headers["Content-Range"] or ""
    return where.startswith(f"bytes {have}-") and _version(response) in (version, "")


def _opened(part: Path, more: bool) -> BinaryIO:
    """The file to write to; a symbolic link is refused."""
    how = os.O_APPEND if more else os.O_TRUNC
    flags = os.O_WRONLY | os.O_CREAT | how | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(part, flags, 0o666), "ab" if more else "wb")


def _version(response: HTTPResponse) -> str:
    """The value of ``If-Range``: a strong entity tag, or the time of the last change."""
    tag = response.headers["ETag"] or ""
    return tag if tag.startswith('"') else response.headers["Last-Modified"] or ""


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() and not path.is_symlink() else ""


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    beside(part, ".version").unlink(missing_ok=True)


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, HTTPError):
        return error.code >= 500 or error.code in TEMPORARY
    return not isinstance(error, ValueError)  # The address is invalid.


def _failure(url: str, target: Path, error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    code = f"HTTP {error.code}, " if isinstance(error, HTTPError) else ""
    return (
        f"cannot download {url} ({code}{reason}). Try again: what has arrived is kept and the "
        f"download goes on from there. Or put the file {target.name} into a folder of yours and "
        "name that folder in the environment variable RESHUFFLE_DATA"
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A lock: one process at a time downloads into a folder, others wait."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = os.open(folder / ".lock", flags, 0o666)
    except OSError as error:
        raise InputError(
            f"cannot write into {folder} ({error}); name another folder in RESHUFFLE_CACHE"
        ) from None
    with os.fdopen(number, "rb") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _bar(title: str, shown: bool) -> Iterator[Advance]:
    if not shown or find_spec("rich") is None:
        yield lambda have, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    from rich.progress import TransferSpeedColumn as Speed

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), Speed())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda have, total: bar.update(task, completed=have, total=total)
