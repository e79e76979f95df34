"""Bounds P(x) - P* from sums over the clients alone.

Every f_i is convex, so that its slope s_i = l'(z_i) at x gives a point of the dual problem. Shortened by factors
β ≤ 1, slopes stay in the domain of l*, and convexity bounds their conjugates without another look at the rows:

    l*(βs_i) ≤ (1 - β)·l*(0) + β·l*(s_i),    l*(s_i) = z_i s_i - l(z_i).

So a bound needs only the value and the gradient of f at x, and the infimum of the losses, -Σ_i w_i l*(0, y_i), which is
asked for once.
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.federated.federation import NONE, Federation, Totals
from reshuffle.federated.replies import Said
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.penalties import ability
from reshuffle.penalties.abilities import as_able
from reshuffle.penalties.inexact import COLD
from reshuffle.solvers.certificate import Measure, RelativeMapping, Value

EPS = float(np.finfo(float).eps)
TILT = 4.0
"""The error of a gap is at most this times 1 + ‖x‖₁ times the error of the numbers that it was computed from, unless ‖x*‖₁ > 2 + 3‖x‖₁."""
ROUNDING = 16.0 * EPS
"""The rounding error of a bound, as a share of the sums of its terms; a bound below it proves nothing."""


class Dual(NamedTuple):
    """A point of the dual problem, before the penalty shortens it: slopes with Σ_i w_i s_i = 0."""

    gradient: Array
    """(1/n) Σ_i w_i s_i a_i, over the features."""
    conjugates: float
    """An upper bound on (1/n) Σ_i w_i l*(s_i)."""


class FederatedGap(Measure):
    """(P(x) - D(αs))/f(0) from above, with the s of ``Dual`` and the largest feasible α ≤ 1.

    D(s) = -(1/n) Σ_i w_i l*(s_i, y_i) - Ψ*(-(1/n) Σ_i w_i s_i a_i),    Ψ = ψ + (ridge/2)‖·‖².

    With an intercept a dual point has Σ_i w_i s_i = 0. For one output, slopes of one sign are shortened until
    they balance the others, for which clients send the gradient of the samples with positive slopes. Slopes of a quadratic loss
    are shifted by their mean. Probabilities of the softmax are mixed with the same ones in all rows.
    """

    name = "gap"
    meaning = "duality gap"

    def __init__(self, problem: Federation, loss: Loss | None) -> None:
        super().__init__(problem)
        self.federation, self.loss = problem, loss
        self.penalty = as_able(problem.penalty)
        self.bias = problem.shape[0] > problem.features
        self.known = loss is not None and type(loss).conjugate is not None
        self.split = self.bias and len(problem.shape) == 1 and not _quadratic(loss)

    @property
    def wants(self) -> str:
        """The names of the facts about f_m at x that clients are asked for."""
        return "value gradient rising" if self.split else "value gradient"

    def at(self, x: Array, start: Array = COLD) -> float:
        return self.of(x, self.federation.say(x, self.wants))

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        return self.at(x)

    def of(self, x: Array, said: Said, totals: Totals = NONE) -> float:
        """The measure at x, from the answers of all clients about x; ``totals`` are sums of arrays that were added up as the answers came."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._absolute(x, said, totals) / (self._start.value or 1.0)
        return found if found == found else np.inf

    @cached_property
    def _start(self) -> _Start:
        shifted = self.bias and not self.split
        words = f"value gradient{' floor' if self.known else ''}{' means' if shifted else ''}"
        zero, mean = np.zeros(self.federation.shape), self.federation.mean_of
        said = self.federation.say(zero, words)
        return _Start(
            self.federation.value_of(said),
            mean(said, "gradient"),
            float(mean(said, "floor")) if self.known else np.inf,
            mean(said, "means") if shifted else np.empty(0),
        )

    def _absolute(self, x: Array, said: Said, totals: Totals) -> float:
        whole, penalty, ridge = self.federation, self.penalty, self.federation.ridge
        features = slice(whole.features)
        held = 0.5 * ridge * float(np.vdot(x[features], x[features]))
        value = whole.value_of(said) - held
        g = whole.mean_of(said, "gradient", totals)
        if self.split:
            rising = whole.mean_of(said, "rising", totals)
            dual = self._balanced(x, value, g, rising, float(whole.mean_of(said, "rising_excess")))
        elif self.bias:
            dual = self._shifted(x, value, g)
        else:
            dual = Dual(g, float(np.vdot(x, g)) - value)
        scale = penalty.dual_scale(-dual.gradient, ridge)
        left = (1.0 - scale) * self._start.floor if scale < 1.0 else 0.0
        terms = np.array([
            value, penalty.value(x[features]), held, left, scale * dual.conjugates,
            penalty.conjugate(-scale * dual.gradient, ridge),
        ])  # fmt: skip
        # Values and gradients with errors belong to f + ⟨δ, ·⟩ + ε, whose gap differs from that of P by ε and ⟨δ, x - x*⟩.
        blurred = TILT * whole.blur * (1.0 + float(np.abs(x).sum())) if whole.blur else 0.0
        return max(float(terms.sum()), 0.0) + ROUNDING * float(np.abs(terms).max()) + blurred

    def _balanced(self, x: Array, value: float, g: Array, up: Array, above: float) -> Dual:
        """Shorten the slopes of the sign that weighs more by a factor, so that Σ_i w_i s_i = 0.

        ``up`` is the gradient of the samples with positive slopes, ``above`` how far their losses are above
        their infimum. The bound of each sign is (1 - β)·(losses above their infimum) + β·⟨x, its gradient⟩ - its losses.
        """
        down, rest = g - up, value + self._start.floor - above
        rises, falls = max(float(up[-1]), 0.0), max(-float(down[-1]), 0.0)
        least = min(rises, falls)
        more, less = (least / rises if rises else 0.0), (least / falls if falls else 0.0)
        bounds = (1.0 - more) * above + (1.0 - less) * rest
        gradient = more * up + less * down
        return Dual(gradient[:-1], bounds + float(np.vdot(x, gradient)) - value)

    def _shifted(self, x: Array, value: float, g: Array) -> Dual:
        """The dual point for several outputs, and for quadratic losses."""
        means, conjugates = self._start.means, float(np.vdot(x, g)) - value
        if _quadratic(self.loss):
            # l*(s - t) = l*(s) - tz + t²/(2c), and the mean of z is the mean of the features times x, plus b.
            t, margins = g[-1], np.tensordot(means, x[:-1], 1) + x[-1]
            c = self.loss.curvature
            moved = float(np.sum(0.5 * t * t / c - t * margins))
            return Dual(g[:-1] - np.multiply.outer(means, t), conjugates + moved)
        # Slopes are p - e_y. With κp + (1 - κ)q in place of p, and the same q in all rows, the mean equals that of e_y.
        zero, count = self._start.gradient, x.shape[1]
        wanted = 1.0 / count - zero[-1]
        sums = g[-1] + wanted
        kept = min(1.0, float(np.min(wanted / np.maximum(sums, np.finfo(float).tiny))))
        if kept == 1.0:
            return Dual(g[:-1], conjugates)
        q = np.maximum(wanted - kept * sums, 0.0) / (1.0 - kept)
        classes = np.multiply.outer(means, np.full(count, 1.0 / count)) - zero[:-1]
        gradient = kept * g[:-1] + (1.0 - kept) * (np.multiply.outer(means, q) - classes)
        entropy = float(np.sum(q[q > 0.0] * np.log(q[q > 0.0])))
        return Dual(gradient, kept * conjugates + (1.0 - kept) * entropy)


class _Start(NamedTuple):
    """The answers about x = 0, for which clients are asked once."""

    value: float
    gradient: Array
    floor: float
    """(1/n) Σ_i w_i l*(0, y_i), which is minus the infimum of the losses; infinite if it is not known."""
    means: Array


class RoundedMapping(RelativeMapping):
    """The gradient mapping plus the part that rounding may hide: if x is very large, x - prox(x - τg) is 0 for every g."""

    wants = "gradient"
    problem: Federation

    def from_slopes(
        self, x: Array, slopes: Array, g: Array, value: Value = None, start: Array = COLD
    ) -> float:
        tau = 1.0 / self.problem.typical_curvature
        hidden = EPS * (float(np.linalg.norm(x)) / tau + float(np.linalg.norm(g)))
        hidden += float(np.sqrt(g.size)) * self.problem.blur
        return super().from_slopes(x, slopes, g, value, start) + hidden / self._at_zero

    def of(self, x: Array, said: Said, totals: Totals = NONE) -> float:
        """The measure at x; see ``FederatedGap.of``."""
        return self.from_slopes(x, np.empty(0), self.problem.mean_of(said, "gradient", totals))


def _quadratic(loss: Loss | None) -> TypeGuard[Loss]:
    """Whether l'' is the same everywhere; for a sum over outputs, that of each output."""
    return loss is not None and bool((loss.each or loss).quadratic) and loss.curvature < np.inf


def certificate_for(federation: Federation) -> FederatedGap | RoundedMapping:
    """The duality gap if sums over the clients bound it, and otherwise the gradient mapping."""
    has_dual, held = ability(federation.penalty, "has_dual"), federation.features
    shape, outputs = federation.shape, federation.shape[1:]
    if not federation.tells or has_dual is None or not has_dual((held, *outputs), federation.ridge):
        return RoundedMapping(federation)
    losses = list(federation.losses.values())
    loss = losses[0] if all(one is not None for one in losses) else None
    known = loss is not None and type(loss).conjugate is not None
    bias, feasible = shape[0] > held, federation.strong_convexity > 0
    able = (
        not bias
        or _quadratic(loss)
        or (loss is not None and loss.probabilities if outputs else known)
    )
    gap = able and (known or feasible)
    return FederatedGap(federation, loss) if gap else RoundedMapping(federation)
