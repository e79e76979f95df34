"""Ending a run when the loss of held-out rows no longer falls."""

from __future__ import annotations

from math import ceil

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.problem import Problem
from reshuffle.randomness import generator
from reshuffle.trace import Result
from reshuffle.validation import check_positive

HOLD_OUT = 11
"""The stream of random numbers that draws held-out rows; epochs use stream 0."""


def held_out(
    n: int, codes: AnyArray | None, fraction: object, seed: int
) -> tuple[AnyArray, AnyArray]:
    """Rows to learn from and rows to watch: this fraction of each class, but never all of one."""
    if not (isinstance(fraction, (float, np.floating)) and 0 < fraction < 1):
        raise InputError(f"validation_fraction must lie between 0 and 1, got {fraction!r}")
    rng = generator(seed, HOLD_OUT)
    kinds = np.zeros(n, dtype=np.intp) if codes is None else codes
    watched = np.zeros(n, dtype=bool)
    for kind in np.argsort(-np.bincount(kinds), kind="stable"):  # The largest class comes first.
        rows = rng.permutation(np.flatnonzero(kinds == kind))
        count = round(float(fraction) * rows.size) if watched.any() else ceil(fraction * rows.size)
        watched[rows[: min(count, rows.size - 1)]] = True
    if not watched.any():
        raise InputError(f"early_stopping needs rows to hold out, got n_samples={n}")
    return np.flatnonzero(~watched), np.flatnonzero(watched)


class Watch:
    """A callback that stops after ``patience`` epochs without a lower mean loss of the held-out rows.

    ``x`` is the point at which that loss was lowest.
    """

    def __init__(self, problem: Problem, patience: int) -> None:
        check_positive("n_iter_no_change", patience, integer=True)
        self.problem, self.patience = problem, int(patience)
        self.losses: list[float] = []
        self.best, self.x = np.inf, np.zeros(problem.shape)

    def __call__(self, result: Result) -> bool:
        loss = self.problem.value(result.x)
        self.losses.append(loss)
        if loss < self.best:
            self.best, self.x = loss, result.x.copy()
        return len(self.losses) - 1 - int(np.argmin(self.losses)) >= self.patience
