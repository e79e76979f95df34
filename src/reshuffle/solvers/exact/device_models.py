"""Models of Newton steps on a device: the point and rows of a Hessian, its damping by the rules of core/damping.hpp, and the outcome of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Visits
from reshuffle.losses import Loss
from reshuffle.objective import Array

FIRST, RISES, EASES, LEAST = 1e-3, 30.0, 10.0, 1e-6
"""The first damping, as a share of the largest curvature; its factor after a failed step; its divisor after a full step; the value below which it becomes 0."""
SHORT, STIFFENS = 0.2, 4.0
"""If a step is shorter than this share of the model's, the model promised too much and damping grows by this factor."""
STIFFEST = 1e6
"""The most damping, in units of the mean curvature, for a loss whose curvature has no bound."""


class HessianAt(NamedTuple):
    """The point and the number of rows of a Hessian, and the gain that the last step promised."""

    x: Array
    rows: int
    promised: float = np.inf
    damping: float = 0.0
    """The share of the loss's largest curvature that is added to every row."""
    hidden: float = np.inf
    """The gain promised by the last step if it was too small to show in P. Such steps must promise less and less, so that they end."""
    features: Visits = np.empty(0, dtype=np.uint32)
    """The features of the model, if it does not have all (``SparseDeviceNewton``)."""

    def moved(self, x: Array, rows: int) -> HessianAt:
        """A new model at another point or with more rows; nothing is known of its steps yet."""
        return self._replace(x=x, rows=rows, promised=np.inf, damping=0.0)

    def is_like(self, other: HessianAt) -> bool:
        """Whether both have the same Hessian."""
        same = (self.rows, self.damping) == (other.rows, other.damping)
        return (
            same
            and np.array_equal(self.x, other.x)
            and np.array_equal(self.features, other.features)
        )


class NewtonStep(NamedTuple):
    """The outcome of a step: x, P(x), the next model, whether no step helps, and the passes made."""

    x: Array
    height: float
    model: HessianAt
    stuck: bool
    passes: float
    rounds: int


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
