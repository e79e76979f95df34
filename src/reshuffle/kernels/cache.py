"""Where numba keeps compiled kernels, on machines too where neither the package nor the home can be written.

numba keeps them in NUMBA_CACHE_DIR, beside the sources or in the user's cache, whichever can be written first, and
refuses to compile where none can. Then a folder of this process's own stands in: made fresh, open to nobody else,
removed at the end. It begins with the kernels that are there to be read, of an image that was built with them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numba
from numba import njit

from reshuffle.errors import CacheWarning, warn_user

config: Any = numba.config

ADVICE = (
    "compiled kernels can be kept neither beside the package nor in the home: {}, and the next process compiles them "
    "again. Set NUMBA_CACHE_DIR to a folder that can be written, or that was filled before"
)

OWN: list[str] = []
"""The folder of this process's own, where one stands in."""


def _probe() -> None:
    """Never compiled: asked where it would be kept."""


def _kept_in() -> Path | None:
    """The folder in which numba keeps the kernels of this package; ``None`` where it finds none."""
    try:
        kernel: Any = njit(cache=True)(_probe)
        return Path(kernel.stats.cache_path)
    except RuntimeError:  # 'cannot cache function'
        return None


def lasting() -> bool:
    """Whether what is compiled now is found by the next process."""
    place = _kept_in()
    return place is not None and not any(map(place.is_relative_to, OWN))


def can_keep() -> bool:
    """Whether kernels can be compiled with a cache, after making a place for one where there is none."""
    if _kept_in() is not None:
        return True
    filled = [Path(config.CACHE_DIR)] if config.CACHE_DIR else []
    try:
        folder = tempfile.mkdtemp(prefix="reshuffle-kernels-")  # 0700
    except OSError:
        warn_user(ADVICE.format("they are compiled for this process alone"), CacheWarning)
        return False
    atexit.register(_remove, folder, os.getpid())
    config.CACHE_DIR = folder
    OWN.append(folder)
    place = _kept_in()
    if place is None:
        return False
    filled = [path / place.name for path in filled] + [Path(__file__).parent / "__pycache__"]
    if not any(_copy(path, place) for path in filled):
        warn_user(ADVICE.format(f"{folder} keeps them until this process ends"), CacheWarning)
    return True


def _copy(filled: Path, place: Path) -> bool:
    """Whether there were kernels to copy."""
    try:
        found = [path for path in filled.iterdir() if path.suffix in (".nbi", ".nbc")]
        for path in found:
            shutil.copyfile(path, place / path.name)
    except OSError:
        return False
    return bool(found)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)
