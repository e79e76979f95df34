"""Newton steps for squares over several outputs, whose Hessian is the same matrix for each of them.

    f(x) = (1/2n) Σ_i w_i ‖xᵀa_i - y_i‖²,    ∇²f = G ⊗ I,    G = (1/n) Σ_i w_i a_i a_iᵀ.

The model of such an f is f itself, so that one step is enough. Where the penalty is separable, its outputs do not
see each other and are solved one by one, each with the same G.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.datafit import Datafit
from reshuffle.objective import Array, Visits
from reshuffle.solvers.curves import Bend, Curves, Linear


class OutputCurves(Curves):
    """The pieces of a Newton step where every output of every row has the curvature 1."""

    apart = True
    shifts = False

    @property
    def stamp(self) -> int:
        """That of the loss alone: no second derivative has to be compiled."""
        return self.fit.stamp

    def linearise(self, x: Array) -> Linear:
        slopes, gradient = self.fit.slopes(x)
        self.passes += 1
        value = 0.5 * self.mean_square(slopes)
        margins = slopes + self.fit.targets
        return Linear(x, margins, slopes, np.ones(slopes.shape), gradient, value)

    def bent(self, bend: Bend, change: Array) -> Array:
        return (1.0 + bend.extra) * change

    def hessian(self, bend: Bend, active: Visits, kept: NDArray[np.int64] | None = None) -> Array:
        feature, output = np.divmod(self._kept(active, kept), self.outputs)
        G = self.feature_hessian(bend, active)
        return np.where(output[:, None] == output, G[np.ix_(feature, feature)], 0.0)

    def feature_hessian(self, bend: Bend, active: Visits) -> Array:
        """G of the active features, which all outputs share."""
        self.passes += 1
        return self.gram((1.0 + bend.extra) * self.weights / self.fit.n, active)

    def _kept(self, active: Visits, kept: NDArray[np.int64] | None) -> NDArray[np.int64]:
        return np.arange((active.size + self.fit.bias) * self.outputs) if kept is None else kept


def curves_of(fit: Datafit) -> Curves:
    """The pieces of a Newton step for these losses."""
    squares = fit.loss.each is not None and fit.loss.quadratic
    return OutputCurves(fit) if squares else Curves(fit)
