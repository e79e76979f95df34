"""A quadratic model of f with a penalty, as a problem for FISTA: for penalties that the compiled solver of models does not support."""

from __future__ import annotations

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.objective import Array, Objective
from reshuffle.penalties import Penalty
from reshuffle.smoothness import Smoothness


class QuadraticObjective(Objective):
    """⟨g, u - x⟩ + ½(u - x)ᵀH(u - x) + ψ(u)."""

    n = 1

    def __init__(self, x: Array, g: Array, H: Array, penalty: Penalty) -> None:
        self.x, self.g, self.H, self.penalty = x, g, H, penalty
        self.shape = x.shape

    def value(self, x: Array) -> float:
        d = x - self.x
        return float(self.g @ d + 0.5 * d @ self.H @ d)

    def gradient(self, x: Array) -> Array:
        return np.asarray(self.g + self.H @ (x - self.x))

    @cached_property
    def smoothness(self) -> Smoothness:
        largest = float(np.linalg.eigvalsh(self.H)[-1])
        return Smoothness(lambda: np.array([largest]))
