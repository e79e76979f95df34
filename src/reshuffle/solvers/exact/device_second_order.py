"""f to second order on a device, for L-BFGS: x, gradients and steps are arrays of the device; only single numbers are copied to the processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.arrays import Array
from reshuffle.interruption import listen
from reshuffle.solvers.second_order import Linearisation, SecondOrder

NO_MARGINS = np.empty(0)


@dataclass(eq=False)
class DeviceSecondOrder(SecondOrder):
    """The methods of ``SecondOrder`` that ``QuasiNewton`` calls, by passes over samples on a device."""

    fit: Any
    made: int = 0
    """Passes over all rows so far."""

    @property
    def samples(self) -> Any:
        """The samples, ``WideSamples``, whose arrays lie on the device instead of the processor."""
        return self.fit

    @property
    def passes(self) -> int:
        return self.made

    def linearise(self, x: Array) -> Linearisation:
        listen()
        self.made += 1
        value, gradient, slopes, bends = self.samples.linearised(x)
        return Linearisation(x, NO_MARGINS, slopes, bends, gradient, value)

    def hessian_product(self, at: Linearisation, v: Array) -> Array:
        listen()
        self.made += 1
        found: Array = self.samples.product(at.curvatures, v)
        return found

    def mean_curvature(self, at: Linearisation) -> float:
        total, n = float(self.samples.weighted(at.curvatures).sum()), int(self.samples.n)
        return total / n

    def array(self, numbers: Array) -> Array:
        found: Array = self.samples.device.put(numbers, np.float64)
        return found

    def dot(self, a: Array, b: Array) -> float:
        return float((a * b).sum())
