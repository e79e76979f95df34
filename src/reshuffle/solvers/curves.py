"""Passes over the rows for Newton steps: f linearised, its Hessian, products with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.datafit import Datafit
from reshuffle.interruption import listen
from reshuffle.objective import Array, Visits
from reshuffle.penalties.forms import Form
from reshuffle.solvers.products import NARROW, between, dense_gram, kernel_gram

APART = 1e-6  # of a column's mean square: a variance that leaves ten digits when subtracted
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
    apart: ClassVar[bool] = False
    """Whether the Hessian has no entry between two outputs."""
    shifts: ClassVar[bool] = True
    """Whether a common shift of several outputs changes nothing, as with softmax."""

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
        wide = p.quick.dense and active.size > NARROW
        gram_of = partial(dense_gram if wide else kernel_gram, active, shift, packed)
        out = np.sum(p.each_with(scales, gram_of), axis=0) if p.pieces else gram_of(p, scales)
        if p.bias and not packed:  # (b - m)(b - m)ᵀ, from bbᵀ
            ones = out[:-1, -1].copy()
            cross = np.multiply.outer(shift, ones)
            out[:-1, :-1] += np.multiply.outer(shift, shift) * out[-1, -1] - cross - cross.T
            out[:-1, -1] -= shift * out[-1, -1]
            out[-1, :-1] = out[:-1, -1]
        if p.bias:  # what rounding leaves of a column that is constant, so a second intercept
            from reshuffle.kernels.laid import CONSTANT

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

    def hessian(self, bend: Bend, active: Visits, kept: NDArray[np.int64] | None = None) -> Array:
        """(1/n) Σ w_i·(curvature of row i)·b_i b_iᵀ, flat over features and outputs; of it, what is ``kept``."""
        curvatures, extra, factors = bend
        scales = self.weights / self.fit.n
        self.passes += 1
        if curvatures.ndim == 1:
            return self.gram(scales * (curvatures * factors + extra), active)
        outputs = curvatures.shape[1]
        width = active.size + self.fit.bias
        kept = np.arange(width * outputs) if kept is None else kept
        if self.fit.quick.dense:
            return self._blocks(bend, active, *np.divmod(kept, outputs))
        H = np.zeros((width, outputs, width, outputs))
        for k in range(outputs):
            for other in range(k):
                pair = factors * curvatures[:, k] * curvatures[:, other] + extra / outputs
                G = self.gram(scales * pair, active)
                H[:, k, :, other] = H[:, other, :, k] = -G
                H[:, k, :, k] += G
                H[:, other, :, other] += G
        return H.reshape(width * outputs, width * outputs)[np.ix_(kept, kept)]

    def _blocks(
        self, bend: Bend, active: Visits, feature: NDArray[np.int64], output: NDArray[np.int64]
    ) -> Array:
        """The Hessian of dense rows and several outputs, in some coordinates: their active feature, and output.

        Between outputs it is one product of matrices, -Σ_i (p_ik b_i)(p_il b_i)ᵀ; of one output it is a Gram
        matrix with the weights p_k Σ_{l ≠ k} p_l, a sum that loses nothing where p_k is next to one.
        """
        p, extra, factors = bend
        outputs, scales = p.shape[1], self.weights / self.fit.n
        roots = np.sqrt(scales * factors)[:, None] * p
        pairs = partial(between, active, self.centre[active], feature, output)
        pieces = self.fit.each_with(roots, pairs) if self.fit.pieces else [pairs(self.fit, roots)]
        H: Array = -np.sum(pieces, axis=0)
        if extra > 0.0:
            H -= self.gram(scales * extra / outputs, active)[np.ix_(feature, feature)]
        before, after = np.zeros(p.shape), np.zeros(p.shape)
        np.cumsum(p[:, :-1], axis=1, out=before[:, 1:])
        np.cumsum(p[:, :0:-1], axis=1, out=after[:, -2::-1])
        for k in range(outputs):
            own = np.flatnonzero(output == k)
            some = feature[own[feature[own] < active.size]]
            each = factors * p[:, k] * (before[:, k] + after[:, k]) + extra * (1.0 - 1.0 / outputs)
            H[np.ix_(own, own)] = self.gram(scales * each, active[some])
        dead = np.append(self.constant[active], False)[feature]
        H[dead], H[:, dead] = 0.0, 0.0
        return H
