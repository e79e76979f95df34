"""Checks that a prox minimises what it should; if it does not, names the common mistake that explains it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Array
from reshuffle.penalties import Able, Penalty, weak_convexity
from reshuffle.testing.failure import CheckFailed

STEPS = (0.3, 1.0, 2.7)
"""Steps at which the prox is tried: 1, at which a forgotten step does not show, and two others."""
MISTAKES: dict[tuple[float, int], str] = {
    (1.0, 0): "forgot its step: it is the prox at step = 1 whatever step it is given. "
    "Multiply the strength of the penalty by step",
    (1.0, -1): "divides by its step: it is the prox at 1/step. "
    "Multiply the strength of the penalty by step instead",
    (1.0, 2): "takes its step twice: it is the prox at step². Multiply the strength by step once",
    (2.0, 1): "shrinks twice as much as value(x) asks for: it is the prox at 2·step. "
    "Is there a factor ½ in value, or is it missing in the prox?",
    (0.5, 1): "shrinks half as much as value(x) asks for: it is the prox at step/2. "
    "Is there a factor ½ in the prox, or is it missing in value?",
    (0.0, 1): "does nothing: it returns x",
}
"""Common mistakes in a prox, each under the (factor, power) with which the point would be right for factor·step^power."""


class TriedPenalty(NamedTuple):
    """A penalty, and where it is tried."""

    penalty: Able
    name: str
    points: list[Array]
    rng: np.random.Generator
    tol: float


class Trial(NamedTuple):
    """A point, a step, and the point that the prox returned for them."""

    x: Array
    step: float
    p: Array


def check_prox(tried: TriedPenalty) -> None:
    """Check that p = prox(x, step) has the lowest Φ(u) = step·ψ(u) + ‖u - x‖²/2 among many points; else raise ``CheckFailed``."""
    penalty, name, points, rng, tol = tried
    rho = weak_convexity(penalty)
    # For a weakly convex ψ, steps at which Φ is convex.
    steps = [step if rho == 0 else 0.3 * step / rho for step in STEPS]
    made = [Trial(x, step, np.array(penalty.prox(x, step))) for x in points for step in steps]
    rivals = [list(_rivals(penalty, trial, rng)) for trial in made]
    worst = _worst(penalty, made, rivals, (1.0, 1), tol)
    if worst is None:
        return
    for effective, words in MISTAKES.items():
        if _worst(penalty, made, rivals, effective, tol) is None:
            raise CheckFailed(f"prox(x, step) of {name} {words}")
    trial, u, better = worst
    raise CheckFailed(
        f"prox(x, step) of {name} does not minimise step·ψ(u) + ‖u - x‖²/2: at x = {brief(trial.x)} and step = {trial.step:g} "
        f"it returned {brief(trial.p)}, and u = {brief(u)} is lower by {better:.3g}"
    )


def _rivals(penalty: Penalty, trial: Trial, rng: np.random.Generator) -> Iterator[Array]:
    """Points that might be lower: near p, on the way to x and to zero, and proxes of other points, which are feasible."""
    x, step, p = trial
    yield from (x, np.zeros_like(x), 0.5 * (x + p), 1.1 * p, 0.9 * p)
    yield from (p + 0.1 * (x - p), p - 0.1 * (x - p))
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        move = scale * (1e-3 + np.abs(p).max()) * rng.standard_normal(x.shape)
        yield p + move
        yield np.array(penalty.prox(x + move, step))
        single = np.zeros_like(x)
        single.flat[rng.integers(x.size)] = move.flat[0]
        yield p + single
    for factor in (0.25, 0.5, 2.0, 4.0):
        yield np.array(penalty.prox(x, factor * step))


def _worst(
    penalty: Penalty,
    made: list[Trial],
    rivals: list[list[Array]],
    effective: tuple[float, int],
    tol: float,
) -> tuple[Trial, Array, float] | None:
    """The rival that is lowest compared with the prox, if the difference exceeds rounding."""
    rho, (factor, power) = weak_convexity(penalty), effective
    worst: tuple[Trial, Array, float] | None = None
    for trial, others in zip(made, rivals, strict=True):
        t = factor * trial.step**power
        at_p = _phi(penalty, trial.p, trial.x, t)
        for u in others:
            there = _phi(penalty, u, trial.x, t)
            bend = max(0.5 * (1.0 - t * rho), 0.0) * float(np.vdot(u - trial.p, u - trial.p))
            short = at_p + bend - there
            if short > tol * (1.0 + abs(at_p)) and (worst is None or short > worst[2]):
                worst = trial, u, short
    return worst


def _phi(penalty: Penalty, u: Array, x: Array, step: float) -> float:
    value = float(penalty.value(u))
    scaled = (0.0 if np.isfinite(value) else value) if step == 0 else step * value
    return scaled + 0.5 * float(np.vdot(u - x, u - x))


def brief(x: object) -> str:
    """An array, shortened for a message."""
    shown = np.array2string(np.asarray(x), precision=3, threshold=6, separator=", ")
    return shown.replace("\n", "")
