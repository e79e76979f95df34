"""Detects that P falls for ever along a ray and so has no minimiser, for example if classes are separated and unpenalised.

If every l(t·z_i, y_i) falls for all t ≥ 1 and ψ(tx) = ψ(x), then P(tx) < P(x) for all t > 1: no point is a minimiser, however
small the gap, and the size of the coefficients of x depends on the requested accuracy alone.
"""

from __future__ import annotations

import numpy as np

from reshuffle.arrays import Array
from reshuffle.objective import Objective

NO_MINIMISER = "P has no minimiser"
FAR = 1e100
"""A multiple of x that is beyond every constraint that a user would write."""


def why_endless(problem: Objective, x: Array) -> str:
    """A clause for the message of a run if P(tx) is known to fall for all t ≥ 1; otherwise empty."""
    if not problem.can_recede or problem.ridge > 0 or not x.any():
        return ""
    w, value = x[: problem.features], problem.penalty.value
    with np.errstate(over="ignore", invalid="ignore"):
        if not (value(2.0 * w) == value(w) < np.inf and problem.recedes(x)):
            return ""
        if value(FAR / np.abs(x).max() * w) != value(w):
            return ""
    return f"{NO_MINIMISER}: {problem.receding}, so that they grow without end; their size depends on tol alone"
