from __future__ import annotations

from typing import Any

from reshuffle.losses.base import Loss


class Squared(Loss):
    """l(z, y) = (z - y)²/2."""

    curvature = 1.0

    @staticmethod
    def value(z: float, y: float) -> float:
        return 0.5 * (z - y) * (z - y)

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return z - y

    @staticmethod
    def second(z: float, y: float) -> float:
        return 1.0

    @staticmethod
    def conjugate(s: float, y: float) -> float:
        return 0.5 * s * s + s * y

    @staticmethod
    def oracle(z: Any, y: Any) -> Any:
        return (z**2 - 2.0 * z * y + y**2) / 2.0
