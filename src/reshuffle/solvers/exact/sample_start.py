"""Finds a start for a run on rows that lie on disk: the minimiser of a sample that fits into memory.

The sample is as large as a window, and made of random pieces of all shards. It takes a fraction of a pass over the files, and P at
its minimiser is off by about d/m of f(0), for m rows in the sample; an epoch from zero leaves more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.disk_datafit import DiskDatafit, on_disk
from reshuffle.errors import held_warnings
from reshuffle.objective import Array
from reshuffle.orders import ShardWindows
from reshuffle.problem import Problem
from reshuffle.randomness import generator

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

LOOSEST = 1e-6
"""The loosest accuracy on the sample: the sample itself differs from all rows by more than this; a smaller tol asks for more."""


class SampleStart(NamedTuple):
    """The start, and the number of gradients of single samples computed for it."""

    x: Array
    gradients: int


def sample_start(problem: Problem, solver: ExactProxRR) -> SampleStart:
    """The minimiser on a window of random pieces of the files."""
    fit = on_disk(problem.datafit)
    part = sample_of(fit, solver.seed)
    own = replace(
        solver, tol=max(solver.tol, LOOSEST), eval_every=None, check_every=None, time_limit=None
    )
    with held_warnings():  # they would concern the sample alone
        found = own.solve(problem.with_datafit(part))
    return SampleStart(found.x, int(found.trace.last()["gradients"]))


def sample_of(fit: DiskDatafit, seed: int) -> Datafit:
    """The samples of the first window of a random order, in memory."""
    order = ShardWindows(fit.rows.starts, fit.rows.window_rows)
    pieces = np.sort(order.groups(generator(seed, 0))[0])
    rows = np.concatenate([np.arange(fit.rows.starts[k], fit.rows.starts[k + 1]) for k in pieces])
    weights = fit.weights[rows] if fit.weights.size else fit.weights
    if weights.size and not weights.any():
        weights = weights[:0]
    offsets = fit.offsets[rows] if fit.offsets.size else fit.offsets
    return fit.in_memory(pieces.tolist(), fit.targets[rows], weights, offsets)
