"""Damping of Newton steps on a device, by the rules of core/damping.hpp: curvature is added to every row if a model promises too much."""

from __future__ import annotations

import numpy as np

from reshuffle.losses import Loss

FIRST, RISES, EASES, LEAST = 1e-3, 30.0, 10.0, 1e-6
"""The first damping, as a share of the largest curvature; its factor after a failed step; its divisor after a full step; the value below which it becomes 0."""
SHORT, STIFFENS = 0.2, 4.0
"""If a step is shorter than this share of the model's, the model promised too much and damping grows by this factor."""
STIFFEST = 1e6
"""The most damping, in units of the mean curvature, for a loss whose curvature has no bound."""


def most_damping(loss: Loss) -> float:
    """The most damping: none for squares, whose model is f itself."""
    if loss.quadratic:
        return 0.0
    return 1.0 if float(loss.curvature) < np.inf else STIFFEST


def raised(damping: float, loss: Loss) -> float:
    """Damping after a model that did not help."""
    return min(max(RISES * damping, FIRST), most_damping(loss))


def eased(damping: float, length: float, loss: Loss) -> float:
    """Damping after a step of this length, in units of the model's."""
    if length < SHORT:
        return min(max(STIFFENS * damping, FIRST), most_damping(loss))
    if length < 1.0:
        return damping
    return damping / (EASES * length) if damping > LEAST else 0.0
