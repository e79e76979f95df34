"""Engines carry rounds to clients: threads of this process, a Ray cluster, or a graphics card."""

from __future__ import annotations

from reshuffle.digests import digest
from reshuffle.engines.base import (
    Engine,
    Failure,
    Host,
    Plain,
    Record,
    Reply,
    Session,
    Task,
    balanced,
    checksum,
    open_session,
    size_of,
)
from reshuffle.engines.cuda import Cuda
from reshuffle.engines.ray import Ray
from reshuffle.engines.threads import Threads
from reshuffle.errors import InputError, shown

__all__ = [
    "Cuda",
    "Engine",
    "Failure",
    "Host",
    "Plain",
    "Ray",
    "Record",
    "Reply",
    "Session",
    "Task",
    "Threads",
    "balanced",
    "check_engine",
    "checksum",
    "digest",
    "open_session",
    "size_of",
]

ENGINES = {"threads": Threads, "ray": Ray, "cuda": Cuda}


def check_engine(engine: Engine | str) -> Engine:
    """An engine by its name, or an object with ``open``."""
    if isinstance(engine, str) and engine in ENGINES:
        made: Engine = ENGINES[engine]()
        return made
    if isinstance(engine, (str, type)) or not callable(getattr(engine, "open", None)):
        names = ", ".join(f'"{name}"' for name in ENGINES)
        raise InputError(f"engine must be {names} or an engine object, got {shown(engine)}")
    return engine


def check_available(engine: Engine) -> None:
    """Refuse an engine that cannot work on this computer, before any work."""
    device = getattr(engine, "device", None)
    if callable(device):
        device()
