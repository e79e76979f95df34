"""Computes one prox of a method. A prox that is found by iterations has a warm start, and is only as exact as the method needs.

The state of the run then has ``warm``, the start of the next prox, and ``inner``, the number of iterations so far. Both are
saved, so that a resumed run has the bits of an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reshuffle.arrays import AnyArray, Array
from reshuffle.objective import Objective
from reshuffle.penalties import ability
from reshuffle.penalties.inexact import COLD, Approximate

if TYPE_CHECKING:
    from reshuffle.solvers.method import State

SHARE = 0.3
"""The error that a prox may have, as a share of the distance from x to it (benchmarks/NOTES.md has the measurements)."""
ATTEMPTS = 30
"""The most calls with a target relative to the unknown answer; each call is at least twice as exact as the last."""


class WarmStart(NamedTuple):
    """The start that the iterations of one prox leave for the next one."""

    start: Array
    iterations: float = 0.0
    """The iterations of all proxes of the run so far."""

    def arrays(self) -> State:
        """The arrays that a run saves of the warm start."""
        return {"warm": self.start, "inner": np.array([self.iterations])}

    @classmethod
    def of(cls, arrays: Mapping[str, AnyArray]) -> WarmStart | None:
        """The warm start of a saved state; ``None`` if the prox is direct."""
        return cls(arrays["warm"], float(arrays["inner"][0])) if "warm" in arrays else None


def cold(problem: Objective) -> WarmStart | None:
    """The warm start before the first prox; ``None`` if the prox is direct."""
    return None if ability(problem.penalty, "prox_from") is None else WarmStart(COLD.copy())


def taken_from(
    problem: Objective, warm: WarmStart | None, x: Array, point: Array, step: float, *, with_ridge: bool
) -> tuple[Array, WarmStart | None]:  # fmt: skip
    """The prox at ``point``, for a step that began at x, and the warm start of the next prox."""
    if warm is None:
        return (problem.prox_with_ridge if with_ridge else problem.prox)(point, step), None
    found = close(problem, x, point, step, warm.start, with_ridge=with_ridge)
    return found.point, WarmStart(found.start, warm.iterations + found.iterations)


def saved(warm: WarmStart | None) -> State:
    """The arrays of the warm start, for methods whose state is a dict of arrays; none if the prox is direct."""
    return {} if warm is None else warm.arrays()


def columns(state: State) -> dict[str, float]:
    """The column of the trace that counts the iterations."""
    return {"inner_iterations": float(state["inner"][0])} if "inner" in state else {}


# --- the accuracy ----------------------------------------------------------------------------------


def close(
    problem: Objective, x: Array, point: Array, step: float, start: Array, *, with_ridge: bool
) -> Approximate:
    """A prox p with an error of at most SHARE·‖p - x‖, or as exact as possible.

    This is the relative error of hybrid proximal methods (Solodov, Svaiter, 1999): it falls as the run approaches
    the minimiser, where p = x.
    """
    gap, iterations = 0.5 * (SHARE * _length(point - x)) ** 2, 0
    for _ in range(ATTEMPTS):
        found = problem.prox_from(point, step, start, gap, with_ridge=with_ridge)
        iterations += found.iterations
        allowed = 0.5 * (SHARE * _length(found.point - x)) ** 2
        if not allowed < found.gap or found.gap > gap:
            break
        gap, start = 0.5 * allowed, found.start
    return found._replace(iterations=iterations)


def _length(x: Array) -> float:
    return float(np.sqrt(np.vdot(x, x)))
