"""A live line about a fit: epoch, objective, certificate, coefficients in use, time left."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager

import numpy as np

from reshuffle.trace import Result


class LiveLine(AbstractContextManager["LiveLine"]):
    """A callback that shows the line on standard error if that is a terminal."""

    def __init__(self, features: int, tol: float, shown: bool) -> None:
        from rich.console import Console

        self.features, self.tol = features, tol
        self._console = Console(stderr=True, quiet=not shown)
        self._status = self._console.status("reading the data")
        self._start = time.perf_counter()

    def __enter__(self) -> LiveLine:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, result: Result) -> None:
        if self._console.is_terminal and not self._console.quiet:
            self._status.update(self.text(result, time.perf_counter() - self._start))

    def text(self, result: Result, elapsed: float) -> str:
        measure = "gap" if "gap" in result.trace else "relative_mapping"
        known = result.trace[measure] if measure in result.trace else np.empty(0)
        known = known[~np.isnan(known)]
        used = np.count_nonzero(np.any(np.atleast_2d(result.x[: self.features].T) != 0, axis=0))
        parts = [f"epoch {result.epoch}", f"P = {result.trace.last()['objective']:.6g}"]
        if known.size:
            parts.append(f"{measure.partition('_')[2] or measure} {known[-1]:.1e} → {self.tol:.0e}")
        parts.append(f"{used:,}/{self.features:,} features")
        left = seconds_left(known, self.tol, elapsed)
        if left is not None:
            parts.append(f"{told_seconds(left)} left")
        return " · ".join(parts)


def seconds_left(known: Iterable[float], tol: float, elapsed: float) -> float | None:
    """The estimated time to ``tol``, if the certificate keeps falling at its present rate."""
    good = [value for value in known if 0 < value < math.inf]
    if len(good) < 2 or tol <= 0 or good[-1] >= good[0]:
        return None
    to_go = math.log(good[-1] / tol)
    return max(0.0, elapsed * to_go / math.log(good[0] / good[-1]))


def told_seconds(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
