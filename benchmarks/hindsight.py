"""The largest tolerance with which somebody's stopping rule gives what is wanted: chosen with hindsight, for all alike."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from benchmarks.timing import one_thread

T = TypeVar("T")
TOLERANCES = 10.0 ** -np.arange(1.0, 13.0)


def cheapest(
    run: Callable[[float], T], good: Callable[[T], bool], patience: float
) -> Callable[[], T] | None:
    """``run`` at the largest tolerance whose outcome is good; None where it has none.

    After a run of more than ``patience`` seconds no smaller tolerance is tried.
    """
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        for tol in TOLERANCES:
            clock = time.perf_counter()
            if good(run(tol)):
                return partial(run, tol)
            if time.perf_counter() - clock > patience:
                return None
    return None
