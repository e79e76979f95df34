"""Bounds P(x) - P* for a problem that is known by its Hessian, by a dual point or a proved Newton decrement.

**The decrement.** Let h = ∇f(x) + ξ with ξ in ∂ψ(x), H = ∇²f(x) and the curvature of ψ, and for a direction v
``|d/dt vᵀ∇²f(x + tv)v| ≤ R(v)·vᵀ∇²f(x + tv)v`` (``TwiceDifferentiable``). Then for R(v) ≤ 1

    P(x + v) - P(x) ≥ q(v) = ⟨h, v⟩ + (s/2)vᵀHv,    s = 2/e,

since along v the curvature is at least e^(-tR) times what it is at x, and ∫₀¹ 2(1 - t)e^(-t) dt = 2/e (Bach, 2010). The minimum of q is
-D/s with D = ½hᵀH⁻¹h, at v̂ = -H⁻¹h/s. Suppose P(x + v) ≤ P(x) for some v with R(v) > 1. By convexity the same holds at the point v' of the
segment from 0 to v with R(v') = 1. Then q(v') ≤ 0, so ‖v' - v̂‖_H ≤ √(2D)/s, and R(v') ≤ (R(H⁻¹h) + κ√(2D))/s with κ the largest R of a vector
of H-length 1. If the right side is below 1, this contradicts R(v') = 1; hence there is no such v, and P(x) - P* ≤ D/s.

**The dual point.** With s = ∇f(x) as a function of the margins and α ≤ 1, f*(αs) ≤ α f*(s) + (1 - α)f*(0) ≤ α(⟨x, ∇f(x)⟩ - f(x)) - (1 - α)·least,
and P* ≥ -f*(αs) - ψ*(-α∇f(x)).
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from reshuffle.core import native
from reshuffle.objective import Array
from reshuffle.penalties import Able
from reshuffle.penalties.forms import Coordinates, Groups
from reshuffle.twice_differentiable import FirstOrder, TwiceDifferentiable

SHARE = 2.0 / np.e
"""s: for R(v) ≤ 1 the weighted mean of the curvature along v is at least this share of that at x."""
WEAK = 1e-11
"""With columns scaled to curvature 1, directions whose curvature is below this share of the largest are treated one by one."""
FLAT = 1e-11
"""A direction counts as constant over the rows of X if they extend in it by less than this share of their largest extent."""


def duality_gap(problem: TwiceDifferentiable, penalty: Able, at: FirstOrder) -> float:
    """An upper bound on P(x) - P*, including the rounding of P."""
    x, g, ridge = at.x, at.gradient, problem.ridge
    if not (np.isfinite(g).all() and np.isfinite(at.value)):
        return np.inf
    ours = penalty.value(x) + 0.5 * ridge * float(x @ x)
    scale = penalty.dual_scale(-g, ridge)
    theirs = penalty.conjugate(-scale * g, ridge)
    short = (1.0 - scale) * (at.value - problem.least)
    rounding = native.ROUNDING * (abs(at.value) + ours)
    return max(float(ours + theirs + scale * (x @ g) + short), 0.0) + rounding


def proved_decrement(problem: TwiceDifferentiable, h: Array, H: Array) -> float:
    """An upper bound on P(x) - P*; infinite if nothing is proved. H is overwritten."""
    if not (np.isfinite(h).all() and np.isfinite(H).all()):
        return np.inf
    diagonal = np.diag(H)
    scales = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(h), where=diagonal > 0.0)
    H *= scales[:, None] * scales
    sizes, vectors = np.linalg.eigh(H)
    strong = sizes > WEAK * max(float(sizes[-1]), 0.0)
    if not strong.any():
        return 0.0 if not h.any() else np.inf
    along = scales[:, None] * vectors[:, strong]
    shapes = along / np.sqrt(sizes[strong])
    kappa = problem.reach(shapes)
    if not strong.all():
        loose = np.where(scales == 0.0, 1.0, scales)[:, None] * vectors[:, ~strong]
        if problem.reach(loose) > FLAT * problem.reach(along):
            return np.inf
        if np.any((scales == 0.0) & (h != 0.0)):
            return np.inf
    moved = shapes.T @ h
    decrement = 0.5 * float(moved @ moved)
    farthest = problem.reach((shapes @ moved)[:, None]) + kappa * np.sqrt(2.0 * decrement)
    return decrement / SHARE if farthest < SHARE else np.inf


@singledispatch
def residual(form: object, x: Array, g: Array) -> tuple[Array, Array | float]:
    """h = ∇f(x) + ξ with the ξ in ∂ψ(x) that makes h small, and the curvature of ψ: l2 of each coordinate."""
    raise TypeError(f"a compiled penalty is Coordinates or Groups, got {type(form).__name__}")


@residual.register
def _(form: Coordinates, x: Array, g: Array) -> tuple[Array, Array | float]:
    smooth = g + form.l2 * x
    up = np.where(x >= form.high, np.inf, smooth + np.where(x >= 0.0, form.l1, -form.l1))
    down = np.where(x <= form.low, -np.inf, smooth + np.where(x > 0.0, form.l1, -form.l1))
    return np.maximum(down, np.minimum(up, 0.0)), form.l2


@residual.register
def _(form: Groups, x: Array, g: Array) -> tuple[Array, Array | float]:
    h = g + form.l2 * x + form.l1 * np.sign(x)
    held = np.copysign(np.maximum(np.abs(h) - form.l1, 0.0), h)
    for k, strength in enumerate(form.strengths):
        own = form.members[form.starts[k] : form.starts[k + 1]].astype(np.intp)
        length = float(np.linalg.norm(x[own]))
        if length > 0.0:
            h[own] += strength * x[own] / length
        else:
            norm = float(np.linalg.norm(held[own]))
            h[own] = held[own] * (max(1.0 - strength / norm, 0.0) if norm > 0.0 else 0.0)
    apart = x == 0.0
    apart[form.members[: form.starts[-1]].astype(np.intp)] = False
    for k in range(form.strengths.size):
        own = form.members[form.starts[k] : form.starts[k + 1]].astype(np.intp)
        if np.any(x[own]):
            apart[own] = x[own] == 0.0
    h[apart] = held[apart]
    return h, form.l2
