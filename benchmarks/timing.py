"""Several contestants in one run: turn by turn, one thread, the best time of each."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Contestant = Callable[[], float]
"""Does its work once and returns the seconds that count."""

Name = TypeVar("Name")
PACKAGES = ("reshuffle", "numpy", "scipy", "scikit-learn", "cyanure", "skglm", "celer")


def timed(work: Callable[[], object]) -> Contestant:
    """The contestant whose seconds are those of the whole call."""

    def contestant() -> float:
        clock = time.perf_counter()
        work()
        return time.perf_counter() - clock

    return contestant


def spent(work: Callable[[], object]) -> Contestant:
    """The same in seconds of the processor, for a machine that does other things too."""

    def contestant() -> float:
        clock = time.process_time()
        work()
        return time.process_time() - clock

    return contestant


def interleaved(contestants: Mapping[Name, Contestant], rounds: int) -> dict[Name, float]:
    """The best seconds of each contestant; every round has all of them, so they share the noise.

    A first round that does not count warms up caches and compilers.
    """
    best = dict.fromkeys(contestants, float("inf"))
    with one_thread():
        for number in range(rounds + 1):
            for name, contestant in contestants.items():
                seconds = contestant()
                if number > 0:
                    best[name] = min(best[name], seconds)
    return best


def one_thread() -> AbstractContextManager[object]:
    """Limits BLAS and OpenMP to one thread; the kernels use no more anyway."""
    limits: AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits


def environment() -> dict[str, str]:
    """What the figures were measured with."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about = {"Python": platform.python_version(), "processor": _processor(), "cores": str(cores)}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            about[name] = version(name)
    return about


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()
