"""The interface of a problem that is solved by Newton steps with its Hessian; f need not be a sum over samples."""

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

    An example is minus the log partial likelihood of Cox's model. With a known lower bound ``least`` of f,
    f*(αs) ≤ α f*(s) - (1 - α)·least gives a dual point.
    """

    taken_by: ClassVar[str] = "ProxNewton or FISTA"
    least: float
    """A lower bound of f, which f approaches as closely as its data allow."""

    varying: NDArray[np.bool_]
    """The features on which f depends. Along the others its slope is zero; along these f has curvature, even if rounding hides most of it."""

    @abstractmethod
    def expand(self, x: Array) -> FirstOrder:
        """f and ∇f at x."""

    @abstractmethod
    def hessian(self, x: Array, kept: Visits) -> Array:
        """∇²f(x) in these features."""

    @abstractmethod
    def reach(self, directions: Array) -> float:
        """A bound on the reach of these directions, the columns of V: R(Vu) ≤ reach·‖u‖ for every u."""

    @cached_property
    def reference(self) -> float:
        """f(0) - inf f, to which accuracies are relative; 1 if f is constant."""
        return max(self.expand(np.zeros(self.shape)).value - self.least, 0.0) or 1.0

    def value(self, x: Array) -> float:
        value = self.expand(x).value
        return value + 0.5 * self.ridge * float((x * x).sum()) if self.ridge else value

    def gradient(self, x: Array) -> Array:
        return self.expand(x).gradient + self.ridge * x
