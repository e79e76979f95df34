"""How far from optimal a point is: what ``tol`` means, for every solver.

It is a relative accuracy. Where loss and penalty have conjugates and the penalty holds every coordinate,
it is the duality gap, an upper bound on P(x) - P*, over f(0). Elsewhere it is the norm of the gradient
mapping over that of the gradient at zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, cast

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.datafit import Datafit
from reshuffle.objective import Array, Objective
from reshuffle.penalties import Able, ability
from reshuffle.penalties.inexact import COLD
from reshuffle.solvers.inexact import close

Value = Callable[[], float] | None
"""f(x) on demand, where somebody knows it."""


class Certificate(ABC):
    """A measure of optimality, relative to x = 0."""

    name: ClassVar[str]
    """The column of the trace."""
    meaning: ClassVar[str]
    """For the header of the trace."""

    def __init__(self, problem: Objective) -> None:
        self.problem = problem

    @abstractmethod
    def at(self, x: Array, start: Array = COLD) -> float:
        """The measure at x, by a pass over the data."""

    @abstractmethod
    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        """The same, where the slopes at x and their mean gradient (without the ridge) are known.

        ``value`` gives f(x), where there is a shorter way to it than a pass over all rows, and ``start`` what
        the iterations of a prox begin with.
        """


class RelativeMapping(Certificate):
    """‖x - prox(x - τ∇f(x))‖/(τ‖∇f(0)‖) with τ = 1/L̄ (``typical_curvature``).

    Where the prox is found by iterations, the bound on its error is added to the norm, which is then not smaller
    than at the true prox.
    """

    name = "relative_mapping"
    meaning = "gradient mapping"

    def at(self, x: Array, start: Array = COLD) -> float:
        gradient = self.problem.gradient(x)
        features = slice(self.problem.features)
        gradient[features] -= self.problem.ridge * x[features]
        return self.from_slopes(x, np.empty(0), gradient, start=start)

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        tau = 1.0 / self.problem.typical_curvature
        found = close(self.problem, x, x - tau * g, tau, start, with_ridge=True)
        moved = float(np.linalg.norm(x - found.point)) + found.error
        return moved / tau / self._at_zero

    @cached_property
    def _at_zero(self) -> float:
        zero = np.zeros(self.problem.shape)
        return float(np.linalg.norm(self.problem.gradient(zero))) or 1.0


class Proof(Certificate):
    """Nothing by itself: where there is no dual point, Newton steps prove how far P can still fall."""

    name = "gap"
    meaning = "Newton bound"

    def at(self, x: Array, start: Array = COLD) -> float:
        return np.inf

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        return np.inf


class Gap(Certificate):
    """(P(x) - D(α·s))/f(0), with s the slopes at x and α ≤ 1 the largest that makes the point feasible.

    D(s) = -(1/n) Σ_i w_i l*(s_i, y_i) - Ψ*(-(1/n) Σ_i w_i s_i a_i),    Ψ = ψ + (ridge/2)‖·‖².

    With an intercept a dual point has Σ_i w_i s_i = 0: of the slopes of either sign, those that weigh
    more are shortened until they balance the others; a vector loss says by ``balanced`` how it is done.
    """

    name = "gap"
    meaning = "duality gap"

    def __init__(self, problem: Objective, datafit: Datafit, penalty: Able) -> None:
        super().__init__(problem)
        self.datafit, self.penalty = datafit, penalty

    def at(self, x: Array, start: Array = COLD) -> float:
        return self.from_slopes(x, *self.datafit.slopes(x))

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        whole = value or partial(self.problem.value, x)
        return max(self._absolute(x, slopes, g, whole), 0.0) / (self.datafit.at_zero or 1.0)

    def _absolute(self, x: Array, slopes: Array, g: Array, value: Callable[[], float]) -> float:
        fit, penalty, ridge = self.datafit, self.penalty, self.problem.ridge
        if fit.bias:
            slopes = self._balanced(slopes)
            g, x = fit.combined(slopes)[:-1], x[:-1]
        scale = penalty.dual_scale(-g, ridge)
        theirs = penalty.conjugate(-scale * g, ridge)
        if scale == 1.0 and not fit.bias:
            # l(z) + l*(l'(z)) = z·l'(z): the losses add up to <x, ∇f(x)>
            ours = penalty.value(x) + 0.5 * ridge * float(np.vdot(x, x))
            return float(ours + theirs + np.vdot(x, g))
        return float(value() + penalty.value(x) + fit.conjugates(slopes, scale) / fit.n + theirs)

    def _balanced(self, slopes: Array) -> Array:
        """The slopes, those of one sign shortened so that Σ_i w_i s_i = 0."""
        fit, own = self.datafit, self.datafit.loss.balanced
        if own is not None:
            balanced: Array = own(slopes, fit.targets, fit.weights)
            return balanced
        weighted = slopes * self.datafit.weights if self.datafit.weights.size else slopes
        up, down = weighted[weighted > 0].sum(), -weighted[weighted < 0].sum()
        least = min(up, down)
        more, less = (least / up if up > 0 else 0.0), (least / down if down > 0 else 0.0)
        return np.where(slopes > 0, more, less) * slopes


def certificate_of(problem: Objective) -> Certificate:
    """The duality gap where there is one, and the gradient mapping elsewhere."""
    fit: Datafit | None = getattr(problem, "datafit", None)
    has_dual = ability(problem.penalty, "has_dual")
    if fit is None or fit.loss.conjugate is None or has_dual is None:
        return RelativeMapping(problem)
    if fit.bias and fit.outputs and fit.loss.balanced is None:
        return RelativeMapping(problem)
    known = has_dual((fit.features, *fit.outputs), problem.ridge)
    return Gap(problem, fit, cast(Able, problem.penalty)) if known else RelativeMapping(problem)
