"""Refuses sizes beyond the machine's memory before anything is allocated; the error gives the bytes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from math import prod
from pathlib import Path

from reshuffle.errors import InputError

LEAST = 4
"""A run holds at least this many vectors of the size of x: the start, the state, the next state, and the point of a prox."""
CGROUP = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),  # The file of control groups, version 1.
)
ANYWHERE = 1 << 20
"""Sizes up to this many bytes are not checked: every machine has them, and querying the memory takes longer than a tiny fit."""


def memory() -> int:
    """The most bytes that this process can have: the least of the limits of the machine, its container and itself."""
    limits = [sys.maxsize]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in CGROUP:
        with suppress(OSError, ValueError):  # There is no such file, or it says "max".
            limits.append(int(path.read_text()))
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [limit] if limit != resource.RLIM_INFINITY else []
    return min(limits)


def check_room(what: str, needed: int) -> None:
    """Refuse what needs more than all available memory."""
    if needed <= ANYWHERE:
        return
    have = memory()
    if needed > have:
        raise InputError(f"{what} takes {needed:,} bytes, but this process can have {have:,}")


def check_unknown(shape: tuple[int, ...]) -> None:
    """Refuse an unknown that is too large for any run."""
    check_room(f"x of shape {shape}, {LEAST} times at least,", 8 * LEAST * prod(shape))
