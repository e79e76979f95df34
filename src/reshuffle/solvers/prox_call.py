"""The prox as methods take it: where it is found by iterations, warm and no more exact than they need.

The state of such a run has ``warm``, what the iterations of the next prox begin with, and ``inner``, how many there
have been. Both are saved with it, so that neither equal runs differ nor a resumed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reshuffle.objective import Array, Objective
from reshuffle.penalties import ability
from reshuffle.penalties.inexact import COLD, Approximate

if TYPE_CHECKING:
    from reshuffle.solvers.method import State

SHARE = 0.3  # of the way from x to its prox: the error that is allowed, see benchmarks/NOTES.md
ATTEMPTS = 30  # at an accuracy that is relative to the answer: each is at least twice as exact
NAMES = ("warm", "inner")


def beginning(problem: Objective) -> State:
    """What the state of a run has for its prox before the first; nothing where the prox is direct."""
    if ability(problem.penalty, "prox_from") is None:
        return {}
    return {"warm": COLD.copy(), "inner": np.zeros(1)}


def kept(state: State) -> State:
    """The same of a state."""
    return {name: state[name] for name in NAMES if name in state}


def taken(
    problem: Objective, state: State, x: Array, point: Array, step: float, *, with_ridge: bool
) -> tuple[Array, State]:
    """The prox at ``point``, of a step that began at x, and what it leaves for the state."""
    if "warm" not in state:
        return (problem.prox_with_ridge if with_ridge else problem.prox)(point, step), {}
    found = close(problem, x, point, step, state["warm"], with_ridge=with_ridge)
    return found.point, {"warm": found.start, "inner": state["inner"] + found.iterations}


def close(
    problem: Objective, x: Array, point: Array, step: float, start: Array, *, with_ridge: bool
) -> Approximate:
    """A prox p with an error of at most SHARE·‖p - x‖, or as exact as it can be had.

    That is the relative error of hybrid proximal methods (Solodov, Svaiter, 1999): it falls as the run comes
    nearer to the minimiser, where p = x.
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


def columns(state: State) -> dict[str, float]:
    """For the trace."""
    return {"inner_iterations": float(state["inner"][0])} if "inner" in state else {}


def _length(x: Array) -> float:
    return float(np.sqrt(np.vdot(x, x)))
