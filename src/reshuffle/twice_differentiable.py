"""The interface of a problem that Newton steps are made on by its Hessian, where f need not be a sum over samples."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.objective import Array, Objective, Visits


class FirstOrder(NamedTuple):
    """f at a point to first order, the ridge left out."""

    x: Array
    value: float
    gradient: Array


class TwiceDifferentiable(Objective):
    """P(x) = f(x) + (ridge/2)‖x‖² + ψ(x), f convex with a Hessian whose logarithm changes slowly:

        ``|d/dt vᵀ∇²f(x + tv)v| ≤ R(v)·vᵀ∇²f(x + tv)v``,    R(v) ≤ reach(V)·‖u‖ for v = Vu.

    The partial likelihood of Cox's model is one. f may be bounded below by a number that is known (``least``),
    and f*(αs) ≤ α f*(s) - (1 - α)·least then gives a dual point.
    """

    taken_by: ClassVar[str] = "ProxNewton or FISTA"
    least: float
    """A bound below f, which f comes as near to as its data allow."""

    varying: NDArray[np.bool_]
    """The features that f depends on: along the others it has no slope, and along these curvature, however little of it rounding leaves."""

    @abstractmethod
    def expand(self, x: Array) -> FirstOrder:
        """f and ∇f at x."""

    @abstractmethod
    def hessian(self, x: Array, kept: Visits) -> Array:
        """∇²f(x) in these features."""

    @abstractmethod
    def reach(self, directions: Array) -> float:
        """A number that R(Vu) ≤ reach·‖u‖ holds with for the columns V of this matrix."""

    @cached_property
    def reference(self) -> float:
        """f(0) - inf f, which accuracies are relative to; 1 where f does not vary."""
        return max(self.expand(np.zeros(self.shape)).value - self.least, 0.0) or 1.0

    def value(self, x: Array) -> float:
        value = self.expand(x).value
        return value + 0.5 * self.ridge * float((x * x).sum()) if self.ridge else value

    def gradient(self, x: Array) -> Array:
        return self.expand(x).gradient + self.ridge * x
