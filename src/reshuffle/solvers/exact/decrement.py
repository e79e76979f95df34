"""Estimates, without a proof, how far P is above its minimum at a point where no step lowers it any further.

    ½ hᵀH⁻¹h,    h = ∇f + ∇ψ,    H = BᵀB,    B = the rows √(w_i l''_i/n) a_iᵀ, and √l2 for a ridge,

on the face of x, where ψ is smooth: the gain of a Newton step there. Columns that are nearly equal leave nothing
of H but rounding, so that steps end without a proof. The singular values of B are the roots of those of H, so twice as
many digits are left in B.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.objective import Array
from reshuffle.penalties.forms import Coordinates
from reshuffle.problem import Problem
from reshuffle.solvers.exact.newton_steps import form_of
from reshuffle.solvers.second_order import Linearisation

STALLED = "no step lowers P(x) any further"
"""Begins the message of a run that ended because no step helps."""
EPS = float(np.finfo(np.float64).eps)
ENTRIES = 1 << 20
"""The most entries of B: 8 MB, and about a second for its singular values."""


def stalled_at(problem: Problem, at: Linearisation, at_zero: float) -> str:
    """The reason why a run ends at this point, with the Newton decrement if it can be computed."""
    left = newton_decrement(problem, at)
    if not left < np.inf:
        return STALLED
    above = max(left / abs(at_zero), EPS)  # P itself is not known more exactly
    return f"{STALLED} (by the Newton decrement P(x) is {above:.1g}·f(0) above its minimum, which is not a proof)"


def newton_decrement(problem: Problem, at: Linearisation) -> float:
    """½ hᵀH⁻¹h on the face of x; infinite if a coordinate would gain by leaving the face, or if B would be too large.

    For losses of one output and separable penalties.
    """
    fit, form = problem.datafit, form_of(problem).one_by_one
    if fit.outputs or form is None or not np.isfinite(at.x).all():
        return np.inf
    x, g = at.x[: fit.features], at.gradient[: fit.features]
    inside = (form.low < x) & (x < form.high) & ((x != 0.0) | (form.l1 == 0.0))
    slopes = g + form.l2 * x + form.l1 * np.sign(x)
    if np.any(leaves(form, x, g)[~inside]):
        return np.inf
    kept = np.flatnonzero(inside).astype(np.uint32)
    width = kept.size + fit.bias
    if not width or (fit.n + kept.size) * width > ENTRIES:
        return 0.0 if not width else np.inf
    B = np.zeros((fit.n + kept.size, width))
    rows = np.zeros((fit.n, kept.size), order="F")
    fit.columns(kept).rows.add_to(rows)
    B[: fit.n, : kept.size] = rows
    B[: fit.n, kept.size :] = 1.0
    weights = fit.weights if fit.weights.size else np.ones(fit.n)
    B[: fit.n] *= np.sqrt(weights * at.curvatures / fit.n)[:, None]
    B[fit.n + np.arange(kept.size), np.arange(kept.size)] = np.sqrt(form.l2[kept])
    h = np.append(slopes[kept], at.gradient[fit.features :])
    lengths = np.sqrt(np.sum(B * B, axis=0))
    if not np.all(np.isfinite(lengths)) or np.any((lengths == 0.0) & (h != 0.0)):
        return np.inf
    scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    _, sizes, V = np.linalg.svd(B * scales, full_matrices=False)
    seen = sizes > EPS * max(B.shape) * sizes[0]
    moved: Array = (V @ (h * scales))[seen] / sizes[seen]
    return 0.5 * float(moved @ moved)


def leaves(form: Coordinates, x: Array, g: Array) -> NDArray[np.bool_]:
    """Whether a coordinate at a kink of ψ, or at a bound, would gain by leaving it."""
    slope = g + form.l2 * x
    up = slope + np.where(x >= 0.0, form.l1, -form.l1) < 0.0
    down = slope - np.where(x <= 0.0, form.l1, -form.l1) > 0.0
    return (up & (x < form.high)) | (down & (x > form.low))
