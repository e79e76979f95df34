"""The key of a site's noise, which outlives its processes: Flower starts a new process for every message, and a node may be restarted."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from reshuffle.engines import Task
from reshuffle.errors import InputError
from reshuffle.files import write_new
from reshuffle.privacy.noise import KEY, RepeatedNoise

NAME = "noise.key"
"""The file in the folder of a site's state."""


def kept_noise(folder: str | os.PathLike[str], task: Task) -> RepeatedNoise:
    """The noise of a site in the run of a task: a question that is asked twice gets the same answer, whichever process answers.

    Anyone who has the file and the answers of a site can remove the noise. The file stays at the site and is readable only by its
    owner. Every run, and every kind of work in a run, has its own noise.
    """
    path = Path(folder) / NAME
    try:
        key = _read(path) or _made(path)
    except OSError as error:
        raise InputError(
            f"state of the node configuration must be a folder in which a key can be kept: {error.strerror}"
        ) from None
    return RepeatedNoise(key).of(f"{task.run} {task.more.get('setup', '')}")


def _read(path: Path) -> bytes | None:
    if not path.exists():
        return None
    found = path.read_bytes()
    if len(found) != KEY // 8:
        raise InputError(
            f"the file {NAME} of its state has {len(found)} bytes, and a key has {KEY // 8}: remove it"
        )
    return found


def _made(path: Path) -> bytes:
    """Make a new key. If two processes make one at the same time, one of them wins and both read its key."""
    key = secrets.token_bytes(KEY // 8)
    own = path.with_name(f"{NAME}.{secrets.token_hex(8)}")
    write_new(own, key)
    try:
        os.link(own, path)
    except FileExistsError:
        return path.read_bytes()
    finally:
        own.unlink()
    return key
