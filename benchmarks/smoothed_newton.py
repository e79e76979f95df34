"""Newton's method on a smoothed problem: an interior-point method for every penalty of the corpus.

A group's λ‖x‖ is min λt over t ≥ ‖x‖; the logarithmic barrier of that cone, minimised over t, leaves

    λt - μ log(2μt/λ),   t = (μ + ρ)/λ,   ρ = √(μ² + λ²‖x‖²),

which is smooth, and at most a few μ away from λ‖x‖. Bounds have their own barriers. μ falls to the level of
rounding; the point is then put on the face of ψ that it is near, and Newton's method without μ ends it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from benchmarks import glm_losses
from benchmarks.canonical import Array, Canonical
from benchmarks.instances import is_sparse

FIRST, LAST = 0.1, 1e-15  # μ, in units of f(0): from far away to the rounding of P
FALL = 0.1  # of μ: the usual factor of path following, not tuned
FACES = (1e-6, 1e-8, 1e-10, 1e-12)  # of f(0): what a coordinate on a face may still contribute
CURVATURE: dict[str, float] = {  # the largest l''
    "logistic": 0.25,
    "squared": 1.0,
    "huber": 1.0,
    "squared_hinge": 1.0,
    "multinomial": 0.5,
    "squared_outputs": 1.0,
    "quantile": 1.0,  # times 1/width, which ``_weights`` knows
    **dict.fromkeys(glm_losses.GLMS, 1.0),  # at z = 0, about: most have no bound
}
STEPS = 100  # of Newton for one μ: a limit; 40 were too few for some Huber losses
INSIDE = 0.99  # of the way to a bound
ROUNDING = 1e-15  # of an objective near 1
LEASH = 1e-3  # times μx²/2: little at x = 30, and columns are scaled so that few are longer
NUDGE = 1e-14  # on the diagonal of a Hessian scaled to diagonal 1, where it may be singular


@dataclass
class Newton:
    """Newton's method for f/f(0) + ψ_μ/f(0), in the coordinates that may move.

    Without μ the gradient is taken in extended precision, so that an ill-conditioned Hessian only costs steps.
    """

    model: Canonical
    unit: float
    """f(0)."""
    damping: float = 1e-3
    """Curvature added to every loss, as a share of the largest it can have: adapted."""

    def __post_init__(self) -> None:
        m = self.model
        self.exact = m.extended()
        self.moving = m.lower < m.upper
        singles = m.strengths.size == np.count_nonzero(m.labels >= 0)
        self.factorable = singles and m.outputs == 1 and self.exact is not m
        self.factored = False

    def value(self, x: Array, mu: float) -> float:
        m = self.model if mu > 0 else self.exact
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = float(m.loss_of(m.margins(x)) + (m.l2 * x * x).sum() / 2) / self.unit
            norms, strengths = m.norms(x), m.strengths / self.unit
            if mu == 0.0:
                return total + float(strengths @ norms)
            total += mu * LEASH * float(x @ x) / 2  # where P is flat, a barrier pushes far away
            t = (mu + np.hypot(mu, strengths * norms)) / strengths
            total += float((strengths * t - mu * np.log(2 * mu * t / strengths)).sum())
            for gap in (x - m.lower, m.upper - x):
                total -= mu * float(np.log(gap[np.isfinite(gap) & self.moving]).sum())
        return total if np.isfinite(total) else np.inf

    def derivatives(self, x: Array, mu: float) -> tuple[Array, Array]:
        """The gradient and the Hessian (the latter with the damping)."""
        m = self.model if mu > 0 else self.exact
        z = m.margins(x)
        g = (m.pull(m.slopes(z)) + m.l2 * x) / self.unit + mu * LEASH * x
        H = self._data_term(z.astype(np.float64)) / self.unit
        diagonal = m.l2 / self.unit + mu * LEASH
        norms, strengths = m.norms(x), m.strengths / self.unit
        rho = np.hypot(mu, strengths * norms)
        rho = np.where(rho > 0, rho, np.inf)  # without μ, a group at zero does not move
        pull = strengths**2 / (mu + rho)  # λ/t
        inside = m.labels >= 0
        own = m.labels[inside]
        g[inside] += pull[own] * x[inside]
        diagonal[inside] += pull[own]
        along = pull * strengths**2 / (rho * (rho + mu))  # of xxᵀ, with a minus
        sizes = np.bincount(own, minlength=strengths.size)
        single = np.zeros(m.size, dtype=bool)
        single[inside] = sizes[own] == 1
        # in the direction of x the curvature is λμ/(tρ), without cancellation for one coordinate
        diagonal[single] += (pull * (mu / rho - 1.0))[m.labels[single]]
        for group in np.flatnonzero(sizes > 1):
            at = np.flatnonzero(m.labels == group)
            H[np.ix_(at, at)] -= along[group] * np.outer(x[at], x[at])
        if mu > 0:
            for gap, sign in ((x - m.lower, -1.0), (m.upper - x, 1.0)):
                near = np.isfinite(gap) & self.moving
                g[near] += sign * mu / gap[near]
                diagonal[near] += mu / gap[near] ** 2
        H[np.diag_indices_from(H)] += diagonal
        return g, H

    def _data_term(self, z: Array) -> Array:
        """Aᵀ diag(w(l'' + damping)) A, by blocks of outputs."""
        m = self.model
        if m.outputs == 1:
            return self._gram(self._weights(z))
        extra = self.damping * CURVATURE[m.loss]
        if m.loss == "squared_outputs":
            H = np.zeros((m.A.shape[1], m.outputs, m.A.shape[1], m.outputs))
            H[:, range(m.outputs), :, range(m.outputs)] = self._gram(m.w * (1 + extra))
            return H.reshape(m.size, m.size)
        p = m.slopes(z) / np.where(m.w > 0, m.w, 1.0)[:, None]
        p[np.arange(len(m.y)), m.y.astype(int)] += 1.0
        H = np.empty((m.A.shape[1], m.outputs, m.A.shape[1], m.outputs))
        for k in range(m.outputs):
            for h in range(k + 1):
                same = float(k == h)
                H[:, k, :, h] = self._gram(m.w * (p[:, k] * (same - p[:, h]) + same * extra))
                H[:, h, :, k] = H[:, k, :, h]
        return H.reshape(m.size, m.size)

    def _weights(self, z: Array) -> Array:
        """w(l'' + damping), the latter as reweighted least squares has it where a residual is long."""
        m, extra = self.model, self.damping * CURVATURE[self.model.loss]
        if m.loss == "huber":
            return m.w * (curvature_of(m, z) + extra / np.maximum(np.abs(z - m.y) / m.delta, 1.0))
        if m.loss == "quantile":
            far = np.maximum(np.abs(z - m.y) / m.delta, 1.0)
            return m.w * (curvature_of(m, z) + extra / (m.delta * far))
        if m.loss in glm_losses.GLMS:
            bent = curvature_of(m, z)
            return m.w * (bent + extra * np.maximum(bent, 1.0))
        return m.w * (curvature_of(m, z) + extra)

    def _gram(self, weights: Array) -> Array:
        A = self.model.A
        if is_sparse(A):
            return np.asarray((A.T @ A.multiply(weights[:, None])).toarray())
        return np.asarray(A.T @ (weights[:, None] * A))

    def descend(self, x: Array, mu: float, free: NDArray[np.bool_], enough: float) -> Array:
        """Newton with a line search in the free coordinates, until it promises ``enough`` or less."""
        value = self.value(x, mu)
        for _ in range(STEPS):
            g, H = self.derivatives(x, mu)
            step = np.zeros_like(x)
            slope = g[free].astype(np.float64)
            if mu == 0.0 and self.factored:
                step[free] = -self._solve_factored(x, free, slope)
            else:
                step[free] = -_solve(H[np.ix_(free, free)], slope)
            promised = -float(g @ step)
            if not promised > enough:
                break
            length = min(1.0, INSIDE * self._room(x, step)) if mu > 0 else 1.0
            while length > 1e-12:
                new = x + length * step
                if mu == 0.0:
                    new = np.clip(new, self.model.lower, self.model.upper)
                found = self.value(new, mu)
                if found <= value - 1e-4 * length * promised + ROUNDING * abs(value):
                    break
                length /= 2
            if length <= 1e-12:
                if self.damping >= 1.0:
                    break
                self.damping = min(1.0, max(10 * self.damping, 1e-6))
                continue
            x, value = new, found
            if length == 1.0:
                self.damping = max(self.damping / 10, 1e-12)  # far below, it does nothing
            elif length < 0.3:
                self.damping = min(1.0, 10 * self.damping)
        return x

    def _solve_factored(self, x: Array, free: NDArray[np.bool_], g: Array) -> Array:
        """As ``_solve``, from a triangular factor of the rows: H itself would square their condition."""
        m = self.model
        weights = self._weights(m.margins(x.astype(np.float64)))
        rows = np.sqrt(weights / self.unit)[:, None] * m.A[:, free]
        ridge = np.sqrt(m.l2[free] / self.unit)
        norms = np.hypot(np.sqrt((rows * rows).sum(axis=0)), ridge)
        norms = np.where(norms > 0, norms, 1.0)
        ridge = np.hypot(ridge / norms, NUDGE)
        R = np.linalg.qr(np.concatenate([rows / norms, np.diag(ridge)]), mode="r")
        half = sl.solve_triangular(R, g / norms, trans="T")
        return np.asarray(sl.solve_triangular(R, half)) / norms

    def _room(self, x: Array, step: Array) -> float:
        """The longest step within the bounds."""
        m = self.model
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(step < 0, (m.lower - x) / step, (m.upper - x) / step)
        ratios = ratios[self.moving & (step != 0)]
        return float(ratios.min()) if ratios.size else np.inf


def minimise(model: Canonical, unit: float) -> Iterator[Array]:
    """Points that come ever nearer to the minimiser: the last of the smoothed ones, then polished ones."""
    newton = Newton(model, unit)
    moving, mu = newton.moving, FIRST
    x = _inside(model.lower, model.upper)
    while mu > LAST:
        x = newton.descend(x, mu, moving, max(1e-2 * mu, 1e-17))
        mu *= FALL
    yield x
    for factored in (False, True) if newton.factorable else (False,):
        newton.factored = factored
        for share in FACES:
            y, free = _on_face(model, unit, x, share)
            free &= moving
            newton.damping = 1e-10  # near the end the Hessian itself is the best
            y = y.astype(newton.exact.w.dtype)
            yield newton.descend(y, 0.0, free, 0.0) if free.any() else y


def _inside(lower: Array, upper: Array) -> Array:
    """A point well within the bounds, zero where that is one."""
    x = np.zeros(lower.size)
    both = np.isfinite(lower) & np.isfinite(upper)
    x[both] = (lower[both] + upper[both]) / 2
    x = np.where(~both & np.isfinite(lower) & (lower >= 0), lower + 1.0, x)
    return np.where(~both & np.isfinite(upper) & (upper <= 0), upper - 1.0, x)


def _on_face(
    model: Canonical, unit: float, x: Array, share: float
) -> tuple[Array, NDArray[np.bool_]]:
    """x with what is nearly zero or nearly at a bound put there, and what is free to move."""
    y, free = x.copy(), np.ones(x.size, dtype=bool)
    inside = model.labels >= 0
    small = model.strengths * model.norms(x) < share * unit
    free[inside] &= ~small[model.labels[inside]]
    y[~free] = 0.0
    slopes = np.abs(model.pull(model.slopes(model.margins(x))) + model.l2 * x)
    for bound in (model.lower, model.upper):
        with np.errstate(invalid="ignore"):
            near = np.isfinite(bound) & (slopes * np.abs(x - bound) < share * unit)
            near &= np.abs(x - bound) < 1e-3 * (1.0 + np.abs(bound))
        y[near], free[near] = bound[near], False
    return np.clip(y, model.lower, model.upper), free


def curvature_of(m: Canonical, z: Array) -> Array:
    if m.loss == "logistic":
        e = np.exp(-np.abs(z))
        return np.asarray(e / (1 + e) ** 2)
    if m.loss == "squared_hinge":
        return (m.y * z < 1).astype(float)
    if m.loss in glm_losses.GLMS:
        return glm_losses.curvature(m.loss, z, m.y)
    if m.loss == "quantile":
        s = (z - m.y) / m.delta
        return ((s >= -m.level) & (s <= 1 - m.level)) / m.delta
    return np.ones(len(z)) if m.loss == "squared" else (np.abs(z - m.y) <= m.delta).astype(float)


def _solve(H: Array, g: Array) -> Array:
    """H⁻¹g with the diagonal scaled to 1; a singular H is nudged."""
    scale = 1.0 / np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    S = scale[:, None] * H * scale
    nudge = NUDGE
    while nudge < 1.0:
        S[np.diag_indices_from(S)] = 1.0 + nudge
        try:
            return scale * np.asarray(sl.cho_solve(sl.cho_factor(S), scale * g))
        except np.linalg.LinAlgError:
            nudge *= 10
    return g * scale**2
