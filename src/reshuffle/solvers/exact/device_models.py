"""Data of Newton steps on a device: the point and rows of a model's Hessian, and the outcome of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Visits
from reshuffle.objective import Array


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
