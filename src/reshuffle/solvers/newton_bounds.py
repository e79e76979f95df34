"""A bound on P(x) - P* from a quadratic model that lies below P.

Why the bound holds. Let q(v) = ⟨∇f(x), v⟩ + ½vᵀHv + ψ(x + v) - ψ(x) with H = (1/n) Σ w_i c_i a_i a_iᵀ
and curvatures c_i *from below*: l(z_i + s) ≥ l + l's + c_i s²/2 for all |s| ≤ r_i (``lower_kernel``).
Let D = -min q, at v = d. Where |a_iᵀv| ≤ r_i in all rows with c_i > 0, P(x + v) - P(x) ≥ q(v) ≥ -D.
Convexity carries this to all v: if P(x + v) < P(x) for a v with a larger |a_iᵀv|, then the segment to
it leaves the region at some v' with q(v') ≤ P(x + v') - P(x) ≤ 0. But q(v') ≤ 0 means
½(v' - d)ᵀH(v' - d) ≤ D, and (a_iᵀw)² ≤ wᵀHw·n/(w_i c_i), so that |a_iᵀv'| ≤ |a_iᵀd| + √(2Dn/(w_i c_i)).
Where the right side is below r_i in every row, there is no such v', and P(x) - P* ≤ D. The step then
takes P(x) down by what it does, and D less that bounds the rest.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from reshuffle.objective import Array
from reshuffle.solvers.curves import Bend, Curves, Linear
from reshuffle.solvers.newton_model import Step

WIDE = 1.0  # a change of softmax's margins: beyond it little is left of the curvature
SMALL = 1e-5  # below it e⁻ʳ + r - 1 is lost in rounding
REACH = 2.1  # times what a model of the expected decrease reaches: 2 is needed, 2.1 leaves room
TURNS = 4  # in which radius and curvature find to each other; rows that do not are left out
SOLVED = 1e-3  # of the decrease (or the tolerance) that the last round of a model may have gained


class Below(NamedTuple):
    """Curvatures from below, valid while the margins of row i change by at most radius_i."""

    bend: Bend
    radius: Array
    """Infinite for rows that count with no curvature."""
    shares: Array
    """(change of the margins)² ≤ 2·(decrease of the model's quadratic)/share; zero likewise."""


class Bounds:
    """What can be proved about P(x) - P* for one problem."""

    def __init__(self, curves: Curves) -> None:
        self.curves = curves

    def below(self, at: Linear, cap: float) -> Below:
        """Curvatures from below for a model whose decrease is at most ``cap``."""
        if at.curvatures.ndim == 2:
            return self._below_outputs(at, cap)
        from reshuffle.kernels.newton import lower_kernel

        p = self.curves.fit
        low, radius = np.empty(p.n), np.empty(p.n)
        lower_kernel(self.curves.stamp)(
            p.targets, p.weights, p.loss.params, at.margins, at.slopes, at.curvatures, cap, low,
            radius,
        )  # fmt: skip
        return Below(Bend(low), radius, self.curves.weights * low / p.n)

    def _below_outputs(self, at: Linear, cap: float) -> Below:
        """The same for softmax, where S are the outputs whose p is not too small.

        Jensen: log Σ p_k e^{v_k} ≥ s·log Σ_S (p_k/s)e^{v_k} + Σ_{not S} p_k v_k with s = Σ_S p, with the
        same slope at v = 0. Where v has a range of at most r on S, the curvature of the first term
        is at least 2(e⁻ʳ + r - 1)/r² of that at v = 0 (a third cumulant is at most r times the
        variance), which is the Laplacian of p_k p_l/s; and r² ≤ 2·curvature/min_S p.
        """
        weights, n = self.curves.weights, self.curves.fit.n
        need = 4.0 * cap * n / np.where(weights > 0.0, weights, np.nan)
        with np.errstate(invalid="ignore"):
            inside = at.curvatures * (WIDE / REACH) ** 2 >= need[:, None]
        held = np.count_nonzero(inside, axis=1) >= 2
        p = np.where(inside & held[:, None], at.curvatures, 0.0)
        least = np.where(held, np.where(inside, p, np.inf).min(axis=1), 1.0)
        need = np.where(held, need, 0.0)
        p /= np.sqrt(np.where(held, p.sum(axis=1), 1.0))[:, None]
        factors, r = np.ones(n), np.ones(n)
        for _ in range(TURNS):
            r = REACH * np.sqrt(need / (least * factors)) + SMALL
            factors = 2.0 * (np.expm1(-r) + r) / r**2
        held &= 2.0 * np.sqrt(need / (least * factors)) <= r
        factors = np.where(held, factors, 0.0)
        shares = 0.5 * weights * least * factors / n
        return Below(Bend(p, 0.0, factors), np.where(held, r, np.inf), shares)

    def proves(self, step: Step, below: Below, target: float) -> bool:
        """Whether P(x) - P* ≤ the decrease of this model (and what its last round gained)."""
        spare = SOLVED * max(step.decrease, target)
        if not (step.regular and step.decrease < np.inf and step.left <= spare):
            return False
        held = np.isfinite(below.radius)
        change = step.change[held]
        if change.ndim == 2:
            inside = below.bend.curvatures[held] > 0.0
            reach = np.where(inside, change, -np.inf).max(axis=1)
            reach -= np.where(inside, change, np.inf).min(axis=1)
        else:
            reach = np.abs(change)
        further = np.sqrt(2.0 * step.decrease / below.shares[held])
        return bool(np.all(reach + further <= below.radius[held]))

    @cached_property
    def floor(self) -> float:
        """P* ≥ mean inf l = -(1/n) Σ w_i l*(0), where ψ ≥ 0; -inf without a conjugate."""
        fit = self.curves.fit
        if fit.loss.conjugate is None:
            return -np.inf
        return -fit.conjugates(np.zeros((fit.n, *fit.outputs)), 1.0) / fit.n
