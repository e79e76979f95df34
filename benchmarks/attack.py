"""A problem of the adversary as plain data, its objective and a bound from below, without the package.

    P(x) = Σ_i w_i l(a_iᵀx + b, y_i) + (ridge/2)‖x‖² + ψ(x),   Σ_i w_i = 1.

The objective is evaluated in extended precision. At any x the convexity of f gives

    P* ≥ f(x) - ⟨∇f(x), x⟩ - sup_u { ⟨-∇f(x), u⟩ - ψ(u) },   u among the points that may be a minimiser,

and ψ(x*) ≤ P(x) says which these are. Coordinates that nothing holds are first moved to their own minimum, where their
slopes vanish. A run that says 'converged' is true where this bound proves it and false where another point refutes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.canonical import Array, Canonical, CanonicalLoss, Ints, scaled
from benchmarks.instances import is_sparse, mean_squares
from benchmarks.smoothed_newton import NUDGE, curvature_of
from benchmarks.truth import TRUST, bracket

PenaltyKind = Literal[
    "zero", "l1", "l2", "elastic_net", "non_negative", "box", "group_lasso", "sparse_group_lasso", "slope", "fused_lasso",
    "l1_ball", "l2_ball", "simplex", "nuclear_norm",
]  # fmt: skip
PENALTIES: tuple[PenaltyKind, ...] = get_args(PenaltyKind)
CANONICAL: frozenset[PenaltyKind] = frozenset(PENALTIES[:7])
"""Penalties that are sums over coordinates or disjoint groups: Newton's method in numpy takes them."""
NORMS: frozenset[PenaltyKind] = frozenset(
    ("l1", "group_lasso", "sparse_group_lasso", "slope", "fused_lasso", "nuclear_norm")
)
"""Penalties with ψ(cx) = c·ψ(x), so that ψ* is 0 or +inf."""
SETS: frozenset[PenaltyKind] = frozenset(("l1_ball", "l2_ball", "simplex"))
LOSSES: tuple[CanonicalLoss, ...] = (
    "logistic", "squared", "huber", "squared_hinge", "multinomial", "quantile", "poisson", "squared_outputs",
)  # fmt: skip
OUTSIDE = 1e-12  # of the radius: what rounding may leave of a projection outside its set
STEPS = 60  # of Newton's method in the free coordinates: it ends by itself after a handful
POLISHES = 3  # steps that are judged by slopes, once f is lost in rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Attack:
    """One problem: arrays and numbers, and in ``tags`` what is hostile about it."""

    seed: int
    X: Any
    y: Array
    loss: CanonicalLoss
    penalty: PenaltyKind
    l1: Array
    """One number for each feature and output, as ``l2``, ``lower`` and ``upper``."""
    l2: Array
    lower: Array
    upper: Array
    labels: Ints
    """The group of each coordinate of the features, row after row; -1 for none."""
    strengths: Array
    """λ_g of every group."""
    strength: float = 0.0
    """Of SLOPE, the fused lasso and the nuclear norm; the radius of a ball, the total of a simplex."""
    weights: Array | None = None
    """Of SLOPE, largest first."""
    ridge: float = 0.0
    sample_weight: Array | None = None
    intercept: bool = False
    delta: float = 1.0
    level: float = 0.5
    clients: int = 0
    """Of a federation, in equal parts; 0 leaves them to chance."""
    tags: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        if self.loss == "multinomial":
            return int(self.y.max()) + 1
        return self.y.shape[1] if self.loss == "squared_outputs" else 1

    @property
    def features(self) -> int:
        return int(self.X.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of x in the package: a vector, or a matrix where the loss has several outputs."""
        rows = self.features + self.intercept
        several = self.loss in ("multinomial", "squared_outputs")
        return (rows, self.outputs) if several else (rows,)

    def with_(self, **changes: Any) -> Attack:
        return replace(self, **changes)

    # --- f, and what of ψ is a sum over coordinates and disjoint groups -------------------------

    @cached_property
    def model(self) -> Canonical:
        """f + ψ where ψ is canonical; else without the part that ``rest`` has."""
        n, d = self.X.shape
        A: Any = self.X.astype(np.float64)
        if self.intercept:
            one: Any = np.ones((n, 1))
            A = sp.csr_matrix(sp.hstack((A, one))) if is_sparse(A) else np.hstack((A, one))
        size, own = A.shape[1] * self.outputs, d * self.outputs

        def spread(values: Array, outside: float) -> Array:
            full = np.full(size, outside)
            full[:own] = np.broadcast_to(values, (d, self.outputs)).ravel()
            return full

        l1, labels = spread(self.l1, 0.0), np.full(size, -1, dtype=np.int64)
        strengths = l1[l1 > 0]
        if self.penalty == "group_lasso":
            number = np.where(self.strengths > 0, np.cumsum(self.strengths > 0) - 1, -1)
            labels[:own] = np.where(self.labels >= 0, number[self.labels], -1)
            strengths = self.strengths[self.strengths > 0]
        else:
            labels[l1 > 0] = np.arange(strengths.size)
        given = np.ones(n) if self.sample_weight is None else self.sample_weight
        share = given / given.max()
        return Canonical(
            A, self.y.astype(np.float64), share / share.sum(), self.outputs, self.loss, self.delta,
            spread(self.l2 + self.ridge, 0.0), spread(self.lower, -np.inf), spread(self.upper, np.inf),
            labels, strengths, self.level,
        )  # fmt: skip

    @cached_property
    def extended(self) -> Canonical:
        return self.model.extended()

    @cached_property
    def at_zero(self) -> float:
        """f(0), which accuracies are relative to; 1 where it is 0."""
        m = self.extended
        return float(m.loss_of(m.margins(np.zeros(m.size, dtype=m.w.dtype)))) or 1.0

    def objective(self, x: Array) -> float:
        """P(x); +inf outside a constraint, beyond what rounding leaves of a projection."""
        m, flat = self.extended, np.asarray(x, dtype=np.float64).ravel()
        if np.any(flat < m.lower) or np.any(flat > m.upper):
            return np.inf
        at = flat.astype(m.w.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(m.loss_of(m.margins(at)) + m.penalty_of(at) + self.rest(at))
        return value if np.isfinite(value) else np.inf

    # --- what of ψ is neither -------------------------------------------------------------------

    def inner(self, x: Array) -> Array:
        """The rows of the features."""
        return x.reshape(-1, self.outputs)[: self.features]

    def rest(self, x: Array) -> Any:
        """ψ(x) without what ``model`` has of it."""
        u = self.inner(x)
        if self.penalty == "sparse_group_lasso":
            return self.strengths @ self.norms(u.ravel())
        if self.penalty == "slope":
            magnitudes = -np.sort(-np.abs(u.ravel()))
            return self.strength * (np.asarray(self.weights) @ magnitudes)
        if self.penalty == "fused_lasso":
            return self.strength * np.abs(np.diff(u, axis=0)).sum()
        if self.penalty == "nuclear_norm":
            return self.strength * np.linalg.svd(u.astype(np.float64), compute_uv=False).sum()
        if self.penalty in SETS:
            return 0.0 if self._outside(u) <= OUTSIDE * self.strength else np.inf
        return 0.0

    def _outside(self, u: Array) -> float:
        if self.penalty == "l1_ball":
            return float(np.abs(u).sum()) - self.strength
        if self.penalty == "l2_ball":
            return float(np.sqrt((u * u).sum())) - self.strength
        return float(max(-u.min(), abs(u.sum() - self.strength)))

    def norms(self, u: Array) -> Array:
        """‖u_g‖ of every group of the features."""
        squares = np.zeros(self.strengths.size, dtype=u.dtype)
        inside = self.labels >= 0
        np.add.at(squares, self.labels[inside], u[inside] ** 2)
        return np.sqrt(squares)

    def excess(self, v: Array, value: float) -> float:
        """An upper bound on sup { ⟨v, u⟩ - ψ(u) : ψ(u) ≤ value }, of a penalty that is not canonical, ridge left out."""
        flat = np.asarray(v, dtype=np.float64).ravel()
        if self.penalty == "l1_ball":
            return self.strength * float(np.abs(flat).max())
        if self.penalty == "l2_ball":
            return self.strength * float(np.linalg.norm(flat))
        if self.penalty == "simplex":
            return self.strength * float(flat.max())
        return value * max(self.dual_norm(flat) - 1.0, 0.0)

    def dual_norm(self, v: Array) -> float:
        """The least t with ⟨v, u⟩ ≤ t·ψ(u) for all u, for a penalty that is a norm; an upper bound, and +inf where unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.penalty == "slope":
                sums = np.cumsum(-np.sort(-np.abs(v)))
                ratios = sums / (self.strength * np.cumsum(np.asarray(self.weights)))
                return float(np.nan_to_num(ratios, nan=0.0, posinf=np.inf).max())
            if self.penalty == "nuclear_norm":
                return float(np.linalg.norm(v.reshape(-1, self.outputs), 2)) / self.strength
            if self.penalty == "sparse_group_lasso":
                return self._sparse_group_norm(v)
            if self.penalty == "fused_lasso":
                return max(map(self._fused_norm, v.reshape(-1, self.outputs).T))
            held = np.broadcast_to(self.l1, (self.features, self.outputs)).ravel()
            if self.penalty == "group_lasso":
                held, v = self.strengths, self.norms(v)
            # what nothing holds is taken to be at its minimum, and has no slope
            return float(np.max(np.abs(v[held > 0]) / held[held > 0], initial=0.0))

    def _sparse_group_norm(self, v: Array) -> float:
        """By bisection: the least t with ‖soft(v_g, t·l1)‖ ≤ t·λ_g in every group."""
        l1 = np.broadcast_to(self.l1, (self.features, self.outputs)).ravel()
        inside = self.labels >= 0

        def holds(t: float) -> bool:
            soft = np.where(inside, np.maximum(np.abs(v) - t * l1, 0.0), 0.0)
            return bool(np.all(self.norms(soft) <= t * self.strengths))

        high = 1.0
        while not holds(high):
            high *= 2.0
            if high > 1e300:
                return np.inf
        low = 0.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _fused_norm(self, v: Array) -> float:
        """By a linear program: v = e + Dᵀz with |e| ≤ t·l1 and |z| ≤ t·strength; t is then read off z."""
        d, l1 = v.size, float(self.l1.flat[0])
        unit = float(np.abs(v).max())
        if unit == 0.0:
            return 0.0
        if d == 1:
            return unit / l1 if l1 > 0 else np.inf
        down: Any = -np.ones(d - 1)
        up: Any = np.ones(d - 1)
        D = sp.csr_matrix(sp.diags_array([down, up], offsets=[0, 1], shape=(d - 1, d)))
        push, shift = D.T * self.strength, sp.csr_matrix(np.full((d, 1), l1))
        edge = sp.csr_matrix(np.ones((d - 1, 1)))
        rows = [sp.hstack([sign * push, -shift]) for sign in (-1, 1)]
        rows += [sp.hstack([sign * sp.eye_array(d - 1), -edge]) for sign in (1, -1)]
        cost = np.zeros(d)
        cost[-1] = 1.0
        solve: Any = linprog
        found = solve(
            cost, A_ub=sp.vstack(rows),
            b_ub=np.concatenate([-v / unit, v / unit, np.zeros(2 * (d - 1))]), bounds=(None, None),
        )  # fmt: skip
        if found.status != 0:
            return np.inf
        z = found.x[:-1] * unit  # in units of the strength
        left = np.abs(v - D.T @ (self.strength * z)).max()
        bound = left / l1 if l1 > 0 else (0.0 if left == 0 else np.inf)
        return float(max(bound, np.abs(z).max(initial=0.0)))

    # --- the bound ------------------------------------------------------------------------------

    @cached_property
    def loose(self) -> NDArray[np.bool_]:
        """Coordinates that ψ does not hold: intercepts, and features without a strength or a bound."""
        grid = np.ones((self.features + self.intercept, self.outputs), dtype=bool)
        own = grid[: self.features]
        if self.penalty in CANONICAL or self.penalty == "sparse_group_lasso":
            own &= (self.l1 == 0) & (self.l2 == 0) & np.isinf(self.lower) & np.isinf(self.upper)
            if self.strengths.size:
                held = (self.labels >= 0) & (self.strengths[self.labels] > 0)
                own &= ~held.reshape(own.shape)
        else:
            own[:] = False
        return grid.ravel()

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Those among them that no ridge holds either."""
        return np.asarray(self.loose & (self.model.l2 == 0))

    def settled(self, x: Array) -> Array:
        """x with the free coordinates at their own minimum: Newton's method in numpy, in extended precision."""
        m = self.extended
        at = np.asarray(x, dtype=np.float64).ravel().astype(m.w.dtype)
        columns = np.flatnonzero(self.free.reshape(-1, self.outputs).any(axis=1))
        if not columns.size:
            return at
        dense = m.A[:, columns].toarray() if is_sparse(m.A) else m.A[:, columns]
        return _settled(m, at, np.asarray(dense), self.free, columns)

    def bounds(self, x: Array) -> tuple[float, float]:
        """P at a point that is no worse than x, and a lower bound on P*; (inf, -inf) where x is not feasible."""
        first = self.objective(x)
        if not np.isfinite(first):
            return np.inf, -np.inf
        with np.errstate(all="ignore"):
            at = self.settled(x)
            upper = self.objective(at.astype(np.float64))
            if not upper <= first:
                at, upper = np.asarray(x, dtype=np.float64).ravel().astype(at.dtype), first
            lower = [self._canonical_bound(at) if self.penalty in CANONICAL else self._bound(at)]
            if self.penalty in NORMS and not self.ridge:
                lower.append(self._scaled_bound(at))
        return upper, max((bound for bound in lower if np.isfinite(bound)), default=-np.inf)

    def _canonical_bound(self, at: Array) -> float:
        model, c, _ = scaled(self.extended, False)
        grid = at.reshape(-1, self.outputs) * c[:, None]
        return bracket(model, grid.ravel())[1]

    def _bound(self, at: Array) -> float:
        """With v = -∇f, and the ridge's share v₂ = ridge·x of it: sup ≤ excess(v - v₂) + ‖v₂‖²/(2·ridge)."""
        m = self.extended
        z = m.margins(at)
        g, f = m.pull(m.slopes(z)), float(m.loss_of(z))
        value = f + float(m.penalty_of(at) + self.rest(at))
        held, ridged = ~self.loose, self.loose & ~self.free
        v = np.where(held, -g - m.l2 * at, 0.0)[: self.features * self.outputs]
        cost = self.excess(v, value) + float((m.l2 * at * at)[held].sum()) / 2
        cost += float((g[ridged] ** 2 / m.l2[ridged]).sum()) / 2
        return f - float(g @ at) - cost - self._left(at, g)

    def _scaled_bound(self, at: Array) -> float:
        """-Σ w_i l*(αs_i, y_i), with s the slopes at the point and α ≤ 1 the largest for which ψ*(-α∇f) = 0."""
        m = self.extended
        s = m.slopes(m.margins(at))
        g = m.pull(s)
        held = np.where(self.free, 0.0, g)[: self.features * self.outputs]
        alpha = 1.0 / max(1.0, self.dual_norm(held.astype(np.float64)) * (1.0 + 1e-14))
        w = m.w if s.ndim == 1 else m.w[:, None]
        own = alpha * np.where(w > 0, s / np.where(w > 0, w, 1), 0)
        return -float(m.w @ _conjugate(m, own)) - self._left(at, alpha * g)

    def _left(self, at: Array, g: Array) -> float:
        """What slopes of free coordinates, which should vanish, could lower P by: they are trusted to stay near."""
        c = np.repeat(np.sqrt(mean_squares(self.model.A)), self.outputs)
        c = np.where(c > 0, c, 1.0)
        far = TRUST * (float(np.abs(at * c).max()) + float(np.abs(self.y).max())) / c
        return float((np.abs(g) * far)[self.free].sum())


def _conjugate(m: Canonical, s: Array) -> Array:
    """l*(s, y) of every sample, for slopes between those of a point and zero."""

    def entropy(p: Array) -> Array:
        return np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)

    y = m.y
    if m.loss == "multinomial":
        p = s.copy()
        p[np.arange(len(y)), y.astype(int)] += 1
        return np.asarray(entropy(p).sum(axis=1))
    if m.loss == "logistic":
        return entropy(-y * s) + entropy(1 + y * s)
    if m.loss == "squared_hinge":
        return np.asarray(s * s / 2 + y * s)
    if m.loss == "poisson":
        return entropy(s + y) - entropy(y) - s
    if m.loss == "squared_outputs":
        return np.asarray((s * s / 2 + s * y).sum(axis=1))
    width = m.delta if m.loss == "quantile" else 1.0
    return np.asarray(width * s * s / 2 + s * y)


def _settled(m: Canonical, at: Array, A: Array, free: NDArray[np.bool_], columns: Ints) -> Array:
    K = m.outputs
    moving = free.reshape(-1, K)[columns]
    norms = np.sqrt((A.astype(np.float64) ** 2).mean(axis=0))
    norms = np.where(norms > 0, norms, 1.0)
    z, x = m.margins(at), at.copy()
    value, damping = m.loss_of(z), 0.0

    def slopes(z: Array) -> Array:
        """∂f of the moving coordinates, in units of their columns."""
        return np.where(moving, (A.T @ m.slopes(z).reshape(len(z), K)) / norms[:, None], 0)

    def towards(z: Array, damping: float) -> Array:
        """The damped Newton step from margins z."""
        g = slopes(z).astype(np.float64)
        return _step(m, A.astype(np.float64) / norms, z, g, moving, damping) / norms[:, None]

    def moved(x: Array, step: Array) -> Array:
        grid = x.copy().reshape(-1, K)
        grid[columns] += step.astype(x.dtype)
        return grid.reshape(x.shape)

    for _ in range(STEPS):
        step = towards(z, damping)
        change = (A @ step.astype(A.dtype)).reshape(z.shape)
        length, found = 1.0, np.inf
        while length > 1e-8:
            found = m.loss_of(z + length * change)
            if found < value:
                break
            length /= 4
        if not found < value:
            if damping >= 1.0:
                break
            damping = min(1.0, max(100 * damping, 1e-8))
            continue
        gained, x = value - found, moved(x, length * step)
        z = m.margins(x)
        value = m.loss_of(z)
        damping = damping / 100 if length == 1.0 else damping
        if gained <= 1e-19 * abs(value):
            break
    for _ in range(POLISHES):  # f no longer tells points apart, but its slopes do
        new = moved(x, towards(z, 0.0))
        then = m.margins(new)
        if not np.abs(slopes(then)).max(initial=0.0) < np.abs(slopes(z)).max(initial=0.0):
            break
        x, z = new, then
    return x


def _step(
    m: Canonical, A: Array, z: Array, g: Array, moving: NDArray[np.bool_], damping: float
) -> Array:
    """-H⁻¹g over the moving coordinates, by a triangular factor of the weighted rows, or H where outputs are coupled."""
    n, K = len(z), m.outputs
    z = z.astype(np.float64)
    if m.loss != "multinomial":
        step = np.zeros(g.shape)
        h = np.ones(n) if m.loss == "squared_outputs" else curvature_of(m, z)
        h = m.w.astype(np.float64) * (h + damping * max(1.0, float(np.abs(h).max())) / 4)
        for k in range(K):
            cols = np.flatnonzero(moving[:, k])
            if cols.size:
                rows = np.vstack([np.sqrt(h)[:, None] * A[:, cols], NUDGE * np.eye(cols.size)])
                R = np.linalg.qr(rows, mode="r")
                half = sl.solve_triangular(R, g[cols, k], trans="T")
                step[cols, k] = -sl.solve_triangular(R, half)
        return step
    p = np.exp(z - z.max(axis=1)[:, None])
    p /= p.sum(axis=1)[:, None]
    w = m.w.astype(np.float64)
    H = -np.einsum("n,na,nk,nb,nl->akbl", w, A, p, A, p, optimize=True)
    for k in range(K):
        H[:, k, :, k] += A.T @ ((w * (p[:, k] + damping / 2))[:, None] * A)
    flat = np.flatnonzero(moving.ravel())
    H = H.reshape(A.shape[1] * K, -1)[np.ix_(flat, flat)]
    whole = np.zeros(g.size)
    whole[flat] = -np.linalg.lstsq(H, g.ravel()[flat], rcond=1e-15)[0]
    return whole.reshape(g.shape)
