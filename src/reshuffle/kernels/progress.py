"""What one Newton step tells the next: damping, and the decrease to expect.

Plain functions of numbers, compiled into the kernel of whole runs and called as they are
(``.py_func``) where Python leads from step to step.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from reshuffle.kernels.options import LOOP

LEAST = 1e-3  # damping to begin with, of the largest curvature of the loss
SHORT = 0.2  # a step shorter than this share of the model's: the model promised too much
NO_MORE = 0.01  # of the model's decrease: below this damping does nothing
NEAR = 0.1  # of the tolerance: a decrease from where on models lie below P and prove something
SURE = (
    100.0,
    1e-5,
)  # times the tolerance and of f(0): where both are met they are no worse as models
CLOSE = 1e-8  # of the tolerance: a decrease that is not expected to be smaller than this


@njit(**LOOP)
def from_below(damping: float, expected: float, target: float, at_zero: float, n: int) -> float:
    """The decrease that a model from below is made for, where the end may be near; else 0.

    Any, where the model is f itself, of which ``expected`` is less than nothing.
    """
    if expected < 0.0:
        return np.inf
    near = max(NEAR * target, min(SURE[0] * target, SURE[1] * at_zero / n))
    if damping > 0.0 or not expected <= near:
        return 0.0
    return min(target, max(4.0 * expected, CLOSE * target))


@njit(**LOOP)
def adapted(
    damping: float, decrease: float, t: float, gained: float, lowered: bool, spent: float
) -> tuple[float, float]:
    """Damping after a step of length t, and the decrease that the next model is expected to have.

    ``spent`` is what damping took of the model's decrease, ``gained`` that of P.
    """
    if t < SHORT and not lowered:
        damping = min(max(4.0 * damping, LEAST), 1.0)
    elif t >= 1.0:
        damping = 0.0 if spent <= NO_MORE * decrease else damping / (10.0 * t)
    known = 0.0 < decrease and decrease < np.inf
    off = abs(gained - decrease) / decrease if known else 1.0
    expected = min(off, 1.0) ** 2 * decrease if t >= 1.0 else np.inf
    return damping, expected


@njit(**LOOP)
def another(
    damping: float, expected: float, seen: float, decrease: float
) -> tuple[bool, float, float, float]:
    """(Whether, damping, expected, seen) of another model at a point where the last did not help.

    First the same from below, for what it found (``seen`` says that this was tried), then with more
    and more damping.
    """
    if damping == 0.0 and not seen and decrease < np.inf:
        return True, damping, decrease, 1.0
    if damping < 1.0:
        return True, min(max(30.0 * damping, LEAST), 1.0), expected, seen
    return False, damping, expected, seen
