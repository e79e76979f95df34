"""Passes over the rows for Newton steps: f linearised, its Hessian, products with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.datafit import Datafit
from reshuffle.interruption import WORK, listen
from reshuffle.objective import Array, Visits
from reshuffle.penalties.forms import Form

APART = 1e-6  # of a column's mean square: a variance that leaves ten digits when subtracted
TOGETHER = 1 << 18  # entries of rows that are multiplied at a time: 2 MB
FULL = (
    0.7  # of the values: from here on rows of a sparse matrix are quicker multiplied as dense ones
)


@dataclass(frozen=True, eq=False)
class Linear:
    """f at x: margins, slopes and curvatures of the rows, the gradient, and the value."""

    x: Array
    margins: Array
    slopes: Array
    curvatures: Array
    gradient: Array
    value: float


class Bend(NamedTuple):
    """Curvature of the rows: c_i·factor_i + extra, or factor_i·G(p) + extra·(I - 11ᵀ/K).

    G(p) = (Σp)·diag(p) - ppᵀ is the Laplacian of the weights p_k p_l.
    """

    curvatures: Array
    extra: float = 0.0
    factors: Array | float = 1.0


@dataclass(eq=False)
class Curves:
    """The compiled pieces of a Newton step for the losses of one problem."""

    fit: Datafit
    passes: int = 0
    origin: Array | None = None
    """What is taken from the columns where there is an intercept: their means, where not given."""

    @cached_property
    def stamp(self) -> int:
        from reshuffle.kernels.newton import register_second

        loss, kind = self.fit.loss, type(self.fit.loss)
        return register_second(
            loss.functions, cast(Callable[..., Any], kind.second), kind.expansion
        )

    @property
    def outputs(self) -> int:
        return prod(self.fit.outputs)

    @cached_property
    def weights(self) -> Array:
        """One factor per row."""
        given = self.fit.weights
        return given if given.size else np.ones(self.fit.n)

    # --- passes --------------------------------------------------------------------------------

    def linearise(self, x: Array) -> Linear:
        from reshuffle.kernels.newton import linearise_kernel

        if self.fit.pieces:
            return self._linearised_in_pieces(x)
        if self.fit.multiplies:
            return self._linearised_by_products(x)
        listen()
        p, shape = self.fit, (self.fit.n, *self.fit.outputs)
        margins, slopes, curvatures = (np.empty(shape) for _ in range(3))
        g, total, coefs = np.zeros(p.shape), 0.0, p.scratch()
        kernel, found = linearise_kernel(self.stamp), (margins, slopes, curvatures)
        for rows, targets, weights, *own in p.in_turn(p.quick, p.targets, p.weights, *found):
            total = kernel(
                *rows, targets, weights, p.loss.params, p.bias, x, coefs, 1.0 / p.n, *own, g, total
            )
        self.passes += 1
        return Linear(x, margins, slopes, curvatures, g, float(total / p.n))

    def _linearised_by_products(self, x: Array) -> Linear:
        """The same where margins and gradient are products of matrices."""
        from reshuffle.kernels.newton import expand_kernel

        fit, kernel, total = self.fit, expand_kernel(self.stamp), 0.0
        margins = fit.quick_margins(x)
        slopes, curvatures = np.empty(margins.shape), np.empty(margins.shape)
        beside = (fit.targets, fit.weights, margins, slopes, curvatures)
        for _, targets, weights, *own in fit.in_turn(fit.quick, *beside):
            total = kernel(targets, weights, fit.loss.params, *own, total)
        self.passes += 1
        return Linear(x, margins, slopes, curvatures, fit.combined(slopes), float(total / fit.n))

    def _linearised_in_pieces(self, x: Array) -> Linear:
        """The same on threads, the sums of the pieces added in order."""
        fit = self.fit
        _ = self.stamp  # the loss is made known before threads ask for it
        found = fit.each(lambda part: Curves(part).linearise(x))
        self.passes += 1
        shares = [part.n / fit.n for part in fit.pieces]
        pairs = list(zip(shares, found, strict=True))
        margins = np.concatenate([at.margins for at in found])
        slopes = np.concatenate([at.slopes for at in found])
        curvatures = np.concatenate([at.curvatures for at in found])
        gradient = np.sum([share * at.gradient for share, at in pairs], axis=0)
        value = sum(share * at.value for share, at in pairs)
        return Linear(x, margins, slopes, curvatures, gradient, value)

    def margins(self, d: Array) -> Array:
        """a_iᵀd for every row, and what d has for an intercept."""
        listen()
        self.passes += 1
        return self.fit.quick_margins(d)

    def combine(self, table: Array) -> Array:
        """(1/n) Σ w_i table_i a_iᵀ."""
        listen()
        self.passes += 1
        return self.fit.combined(table)

    def product(self, scales: Array, v: Array) -> Array:
        """(1/n) Σ scales_i a_i a_iᵀ v, for one output."""
        listen()
        self.passes += 1
        return self.fit.bent_product(scales, v)

    def search(
        self, at: Linear, d: Array, change: Array, form: Form, psi: float
    ) -> tuple[float, Array]:
        """The length of the step d, 0 where none lowers P as promised, and where it leads.

        ``change`` is that of the margins, ``psi`` is ψ(x).
        """
        from reshuffle.kernels.search import search_kernel

        p, to = self.fit, np.empty_like(at.x)
        slope = float(np.vdot(at.gradient, d))
        t = search_kernel(self.stamp)(
            form, p.targets, p.weights, p.loss.params, at.margins, change, at.x.reshape(-1),
            d.reshape(-1), slope, at.value, psi, to.reshape(-1), p.scratch(),
        )  # fmt: skip
        return float(t), to

    # --- curvature -----------------------------------------------------------------------------

    def largest(self, at: Linear) -> float:
        """A bound on the curvature of the rows: that of the loss, or of the rows at x where it has none."""
        bound = self.fit.loss.curvature
        return bound if bound < np.inf else float(at.curvatures.max())

    def mean_square(self, change: Array) -> float:
        """(1/n) Σ w_i ‖change_i‖²."""
        return float(np.sum(self.weights * (change**2).T)) / self.fit.n

    def bent(self, bend: Bend, change: Array) -> Array:
        """The Hessian of every row's loss times the change of its margins."""
        curvatures, extra, factors = bend
        if change.ndim == 1:
            return (curvatures * factors + extra) * change
        whole = np.sum(curvatures, axis=1, keepdims=True)
        moved = whole * change - np.sum(curvatures * change, axis=1, keepdims=True)
        plain = change - change.mean(axis=1, keepdims=True)
        bent: Array = np.reshape(factors, (-1, 1)) * curvatures * moved + extra * plain
        return bent

    @cached_property
    def centre(self) -> Array:
        """The mean of each column, which an intercept takes up; zeros where there is none."""
        if not self.fit.bias:
            return np.zeros(self.fit.features)
        if self.origin is not None:
            return self.origin
        means = self.fit.column_means()
        means[self._ones] = 1.0
        return means

    @cached_property
    def _ones(self) -> NDArray[np.bool_]:
        """Columns of ones, where there is an intercept and the rows have no other values."""
        fit = self.fit
        if not (fit.bias and fit.quick.unit and self.origin is None):
            return np.zeros(fit.features, dtype=bool)
        return np.asarray(fit.column_counts == fit.n)

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Columns known to be constant, where there is an intercept; others are found."""
        return self._ones.copy()

    def gram(self, scales: Array, active: Visits) -> Array:
        """Σ scales_i b_i b_iᵀ for rows b_i of the centred active columns (and 1)."""
        p, shift = self.fit, self.centre[active]
        packed = p.quick.dense or self._packs(active)
        gram_of = partial(_product if p.quick.dense else _gathered, active, shift, packed)
        out = np.sum(p.each_with(scales, gram_of), axis=0) if p.pieces else gram_of(p, scales)
        if p.bias and not packed:  # (b - m)(b - m)ᵀ, from bbᵀ
            ones = out[:-1, -1].copy()
            cross = np.multiply.outer(shift, ones)
            out[:-1, :-1] += np.multiply.outer(shift, shift) * out[-1, -1] - cross - cross.T
            out[:-1, -1] -= shift * out[-1, -1]
            out[-1, :-1] = out[:-1, -1]
        if p.bias:  # what rounding leaves of a column that is constant, so a second intercept
            from reshuffle.kernels.whole import CONSTANT

            dust = (CONSTANT**2 if packed else CONSTANT) * shift**2 * out[-1, -1]
            dusty = (out.diagonal()[:-1] <= dust) & (shift != 0.0)
            constant = np.flatnonzero(dusty | self._ones[active])
            out[constant], out[:, constant] = 0.0, 0.0
            self.constant[active[constant]] |= out[-1, -1] > 0.0
        return out

    def _packs(self, active: Visits) -> bool:
        """Whether sparse rows are multiplied as dense ones, less the means of the columns.

        So they are where many values are stored, and where a column hardly differs from its mean:
        entry by entry, the little that is left of it would be lost in rounding. Of ones nothing is left.
        """
        stored = self.fit.column_counts[active]
        if stored.sum() >= FULL * self.fit.n * active.size:
            return True
        full = active[(stored == self.fit.n) & ~self._ones[active]] if self.fit.bias else active[:0]
        if not full.size:
            return False
        variances = self.fit.column_squares[full] - self.centre[full] ** 2
        return bool(np.any(variances <= APART * self.fit.column_squares[full]))

    def hessian(self, bend: Bend, active: Visits) -> Array:
        """(1/n) Σ w_i·(curvature of row i)·b_i b_iᵀ, flat over features and outputs."""
        curvatures, extra, factors = bend
        scales = self.weights / self.fit.n
        self.passes += 1
        if curvatures.ndim == 1:
            return self.gram(scales * (curvatures * factors + extra), active)
        outputs = curvatures.shape[1]
        width = active.size + self.fit.bias
        H = np.zeros((width, outputs, width, outputs))
        for k in range(outputs):
            for other in range(k):
                pair = factors * curvatures[:, k] * curvatures[:, other] + extra / outputs
                G = self.gram(scales * pair, active)
                H[:, k, :, other] = H[:, other, :, k] = -G
                H[:, k, :, k] += G
                H[:, other, :, other] += G
        return H.reshape(width * outputs, width * outputs)


def _product(active: Visits, shift: Array, packed: bool, fit: Datafit, scales: Array) -> Array:
    """Σ scales_i b_i b_iᵀ of dense rows: BᵀB with B = √scales·(rows - shift), some rows at a time."""
    width = active.size + fit.bias
    out, most = np.zeros((width, width)), max(TOGETHER // max(width, 1), 1)
    kept, centred = np.flatnonzero(scales), bool(shift.any())
    roots = np.sqrt(scales[kept])[:, None]
    for start in range(0, kept.size, most):
        listen()
        some = slice(start, start + most)
        A = fit.quick.values[kept[some] if kept.size < scales.size else some]
        A = A if active.size == fit.features else A[:, active]
        B = np.empty((len(A), width))
        np.multiply(A - shift if centred else A, roots[some], out=B[:, : active.size])
        B[:, active.size :] = roots[some]
        out += B.T @ B
    return out


def _gathered(active: Visits, shift: Array, packed: bool, fit: Datafit, scales: Array) -> Array:
    """The same of sparse rows; where they are not ``packed``, nothing is taken off the columns yet."""
    from reshuffle.kernels.columns import ABSENT
    from reshuffle.kernels.gram import gram_kernel
    from reshuffle.kernels.stamp import stamp_of

    place = np.full(fit.features, ABSENT, dtype=np.uint32)
    place[active] = np.arange(active.size, dtype=np.uint32)
    width, kernel = active.size + fit.bias, gram_kernel(stamp_of())
    out, end, most = np.zeros((width, width)), 0, max(2 * WORK // max(width, 1) ** 2, 1)
    while end < scales.size:
        listen()
        stop = min(end + most, scales.size)
        end = kernel(*fit.quick, scales, place, active, shift, fit.bias, packed, end, stop, out)
    return out
