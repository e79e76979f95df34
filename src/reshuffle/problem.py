"""The problem of regularised learning: a finite sum given by data, a loss and a penalty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.arrays import AnyArray, Array, Ends, Noise, Visits
from reshuffle.cached import cached_property, keep
from reshuffle.capacity import check_unknown
from reshuffle.core import native
from reshuffle.datafit import ALONE, NO_VISITS, Copies, Datafit, Steps
from reshuffle.design import check_rows
from reshuffle.digests import digest
from reshuffle.disk_datafit import datafit_on
from reshuffle.errors import InputError
from reshuffle.losses import Logistic, Loss, check_loss
from reshuffle.losses.offsets import check_offsets
from reshuffle.losses.targets import check_targets
from reshuffle.objective import FiniteSum, Objective, check_penalty, check_ridge
from reshuffle.penalties import Penalty, ability
from reshuffle.penalties.abilities import compiled_form
from reshuffle.penalties.forms import NO_PENALTY, Form, native_form
from reshuffle.rows import Rows
from reshuffle.smoothness import Smoothness
from reshuffle.validation import (
    check_finite,
    check_number,
    check_positive,
    check_vector,
    check_visits,
    check_weights,
    mean_weight,
    read_only,
)

CLEAR = 1e-9
"""The sign of a margin is certain, in spite of rounding, if it exceeds this share of the largest one."""


class ProblemOfRows(Objective):
    """What problems with losses of margins a_iᵀx + b have in common, wherever the rows lie."""

    datafit: Any

    @property
    def features(self) -> int:
        features: int = self.datafit.features
        return features

    @property
    def loss(self) -> Loss:
        loss: Loss = self.datafit.loss
        return loss

    @property
    def fit_intercept(self) -> bool:
        return bool(self.datafit.bias)

    @cached_property
    def form(self) -> Form | None:
        """ψ in the form that the kernels read, if it can be compiled."""
        return compiled_form(self.penalty, (self.features, *self.shape[1:]))

    @cached_property
    def form_with_ridge(self) -> Form | None:
        """As ``form``, with (ridge/2)‖x‖² added."""
        if self.ridge == 0.0:
            return self.form
        return compiled_form(self.penalty, (self.features, *self.shape[1:]), self.ridge)

    @property
    def can_recede(self) -> bool:  # type: ignore[override]
        return self.loss.recedes is not None

    def recedes(self, x: Array) -> bool:
        """Whether x classifies every row correctly, so that P(tx) falls as t grows; False if the loss cannot tell."""
        if (falls := self.loss.recedes) is None:
            return False
        fit = self.datafit
        z, w = fit.margins(x), fit.weights
        away = falls(z, fit.targets, CLEAR * float(abs(z).max()))
        return bool((away | (w == 0.0) if len(w) else away).all())


class Problem(ProblemOfRows, FiniteSum):
    """P(x) = (1/n) Σ_i f_i(x) + ψ(x),  f_i(x) = w_i·l(a_iᵀx + b + o_i, y_i) + (ridge/2)‖x‖².

    Parameters
    ----------
    X : matrix, rows are samples: a C-ordered array or a CSR matrix, float64 or float32, or the X of
        ``datasets.open_shards``, whose rows stay on disk. It is never copied, also if it is
        read-only or memory-mapped. Other layouts and types are converted once, with a
        ``ConversionWarning`` if that copies float data. 64-bit CSR indices are narrowed to
        32 bits if they fit.
    y : targets in the form for the loss: -1/+1 (or 0/1), real numbers, or classes 0 … K-1. For ``Squared``
        also a matrix with a column per output; the unknown then has as many columns.
    loss : a loss of ``reshuffle.losses``, or your own; logistic by default.
    penalty : ψ, any object with ``value(x)`` and ``prox(x, step)``; none by default.
    ridge : adds (ridge/2)‖x‖² to each f_i. On sparse rows this does not make a step more expensive.
    sample_weight : one non-negative weight per row. The objective is the weighted mean of the losses,
        w_i = n·sample_weight_i/Σ sample_weight; gradients and L_i carry the same factor.
    offset : one known number o_i per row, which is added to the margin; by default 0. The coefficients
        explain the rest.
    exposure : one positive number e_i per row, such as years under risk: the offset log(e_i), for losses whose mean
        is the exponential of the margin (``Poisson``, ``Gamma``, ``Tweedie``, …). The targets are then totals, not
        rates, and weights do not change, as in the GLM of statsmodels. If offset and exposure are given, they add up.
    fit_intercept : adds b, the last entry (row, for a matrix unknown) of x. Neither the penalty nor
        the ridge includes it.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X, y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, -1.0])
    >>> problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.1))
    >>> problem.objective(np.zeros(2)) - np.log(2)
    np.float64(0.0)
    >>> problem.smoothness.individual  # ¼‖a_i‖²
    array([0.25, 1.  ])
    >>> problem.lambda_max()  # times L1(0.1): from L1(0.5) on, x = 0 is the minimiser
    5.0
    """

    datafit: Datafit
    weight: float
    """The mean of the given sample weights, by which a federation weighs its clients."""

    def __init__(
        self,
        X: object,
        y: ArrayLike,
        loss: Loss | None = None,
        penalty: object = None,
        ridge: float = 0.0,
        sample_weight: object = None,
        fit_intercept: bool = False,
        offset: object = None,
        exposure: object = None,
    ) -> None:
        loss = check_loss(Logistic() if loss is None else loss).for_targets(y)
        self.ridge = check_ridge(ridge)
        rows, n, features = check_rows(X)
        targets = check_targets(y, n, loss)
        weights = check_weights(sample_weight, n)
        self.weight = mean_weight(sample_weight)
        offsets = check_offsets(offset, exposure, n, loss)
        outputs, bias = loss.kind.outputs(targets), bool(fit_intercept)
        check_unknown((features + bias, *outputs))
        self.datafit = datafit_on(rows, targets, weights, loss, bias, features, outputs, offsets)
        self.penalty = check_penalty(penalty)
        self.form  # noqa: B018 -- it says so where arrays of the penalty do not fit

    def __repr__(self) -> str:
        return (
            f"<Problem: {self.n} x {self.features} {self.rows.layout} {self.rows.number}, "
            f"loss={self.loss!r}, penalty={self.penalty!r}, ridge={self.ridge:g}, "
            f"intercept={self.fit_intercept}>"
        )

    # --- the data ------------------------------------------------------------------------------

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.datafit.n

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.datafit.shape

    @property
    def rows(self) -> Rows:
        return self.datafit.rows

    @property
    def targets(self) -> AnyArray:
        return self.datafit.targets

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """The w_i of the losses, whose mean is 1; empty if all are 1."""
        return self.datafit.weights

    @property
    def offsets(self) -> Array:
        """The o_i that are added to the margins, including logarithms of exposures; empty if all are 0."""
        return self.datafit.offsets

    def take(self, order: Visits) -> Problem:
        """The problem with its samples in the given order, stored in that order (a copy of the rows)."""
        return self.with_datafit(self.datafit.take(check_visits(order, self.n)))

    def piece(self, start: int, stop: int) -> Problem:
        """The problem of the samples from ``start`` up to ``stop``, without a copy."""
        return self.with_datafit(self.datafit.piece(start, stop))

    def columns(self, kept: Visits) -> Problem:
        """The problem in these features only, with the others held at zero (a copy of the rows).

        An intercept stays. The penalty must have the ability ``part``.
        """
        part = ability(self.penalty, "part")
        if part is None:
            raise InputError(
                f"penalty {self.penalty!r} has no part(kept, shape): features must stay"
            )
        other = self.with_datafit(self.datafit.columns(kept))
        other.penalty = part(kept, (self.features, *self.shape[1:]))
        return other

    def weighted(self, factor: float) -> Problem:
        """The problem with all sample weights multiplied by a factor, so that their mean is no longer 1."""
        fit = self.datafit
        weights = factor * fit.own_weights()
        return self.with_datafit(fit.on_samples(fit.rows, fit.targets, weights, fit.offsets))

    def with_datafit(self, datafit: Datafit) -> Problem:
        """The problem with the loss, penalty and ridge of this one on other samples."""
        other = copy(self)  # Cached values are left out: see ``__getstate__``.
        other.datafit = datafit
        return other

    def with_penalty(self, penalty: Penalty) -> Problem:
        """The problem with another penalty; the smoothness of f is computed once for both problems."""
        other = keep(self.with_datafit(self.datafit), smoothness=self.smoothness)
        other.penalty = penalty
        return other

    # --- the objective -------------------------------------------------------------------------

    def objective(self, x: Array, value: float | None = None) -> float:
        return super().objective(self.datafit.checked(x), value)

    def value(self, x: Array) -> float:
        losses = self.datafit.value(x) / self.n
        if not self.ridge:  # 0 times a square that overflows would be NaN.
            return losses
        return float(losses + 0.5 * self.ridge * np.sum(x[: self.features] ** 2))

    def gradient(self, x: Array) -> Array:
        out = self.datafit.gradient(x, 1.0 / self.n)
        out[: self.features] += self.ridge * x[: self.features]
        return out

    def margins(self, x: Array) -> Array:
        """a_iᵀx + b for every row, without the offsets, for predictions."""
        return self.datafit.margins(x)

    def component(self, i: int, x: Array) -> Array:
        return self.piece(i, i + 1).gradient(x)

    @cached_property
    def smoothness(self) -> Smoothness:
        """L_i = w_i·c·(‖a_i‖² + [intercept]) + ridge, with c the bound on the loss's curvature."""
        fit, ridge, features = self.datafit, self.ridge, self.features

        def product(v: Array) -> Array:
            out = fit.curvature_product(v, fit.loss.curvature / fit.n)
            out[:features] += ridge * np.ravel(v)[:features]
            return out

        known = fit.known_constants()
        known = None if known is None else (known[0] + ridge, known[1] + ridge)
        return Smoothness(lambda: fit.constants() + ridge, product, self.shape[0], known)

    @property
    def typical_curvature(self) -> float:
        """L̄. For a loss without a bound on its curvature (``Poisson``), L̄ for the curvature 1, its value at z = 0."""
        if self.loss.curvature < np.inf:
            return self.smoothness.L_mean
        return float(self.datafit.constants(1.0).mean()) + self.ridge

    def without_features(self) -> Array:
        x = np.zeros(self.shape)
        if self.fit_intercept:
            from scipy.optimize import minimize

            fit = self.datafit.columns(NO_VISITS)  # The losses as functions of b only.

            def value_and_slope(b: Array) -> tuple[float, Array]:
                at = np.ascontiguousarray(b).reshape(fit.shape)
                return fit.value(at) / fit.n, fit.gradient(at, 1.0 / fit.n).ravel()

            start = np.zeros(int(np.prod(fit.shape)))
            # "BFGS" warns if rounding ends its line search, and hides the warning in a way that other threads can undo;
            # this method goes on to the last digits (ftol = 0, with trials to spare) and never warns
            found = minimize(
                value_and_slope, start, jac=True, method="L-BFGS-B",
                options={"gtol": 1e-12, "ftol": 0.0, "maxls": 50},
            )  # fmt: skip
            x[self.features :] = found.x.reshape(fit.shape)
        return x

    # --- steps ---------------------------------------------------------------------------------

    def sweep(
        self,
        x: Array,
        visits: Visits,
        step: float,
        *,
        weights: Array | None = None,
        batch: int = 1,
        average: float = 1.0,
        prox_step: float = 0.0,
    ) -> None:
        # The kernels take read-only arrays.
        visits = read_only(check_visits(visits, self.n))
        check_positive("batch", batch, integer=True)
        for name, number in (("step", step), ("average", average)):
            check_finite(name, np.asarray(check_number(name, number)))
        if weights is not None and weights.size:
            weights = read_only(check_vector("weights", weights, (self.n,)))
        if not self.datafit.checked(x).flags.writeable:
            raise InputError("x must be writable: a sweep changes it in place")
        steps = self._steps(step, self.ridge, average, prox_step)
        if prox_step > 0 and self.form is None:
            for start in range(0, visits.size, batch):
                self.datafit.sweep(x, visits[start : start + batch], steps, weights, batch)
                x[...] = self.prox(x, prox_step)
        else:
            self.datafit.sweep(x, visits, steps, weights, batch)

    def _steps(self, step: float, ridge: float, average: float, prox_step: float) -> Steps:
        """The steps for a kernel, which has the prox in it if ψ can be compiled."""
        form = self.form if prox_step > 0 else None
        if form is None:
            return Steps(step, ridge, average, 0.0, NO_PENALTY)
        return Steps(step, ridge, average, prox_step, form)

    def clipped_sweep(
        self,
        x: Array,
        visits: Visits,
        ends: Ends,
        step: float,
        *,
        average: float,
        clip: float,
        noise: Noise,
        share: float,
        prox_step: float = 0.0,
    ) -> None:
        visits = read_only(check_visits(visits, self.n))
        if prox_step > 0 and self.form is None:
            super().clipped_sweep(
                x, visits, ends, step, average=average, clip=clip, noise=noise, share=share,
                prox_step=prox_step,
            )  # fmt: skip
        else:
            steps = self._steps(step, share * self.ridge, average, prox_step)
            self.datafit.clipped_sweep(x, visits, ends, steps, clip, noise)

    def slopes(self, x: Array) -> tuple[Array, Array]:
        return self.datafit.slopes(x)

    def block(
        self, y: Array, visits: Visits, step: float, table: Array, q: Array, copies: Copies = ALONE
    ) -> None:
        fit, entries = self.datafit, int(copies.owner.size or self.n)
        if table.shape != (entries, *fit.outputs) or not table.flags.c_contiguous:
            raise InputError(f"table must be a C-ordered array of shape {(entries, *fit.outputs)}")
        fit.block(fit.checked(y), visits, step, table, fit.checked(q), copies)

    @cached_property
    def functions(self) -> tuple[Callable[..., float], Callable[..., None], int]:
        """(slope, add, data): access to single functions in your own compiled loop.

        ``slope(data, i, x)`` is l'(a_iᵀx + b, y_i), and ``add(data, i, s, out)`` adds w_i·s·a_i to ``out``:
        with s the slope at x, that is ∇f_i(x) without the ridge. A function that ``numba.njit`` compiles takes
        all three as arguments. An index out of range is not detected there.
        """
        if self.datafit.outputs:
            raise InputError("functions are for losses of one output; use component(i, x)")
        from reshuffle.own_loops import add, slope  # This needs numba.

        return slope, add, native.address(self.datafit.core)

    @property
    def compiled_penalty(self) -> int:
        """ψ with the ridge, for ``own_loops.prox(psi, x, step)`` inside a compiled loop."""
        if self.form_with_ridge is None:
            raise InputError(f"penalty {self.penalty!r} has no compiled form; use prox_with_ridge")
        return native.address(self._native_form_with_ridge)

    @cached_property
    def _native_form_with_ridge(self) -> native.Form:
        return native_form(self.form_with_ridge)

    # --- the run's business --------------------------------------------------------------------

    def prepare(self) -> None:
        self.datafit.prepare()

    def contents(self) -> Mapping[str, str]:
        fit = self.datafit
        return {
            "data": fit.identity(),
            "targets": digest(fit.targets),
            "weights": digest(fit.weights),
            **({"offsets": digest(fit.offsets)} if fit.offsets.size else {}),
            "loss": digest(fit.loss),
            "penalty": digest(self.penalty),
            "ridge": digest(self.ridge),
        }


def as_problem(given: FiniteSum) -> Problem:
    """The problem, checked to be one whose f is a loss of rows."""
    if not hasattr(given, "datafit"):
        raise TypeError(f"the losses of rows are needed, got {type(given).__name__}")
    return cast(Problem, given)
