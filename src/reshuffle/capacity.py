"""Sizes that cannot be: refused with their bytes, before the machine is brought down by them."""

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
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),  # of the first version
)
ANYWHERE = 1 << 20
"""Every machine has this many bytes. Asking how many are free takes longer than a tiny fit, and is left out below it."""


def memory() -> int:
    """Bytes that this process can have at most: of the machine, of its container, of its own limit."""
    limits = [sys.maxsize]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in CGROUP:
        with suppress(OSError, ValueError):  # there is none, or it says "max"
            limits.append(int(path.read_text()))
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [limit] if limit != resource.RLIM_INFINITY else []
    return min(limits)


def check_room(what: str, needed: int) -> None:
    """Refuse what is larger than all memory there is."""
    if needed <= ANYWHERE:
        return
    have = memory()
    if needed > have:
        raise InputError(f"{what} takes {needed:,} bytes, and there are {have:,} here")


def check_unknown(shape: tuple[int, ...]) -> None:
    """Refuse an unknown that is too large for any run."""
    check_room(f"x of shape {shape}, {LEAST} times at least,", 8 * LEAST * prod(shape))
