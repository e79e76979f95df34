"""The quadratic models of Newton steps on a device: where their Hessian is taken, and how a step ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.arrays import Visits
from reshuffle.objective import Array


class HessianAt(NamedTuple):
    """Where a Hessian is taken and on how many rows, and how much the last step promised to gain."""

    x: Array
    rows: int
    promised: float = np.inf
    damping: float = 0.0
    """The share of the loss's largest curvature that is added to every row."""
    hidden: float = np.inf
    """What the last step promised, where P was too coarse to show it: such steps promise less and less, so that they end."""
    features: Visits = np.empty(0, dtype=np.uint32)
    """The features of the model, where there are more than a model has (``SparseDeviceNewton``)."""

    def moved(self, x: Array, rows: int) -> HessianAt:
        """The next model, at another point or with more rows, of which nothing is known yet."""
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
    """The end of a step: x, P there, the next model, whether no step helps, and the passes it took."""

    x: Array
    height: float
    model: HessianAt
    stuck: bool
    passes: float
    rounds: int
