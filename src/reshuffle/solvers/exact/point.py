"""Caches the value and derivatives of f at one point, for the phases, the certificate and the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.objective import Array, Visits
from reshuffle.solvers.exact.working_sets import WorkingSets
from reshuffle.solvers.second_order import Linearisation


@dataclass(eq=False)
class Point:
    """x, and what has been computed about f there so far; the latter is never saved with a run."""

    x: Array
    """In all features."""
    linearisation: Linearisation | None = None
    """Margins, slopes, curvatures, gradient and value of the losses, in the features that were active at the time."""
    value: float | None = None
    """f(x), the ridge included."""
    slopes: Array | None = None
    """One slope (or K slopes) for each sample."""
    gradient: Array | None = None
    """The mean gradient in all features, without the ridge."""
    gap: float | None = None
    """The certificate, if a phase has already computed it."""
    whole: bool = False
    """Whether slopes and gradient came with the step, so that a certificate takes no further pass."""

    def value_on(self, sets: WorkingSets, active: Visits) -> float:
        """f(x). If x is not zero and no step has computed it, this takes a pass over the active features."""
        if self.value is None:
            self.value = self._value(sets, active)
        return self.value

    def _value(self, sets: WorkingSets, active: Visits) -> float:
        problem, at = sets.table.problem, self.linearisation
        if at is not None:
            seen = self.x[: problem.features]
            return at.value + 0.5 * problem.ridge * float(np.vdot(seen, seen))
        if problem.datafit is not None and not self.x.any():
            return problem.datafit.at_zero
        return sets.value(self.x, active)

    def slopes_on(self, sets: WorkingSets, active: Visits) -> tuple[Array, Array]:
        """The slopes at x and their mean gradient in all features; x is zero outside the active ones."""
        if self.slopes is None or self.gradient is None:
            at, fit = self.linearisation, sets.table.problem.datafit
            if at is None or fit is None:
                self.slopes, self.gradient = sets.slopes(self.x, active)
            else:
                self.slopes, self.gradient = at.slopes, fit.combined(at.slopes)
        return self.slopes, self.gradient
