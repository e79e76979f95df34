"""A bound on P(x) - P* from a quadratic model that lies below P.

Why the bound holds. Let q(v) = ⟨∇f(x), v⟩ + ½vᵀHv + ψ(x + v) - ψ(x) with H = (1/n) Σ w_i c_i a_i a_iᵀ
and curvatures c_i *from below*: l(z_i + s) ≥ l + l's + c_i s²/2 for all |s| ≤ r_i (``lower``).
Let D = -min q, at v = d. Where |a_iᵀv| ≤ r_i in all rows with c_i > 0, P(x + v) - P(x) ≥ q(v) ≥ -D.
Convexity carries this to all v: if P(x + v) < P(x) for a v with a larger |a_iᵀv|, then the segment to
it leaves the region at some v' with q(v') ≤ P(x + v') - P(x) ≤ 0. But q(v') ≤ 0 means
½(v' - d)ᵀH(v' - d) ≤ D, and (a_iᵀw)² ≤ wᵀHw·n/(w_i c_i), so that |a_iᵀv'| ≤ |a_iᵀd| + √(2Dn/(w_i c_i)).
Where the right side is below r_i in every row, there is no such v', and P(x) - P* ≤ D. The step then
takes P(x) down by what it does, and D less that bounds the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.objective import Array
from reshuffle.solvers.curves import Bend, Curves, Linear
from reshuffle.solvers.newton_model import Step


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
        from reshuffle.kernels.newton import lower_kernel

        p, low = self.curves.fit, np.empty_like(at.curvatures)
        if self.curves.apart:  # the model is f itself, however far
            return Below(Bend(at.curvatures), np.full(p.n, np.inf), np.ones(p.n))
        factors, radius, shares = np.empty(p.n), np.empty(p.n), np.empty(p.n)
        lower_kernel(self.curves.stamp)(
            p.targets, p.weights, p.loss.params, float(p.loss.self_concordance), at.margins,
            at.slopes, at.curvatures, cap, low, factors, radius, shares,
        )  # fmt: skip
        return Below(Bend(low, 0.0, factors), radius, shares)

    def proves(self, step: Step, below: Below, target: float) -> bool:
        """Whether P(x) - P* ≤ the decrease of this model (and what its last round gained)."""
        from reshuffle.kernels.stamp import stamp_of
        from reshuffle.kernels.whole import SOLVED, proof_kernel

        spare = SOLVED * max(step.decrease, target)
        if not (step.regular and step.decrease < np.inf and step.left <= spare):
            return False
        inside = proof_kernel(stamp_of())
        return bool(
            inside(below.bend.curvatures, below.radius, below.shares, step.change, step.decrease)
        )

    @cached_property
    def floor(self) -> float:
        """P* ≥ mean inf l = -(1/n) Σ w_i l*(0), where ψ ≥ 0; -inf without a conjugate."""
        fit = self.curves.fit
        if fit.loss.conjugate is None:
            return -np.inf
        return -fit.conjugates(np.zeros((fit.n, *fit.outputs)), 1.0) / fit.n
