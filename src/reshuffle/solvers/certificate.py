"""Measures how far a point is from optimal: the certificate that every solver compares with ``tol``.

It is a relative accuracy. If loss and penalty have conjugates and the penalty holds every coordinate,
it is the duality gap, an upper bound on P(x) - P*, over f(0). Otherwise it is the norm of the gradient
mapping over that of the gradient at zero, which bounds no difference of objectives.

Coordinates that no penalty holds (an intercept, features without a penalty) are free. A dual point has to satisfy
their equations, (1/n) Σ_i w_i s_i a_ij = 0, or it proves nothing. A bound on P(x) - P*, however it was found,
is wrong if a step along one of them alone lowers P by more (``FreeCoordinates``); every bound is checked against
this before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.datafit import Datafit
from reshuffle.objective import Objective
from reshuffle.penalties import Able, ability
from reshuffle.penalties.abilities import as_able
from reshuffle.penalties.forms import Form
from reshuffle.penalties.inexact import COLD
from reshuffle.solvers.prox_call import close

Value = Callable[[], float] | None
"""A function that returns f(x), if a cheaper way than a pass is known."""
BALANCED = 1e-11
"""The equation of an intercept counts as satisfied up to this share of Σ_i w_i |s_i|, because of rounding."""
VISIBLE = 1e-12
"""A difference of two bounds above this share of f(0) is not due to rounding."""
STRICT = False
"""Whether a bound that free coordinates refute raises an error, as in tests, instead of being dropped."""


class FreeCoordinates:
    """P(x) - P* ≥ Σ_k g_jk²/(2L_j) for every row j of x, k its free outputs, L_j = c·(1/n) Σ_i w_i a_ij².

    g is the gradient of f and c the bound on the loss's curvature: the step -g_jk/L_j along free coordinates
    lowers f by at least that much and does not change ψ. If c is infinite, nothing is known.
    """

    def __init__(self, problem: Objective) -> None:
        self.fit = fit = getattr(problem, "datafit", None)
        self.features, self.any = np.zeros(0, dtype=bool), False
        """The coordinates that neither ψ nor the ridge depends on; none if ψ has no compiled form."""
        if fit is not None:
            shape, form = (fit.features, *fit.outputs), getattr(problem, "form_with_ridge", None)
            none = np.zeros(shape, dtype=bool)
            self.features = none if form is None else free_coordinates(form).reshape(shape)
            self.any = bool(fit.bias or self.features.any())

    def fall(self, slopes: Array, g: Array) -> float:
        """A bound below P(x) - P*, from the slopes at x and their mean gradient."""
        if self.fit is None or not self.any or not self.fit.loss.curvature < np.inf:
            return 0.0
        fit, c, most = self.fit, float(self.fit.loss.curvature), 0.0
        if fit.bias:
            whole = float(fit.weights.sum()) if fit.weights.size else float(fit.n)
            total = np.sum(weighted(fit, slopes), axis=-1) / fit.n  # g may be based on other slopes
            most = float(np.sum(total**2)) * fit.n / (2.0 * c * whole)
        if self.features.any():
            squares = np.where(self.features, g[: fit.features] ** 2, 0.0)
            power = squares if squares.ndim == 1 else squares.sum(axis=1)
            curvature = 2.0 * c * fit.column_squares
            falls = np.divide(power, curvature, out=np.zeros_like(power), where=curvature > 0.0)
            most = max(most, float(falls.max()))
        return most

    def believed(self, bound: float, slopes: Array, g: Array) -> float:
        """The bound on P(x) - P*, over f(0); infinite if a free coordinate alone refutes it."""
        if not self.any or self.fit is None or not bound < np.inf:
            return bound
        fall = self.fall(slopes, g) / abs(self.fit.at_zero or 1.0)
        if fall <= bound + VISIBLE:
            return bound
        if STRICT:
            raise AssertionError(f"P(x) - P* ≤ {bound:.3g} f(0), but a free coordinate lowers P by {fall:.3g} f(0)")  # fmt: skip
        return np.inf


def free_coordinates(form: Form) -> NDArray[np.bool_]:
    """The coordinates that neither ψ nor a ridge depends on, flattened."""
    held = form.l1 > 0
    return ~held if held.all() else form.free


class Measure:
    """A measure of optimality, relative to x = 0; infinite where nothing is known."""

    name: ClassVar[str]
    """The column of the trace."""
    meaning: ClassVar[str]
    """Its name in the header of the trace."""

    def __init__(self, problem: Objective) -> None:
        self.problem = problem

    def at(self, x: Array, start: Array = COLD) -> float:
        """The measure at x, by a pass over the data."""
        return np.inf

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        """The measure at x, from known slopes at x and their mean gradient (without the ridge).

        ``value`` returns f(x), if it can be had without a pass over all rows; ``start`` is the warm start of a prox
        that is found by iterations.
        """
        return np.inf


class RelativeMapping(Measure):
    """‖x - prox(x - τ∇f(x))‖/(τ‖∇f(0)‖) with τ = 1/L̄ (``typical_curvature``).

    If the prox is found by iterations, the bound on its error is added to the norm, which is then not smaller
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
        relative: float = moved / tau / self._at_zero
        return relative

    @cached_property
    def _at_zero(self) -> float:
        zero = np.zeros(self.problem.shape)
        return float(np.linalg.norm(self.problem.gradient(zero))) or 1.0


class Proof(Measure):
    """Always infinite: there is no dual point, and only Newton steps give a bound."""

    name = "gap"
    meaning = "Newton bound"


class Gap(Measure):
    """(P(x) - D(α·s))/f(0), with s the slopes at x and α ≤ 1 the largest that makes the point feasible.

    D(s) = -(1/n) Σ_i w_i l*(s_i, y_i) - Ψ*(-(1/n) Σ_i w_i s_i a_i),    Ψ = ψ + (ridge/2)‖·‖².

    With an intercept a dual point has Σ_i w_i s_i = 0: the slopes of the sign that weighs more are
    shortened until they balance those of the other sign. A vector loss does this by its ``balanced``.
    """

    name = "gap"
    meaning = "duality gap"

    def __init__(self, problem: Objective, datafit: Datafit, penalty: Able) -> None:
        super().__init__(problem)
        self.datafit, self.penalty = datafit, penalty
        self.free = FreeCoordinates(problem)

    def at(self, x: Array, start: Array = COLD) -> float:
        return self.from_slopes(x, *self.datafit.slopes(x))

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        whole = value or partial(self.problem.value, x)
        gap = max(self._absolute(x, slopes, g, whole), 0.0) / (self.datafit.at_zero or 1.0)
        return self.free.believed(gap, slopes, g)

    def _absolute(self, x: Array, slopes: Array, g: Array, value: Callable[[], float]) -> float:
        fit, penalty, ridge = self.datafit, self.penalty, self.problem.ridge
        if not np.isfinite(g).all():  # slopes overflow if x is too large
            return np.inf
        if fit.bias:
            slopes = self._balanced(slopes)
            if not self._is_balanced(slopes):
                return np.inf
            g, x = fit.combined(slopes)[:-1], x[:-1]
        scale = penalty.dual_scale(-g, ridge)
        theirs = penalty.conjugate(-scale * g, ridge)
        if scale == 1.0 and not fit.bias:
            # l(z) + l*(l'(z)) = z·l'(z): the losses add up to <x, ∇f(x)>
            ours = penalty.value(x) + 0.5 * ridge * float(np.vdot(x, x))
            return float(ours + theirs + np.vdot(x, g))
        return float(value() + penalty.value(x) + fit.conjugates(slopes, scale) / fit.n + theirs)

    def _is_balanced(self, slopes: Array) -> bool:
        """Whether the dual point satisfies the equation of the intercept, Σ_i w_i s_i = 0, up to rounding."""
        sums = weighted(self.datafit, slopes)
        most = np.sum(np.abs(sums), axis=-1)
        return bool(np.all(np.abs(np.sum(sums, axis=-1)) <= BALANCED * most))

    def _balanced(self, slopes: Array) -> Array:
        """The slopes, with those of one sign shortened so that Σ_i w_i s_i = 0."""
        fit, own = self.datafit, self.datafit.loss.balanced
        if own is not None:
            balanced: Array = own(slopes, fit.targets, fit.weights)
            return balanced
        each = weighted(fit, slopes)
        up, down = each[each > 0].sum(), -each[each < 0].sum()
        least = min(up, down)
        more, less = (least / up if up > 0 else 0.0), (least / down if down > 0 else 0.0)
        return np.where(slopes > 0, more, less) * slopes


def weighted(fit: Datafit, slopes: Array) -> Array:
    """w_i s_i; a column for each row."""
    return slopes.T * fit.weights if fit.weights.size else slopes.T


def certificate_of(problem: Objective) -> Measure:
    """The duality gap if there is one, otherwise the gradient mapping."""
    fit: Datafit | None = getattr(problem, "datafit", None)
    has_dual = ability(problem.penalty, "has_dual")
    if fit is None or fit.loss.conjugate is None or has_dual is None or not fit.loss.convex:
        return RelativeMapping(problem)
    if fit.bias and fit.outputs and fit.loss.balanced is None:
        return RelativeMapping(problem)
    known = has_dual((fit.features, *fit.outputs), problem.ridge)
    return Gap(problem, fit, as_able(problem.penalty)) if known else RelativeMapping(problem)
