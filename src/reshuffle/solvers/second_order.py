"""f to second order: its linearisation, its Hessian, products with the Hessian, and line searches."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array, Visits
from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.datafit import Datafit
from reshuffle.interruption import listen

NOT_KNOWN = np.empty(0)
NO_COUNTS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Linearisation:
    """f at x: margins, slopes and curvatures of the rows, the gradient, and the value."""

    x: Array
    margins: Array
    slopes: Array
    curvatures: Array
    gradient: Array
    value: float


class RowCurvature(NamedTuple):
    """Curvature of the rows: c_i·factor_i + extra, or factor_i·G(p) + extra·(I - 11ᵀ/K).

    G(p) = (Σp)·diag(p) - ppᵀ is the Laplacian of the weights p_k p_l.
    """

    curvatures: Array
    extra: float = 0.0
    factors: Array | float = 1.0


@dataclass(eq=False)
class SecondOrder:
    """The losses of one problem to second order; calls of the core can be interrupted."""

    fit: Datafit
    origin: Array | None = None
    """The point at which columns are centred if there is an intercept; by default their means."""

    @cached_property
    def system(self) -> native.RowMajor:
        """The core's view of the rows for Newton steps."""
        fit, loss = self.fit, self.fit.loss
        counts = NO_COUNTS if fit.quick.dense else fit.column_counts
        return native.RowMajor(
            fit.core, float(loss.curvature), float(loss.self_concordance), loss.quadratic,
            fit.threads or 0, self.centre, self._ones, counts,
            vars(fit).get("column_squares", NOT_KNOWN), listen,
        )  # fmt: skip

    @property
    def passes(self) -> int:
        """Passes over all rows so far."""
        return int(self.system.passes)

    @property
    def outputs(self) -> int:
        return prod(self.fit.outputs)

    @cached_property
    def weights(self) -> Array:
        """One factor per row."""
        given = self.fit.weights
        return given if given.size else np.ones(self.fit.n)

    # --- passes --------------------------------------------------------------------------------

    def linearise(self, x: Array) -> Linearisation:
        listen()
        shape, g = (self.fit.n, *self.fit.outputs), np.empty(self.fit.shape)
        margins, slopes, curvatures = np.empty(shape), np.empty(shape), np.empty(shape)
        value = self.system.linearise(self.fit.checked(x), margins, slopes, curvatures, g)
        self.fit.raise_own_errors()
        return Linearisation(x, margins, slopes, curvatures, g, value)

    def margins(self, d: Array) -> Array:
        """a_iᵀd for every row, plus the intercept of d."""
        listen()
        out = np.empty((self.fit.n, *self.fit.outputs))
        self.system.margins(self.fit.checked(d), out)
        return out

    def combine(self, table: Array) -> Array:
        """(1/n) Σ w_i table_i a_iᵀ."""
        listen()
        out = np.empty(self.fit.shape)
        self.system.combine(table, out)
        return out

    def product(self, scales: Array, v: Array) -> Array:
        """(1/n) Σ scales_i a_i a_iᵀ v, for one output."""
        listen()
        self.system.passes += 1
        return self.fit.bent_product(scales, v)

    def hessian_product(self, at: Linearisation, v: Array) -> Array:
        """∇²f(x)·v, for one output."""
        return self.product(self.weights * at.curvatures, v)

    def mean_curvature(self, at: Linearisation) -> float:
        """(1/n) Σ w_i l''_i, for one output."""
        return float(np.vdot(self.weights, at.curvatures)) / self.fit.n

    def array(self, numbers: Array) -> Array:
        """The numbers as an array on the device of x; here that is the processor."""
        return numbers

    def dot(self, a: Array, b: Array) -> float:
        return float(np.vdot(a, b))

    def search(
        self, at: Linearisation, d: Array, change: Array, form: native.Form, psi: float
    ) -> tuple[float, Array]:
        """The length of the step along d (0 if none lowers P as promised), and its end point.

        ``change`` is the change of the margins, ``form`` the compiled form of ψ, and ``psi`` is ψ(x).
        """
        to, slope = np.empty_like(at.x), float(np.vdot(at.gradient, d))
        t = native.search(
            self.fit.core, form, at.margins, change, at.x, d, slope, at.value, psi, to
        )
        return t, to

    # --- curvature -----------------------------------------------------------------------------

    def largest(self, at: Linearisation) -> float:
        """A bound on the curvature of the rows: the loss's, or if it has none, the largest curvature at x."""
        bound = self.fit.loss.curvature
        return bound if bound < np.inf else float(at.curvatures.max())

    def mean_square(self, change: Array) -> float:
        """(1/n) Σ w_i ‖change_i‖²."""
        return float(np.sum(self.weights * (change**2).T)) / self.fit.n

    def bent(self, bend: RowCurvature, change: Array) -> Array:
        """The Hessian of every row's loss times the change of its margins."""
        out = np.empty_like(change)
        self.system.bent(bend.curvatures, self._factors(bend), bend.extra, change, out)
        return out

    def gram(self, scales: Array, active: Visits) -> Array:
        """Σ scales_i b_i b_iᵀ for rows b_i of the centred active columns (and 1)."""
        listen()
        width = active.size + self.fit.bias
        out = np.empty((width, width))
        self.system.gram(scales, active, out)
        return out

    def hessian(
        self, bend: RowCurvature, active: Visits, kept: NDArray[np.int64] | None = None
    ) -> Array:
        """(1/n) Σ w_i·(curvature of row i)·b_i b_iᵀ, flattened over features and outputs, for the ``kept`` coordinates."""
        listen()
        if kept is None:
            kept = np.arange((active.size + self.fit.bias) * self.outputs)
        out = np.empty((kept.size, kept.size))
        self.system.hessian(bend.curvatures, self._factors(bend), bend.extra, active, kept, out)
        return out

    def packs(self, active: Visits) -> bool:
        """Whether these columns are multiplied as dense, centred columns, however they are stored."""
        return bool(self.system.packs(active))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """The columns found to be constant, if there is an intercept."""
        return np.frombuffer(self.system.constant, dtype=np.bool_)

    def _factors(self, bend: RowCurvature) -> Array:
        return np.array(np.broadcast_to(bend.factors, self.fit.n), dtype=np.float64)

    @cached_property
    def centre(self) -> Array:
        """The mean of each column, which an intercept absorbs; zeros if there is no intercept."""
        if not self.fit.bias:
            return np.zeros(self.fit.features)
        if self.origin is not None:
            return self.origin
        means = self.fit.column_means()
        means[self._ones] = 1.0
        return means

    @cached_property
    def _ones(self) -> NDArray[np.bool_]:
        """The columns of ones, if there is an intercept and all stored values are 1."""
        fit = self.fit
        if not (fit.bias and fit.quick.unit and self.origin is None):
            return np.zeros(fit.features, dtype=bool)
        return np.asarray(fit.column_counts == fit.n)
