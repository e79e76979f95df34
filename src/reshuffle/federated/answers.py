"""What a client says of its losses at a point: sums over its samples, and nothing of a single one."""

from __future__ import annotations

from typing import cast

import numpy as np

from reshuffle.engines import Plain
from reshuffle.objective import Array, FiniteSum
from reshuffle.problem import Problem

ARRAYS = ("gradient", "rising")
"""What clients say that is as long as a model: added up where a server keeps sums only."""


def answers(problem: FiniteSum, wanted: str, x: Array) -> dict[str, Plain]:
    """What a client says of f_m at x: all of it means over its samples.

    ``value``: f_m(x). ``gradient``: ∇f_m(x) without the ridge. ``rising``: that of the samples whose slope is
    positive, and by how much their losses are above their infimum. ``floor``: the mean of l*(0, y_i), less the infimum
    of the losses. ``means``: those of the features.
    """
    found: dict[str, Plain] = {}
    words = wanted.split()
    if "value" in words:
        found["value"] = float(problem.value(x))
    if "gradient" in words:
        gradient = problem.gradient(x)
        gradient[: problem.features] -= problem.ridge * x[: problem.features]
        found["gradient"] = gradient
    if {"rising", "floor", "means"} & set(words):
        found |= _of_rows(cast(Problem, problem), words, x)
    return found


def _of_rows(problem: Problem, words: list[str], x: Array) -> dict[str, Plain]:
    """The parts of an answer that a generalised linear model alone can give."""
    fit, found = problem.datafit, dict[str, Plain]()
    if "rising" in words:
        slopes = np.maximum(fit.slopes(x)[0], 0.0)
        zero, rising = np.zeros(slopes.shape), fit.combined(slopes)
        # l(z) = z·s - l*(s), summed over the samples whose slope is positive: the others add l*(0) to both sums
        conjugates = fit.conjugates(slopes, 1.0) - fit.conjugates(zero, 1.0)
        found["rising"] = rising
        found["rising_excess"] = float(np.vdot(x, rising)) - conjugates / fit.n
    if "floor" in words:
        found["floor"] = fit.conjugates(np.zeros((fit.n, *fit.outputs)), 1.0) / fit.n
    if "means" in words:
        found["means"] = fit.column_means()
    return found
