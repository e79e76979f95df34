"""Data, a loss and a penalty: the finite sum that regularised learning minimises."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.finite_sum import Array, FiniteSum, Visits, check_penalty
from reshuffle.losses import Logistic, Loss
from reshuffle.penalties import Separable
from reshuffle.smoothness import Smoothness
from reshuffle.validation import Rows, check_rows, check_targets, check_weights, read_only

AHEAD = 8  # rows asked of the memory before their turn
CHUNK = 1 << 20  # visits of one kernel call, so that Ctrl-C is heard between them
NOTHING = np.empty(0)


class Problem(FiniteSum):
    """P(x) = (1/n) Σ_i f_i(x) + ψ(x),  f_i(x) = w_i·l(a_iᵀx + b, y_i) + (ridge/2)‖x‖².

    Parameters
    ----------
    X : matrix, rows are samples: a C-ordered array or a CSR matrix, float64 or float32. It is used
        where it lies, never copied, also when it is read-only or memory-mapped. Other layouts and
        types are converted once, with a ``ConversionWarning`` where that copies float data.
        64-bit CSR indices are narrowed to 32 bits where they fit.
    y : targets, as the loss wants them: -1/+1 (or 0/1), real numbers, or classes 0 … K-1.
    loss : a loss of ``reshuffle.losses``, or your own; logistic where not given.
    penalty : ψ, anything with ``value(x)`` and ``prox(x, step)``; none where not given.
    ridge : puts (ridge/2)‖x‖² inside each f_i. On sparse rows a step costs no more for it.
    sample_weight : one non-negative weight a row. The objective is the weighted mean of the losses,
        w_i = n·sample_weight_i/Σ sample_weight; gradients and L_i carry the same factor.
    fit_intercept : adds b, the last entry (row, for a matrix unknown) of x. Neither the penalty nor
        the ridge sees it.

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
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: Loss | None = None,
        penalty: Any = None,
        ridge: float = 0.0,
        sample_weight: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        self.loss = Logistic() if loss is None else loss
        if not isinstance(self.loss, Loss):
            raise InputError(f"loss must be an instance of reshuffle.losses.Loss, got {loss!r}")
        if not (isinstance(ridge, (int, float, np.number)) and 0 <= ridge < np.inf):
            raise InputError(f"ridge must be finite and not negative, got {ridge!r}")
        self.rows, self.n, self.features = check_rows(X)
        self.targets: NDArray[Any] = check_targets(y, self.n, self.loss)
        self.weights = check_weights(sample_weight, self.n)
        self.penalty = check_penalty(penalty)
        self.ridge = float(ridge)
        self.fit_intercept = bool(fit_intercept)
        self.penalised = self.features
        size = self.features + self.fit_intercept
        self.shape = (size, int(self.targets.max()) + 1) if self.loss.vector else (size,)

    def __repr__(self) -> str:
        layout = "dense" if self.rows.dense else "CSR"
        return (
            f"<Problem: {self.n} x {self.features} {layout} {self.rows.values.dtype}, "
            f"loss={self.loss!r}, penalty={self.penalty!r}, ridge={self.ridge:g}, "
            f"intercept={self.fit_intercept}>"
        )

    # --- the objective -------------------------------------------------------------------------

    def objective(self, x: Array) -> float:
        return super().objective(self._check(x))

    def value(self, x: Array) -> float:
        from reshuffle.kernels.passes import value_kernel

        total = value_kernel(self._stamp)(*self._data, self._check(x), self._scratch(1))
        return float(total / self.n + 0.5 * self.ridge * np.sum(x[: self.penalised] ** 2))

    def gradient(self, x: Array) -> Array:
        from reshuffle.kernels.passes import gradient_kernel

        out = np.zeros(self.shape)
        gradient_kernel(self._stamp)(
            *self._data, self._check(x), self._scratch(1), 1.0 / self.n, out
        )
        out[: self.penalised] += self.ridge * x[: self.penalised]
        return out

    def margins(self, x: Array) -> Array:
        """a_iᵀx + b for every row: what a prediction is made of."""
        from reshuffle.kernels.passes import margins_kernel
        from reshuffle.kernels.stamp import stamp_of

        out = np.empty((self.n, *self.shape[1:]))
        margins_kernel(stamp_of())(
            *self.rows, self.fit_intercept, self._check(x), self._scratch(1), out
        )
        return out

    # --- constants -----------------------------------------------------------------------------

    @cached_property
    def smoothness(self) -> Smoothness:
        return Smoothness(self._constants, self.ridge, self._curvature_product, self.shape[0])

    def _constants(self) -> Array:
        """L_i = w_i·c·(‖a_i‖² + [intercept]) + ridge."""
        from reshuffle.kernels.passes import squared_norms

        constants = np.empty(self.n)
        squared_norms(self.rows.values, self.rows.indptr, constants)
        constants += self.fit_intercept
        constants *= self.loss.curvature
        if self.weights.size:
            constants *= self.weights
        constants += self.ridge
        return constants

    def _curvature_product(self, v: Array) -> Array:
        """(c/n) Σ w_i a_i a_iᵀ v + ridge·v, with c the bound on the loss's second derivative."""
        from reshuffle.kernels.passes import curvature_kernel
        from reshuffle.kernels.stamp import stamp_of

        out = np.zeros(self.shape[0])
        v = np.ascontiguousarray(v, dtype=np.float64).ravel()
        curvature_kernel(stamp_of())(
            *self.rows,
            self.weights,
            self.n,
            self.fit_intercept,
            v,
            self.loss.curvature / self.n,
            out,
        )
        out[: self.penalised] += self.ridge * v[: self.penalised]
        return out

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
        compiled_prox = prox_step > 0 and isinstance(self.penalty, Separable)
        if prox_step > 0 and not compiled_prox:
            for start in range(0, visits.size, batch):
                self._sweep(x, visits[start : start + batch], step, weights, batch, average, 0.0)
                x[...] = self.prox(x, prox_step)
            return
        chunk = max(CHUNK // batch, 1) * batch
        for start in range(0, max(visits.size, 1), chunk):
            self._sweep(x, visits[start : start + chunk], step, weights, batch, average, prox_step)

    def _sweep(
        self,
        x: Array,
        visits: Visits,
        step: float,
        weights: Array | None,
        batch: int,
        average: float,
        prox_step: float,
    ) -> None:
        from reshuffle.kernels.sweep import sweep_kernel

        sweep_kernel(self._stamp)(
            *self.rows,
            self.targets,
            self.weights if weights is None else weights,
            self.loss.params,
            self.fit_intercept,
            visits,
            batch,
            average,
            self._check(x),
            x.reshape(-1),
            self.penalised * (x.size // len(x)),
            step,
            self.ridge,
            prox_step,
            self._separable if prox_step > 0 else (NOTHING,) * 4,
            self._scratch(batch),
            AHEAD,
        )

    def sweep_clients(
        self,
        x: Array,
        bounds: NDArray[np.int64],
        uniforms: Array,
        step: float,
        batch: int,
        averages: Array,
    ) -> Array:
        """The models of many clients, whose samples lie one after the other here, from the same x.

        Client c has the samples bounds[c] … bounds[c+1]-1, visits them as ``orders.Reshuffle`` does with
        the same random numbers, and sweeps them as ``sweep`` does.
        """
        from reshuffle.kernels.clients import clients_kernel

        models = np.empty((bounds.size - 1, *self.shape))
        clients_kernel(self._stamp)(
            *self._data,
            bounds,
            uniforms,
            np.empty(self.n, dtype=np.uint32),
            batch,
            averages,
            self._check(x),
            models,
            self.penalised * (x.size // len(x)),
            step,
            self.ridge,
            (NOTHING,) * 4,
            self._scratch(batch),
            AHEAD,
        )
        return models

    def joined(self, others: Sequence[Problem]) -> Problem:
        """The samples of these problems, one after the other (copied, their weights as they are)."""
        parts = [other.rows for other in others]
        values = np.concatenate([part.values for part in parts])
        if self.rows.dense:
            rows = self.rows._replace(values=read_only(values))
        else:
            indices = np.concatenate([part.indices for part in parts])
            lengths = np.concatenate([np.diff(part.indptr) for part in parts])
            indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(self.rows.indptr.dtype)
            rows = Rows(read_only(values), read_only(indices), read_only(indptr))
        targets = np.concatenate([other.targets for other in others])
        return self._with(rows, targets, np.concatenate([other.weights for other in others]))

    def take(self, order: Visits) -> Problem:
        """The same samples in the given order, in memory in that order (a copy of the rows)."""
        weights = self.weights[order] if self.weights.size else self.weights
        return self._with(_take_rows(self.rows, order), self.targets[order], weights)

    def piece(self, start: int, stop: int) -> Problem:
        """The samples from ``start`` up to ``stop``, where they lie."""
        if self.rows.dense:
            rows = self.rows._replace(values=self.rows.values[start:stop])
        else:
            values, indices, indptr = self.rows
            first, last = int(indptr[start]), int(indptr[stop])
            pointers = read_only(indptr[start : stop + 1] - indptr[start])
            rows = Rows(values[first:last], indices[first:last], pointers)
        weights = self.weights[start:stop] if self.weights.size else self.weights
        return self._with(rows, self.targets[start:stop], weights)

    @cached_property
    def stored_in_columns(self) -> NDArray[np.int64]:
        """How many values each feature has."""
        if self.rows.dense:
            return np.full(self.features, self.n)
        from reshuffle.kernels.columns import count_columns

        counts = np.zeros(self.features, dtype=np.int64)
        count_columns(self.rows.indices, counts)
        return counts

    def columns(self, kept: Visits) -> Problem:
        """The problem in these features alone, the others held at zero (a copy of the rows).

        The penalty has to be separable; an intercept stays.
        """
        if not isinstance(self.penalty, Separable):
            raise InputError(f"columns: the penalty must be separable, got {self.penalty!r}")
        rows = _take_columns(self.quick_rows, self.features, kept)
        other = self._with(rows, self.targets, self.weights)
        other.penalty = self.penalty.part(kept, (self.features, *self.shape[1:]))
        other.quick_rows = rows
        other.features = other.penalised = kept.size
        if "stored_in_columns" in vars(self):
            other.stored_in_columns = self.stored_in_columns[kept]
        other.shape = (kept.size + self.fit_intercept, *self.shape[1:])
        return other

    def compile(self, *, gradient: bool = False) -> None:
        from reshuffle.kernels.passes import squared_norms
        from reshuffle.kernels.shuffle import shuffle

        first = self.first()
        x = np.zeros(self.shape)
        no_visits = np.empty(0, dtype=np.uint32)
        first.sweep(x, no_visits, 1.0)
        first.value(x)
        squared_norms(first.rows.values, first.rows.indptr, np.empty(1))
        shuffle(no_visits, NOTHING, 0)
        first.take(no_visits)
        if gradient:
            first.gradient(x)
            first._curvature_product(np.zeros(self.shape[0]))

    @property
    def signature(self) -> tuple[object, ...]:
        arrays = (*self.quick_rows, self.targets, self.rows.values)
        kinds = tuple((array.dtype.str, array.ndim) for array in arrays)
        return (self._stamp, kinds, isinstance(self.penalty, Separable), self.fit_intercept)

    def first(self) -> Problem:
        """The problem of the first sample alone, to compile kernels with."""
        other = self._with(_first_row(self.rows), self.targets[:1], self.weights[:1])
        other.quick_rows = _first_row(self.quick_rows)
        return other

    def _with(self, rows: Rows, targets: NDArray[Any], weights: Array) -> Problem:
        """This problem on other samples (their weights as they are, not normalised again)."""
        other = copy.copy(self)
        other.rows, other.n = rows, int(targets.size)
        other.targets, other.weights = read_only(targets), read_only(weights)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed on demand: kernels and constants belong to one process."""
        on_demand = {n for n, v in vars(type(self)).items() if isinstance(v, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in on_demand}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.rows = Rows(*map(read_only, self.rows))
        self.targets, self.weights = read_only(self.targets), read_only(self.weights)

    # --- what the kernels take -----------------------------------------------------------------

    @cached_property
    def _stamp(self) -> int:
        from reshuffle.kernels.rows import register

        stamp = self.loss.stamp
        register(stamp, *self.loss.functions)
        return stamp

    @cached_property
    def quick_rows(self) -> Rows:
        """The rows without their values, where all of these are 1."""
        return self.rows.without_ones()

    @cached_property
    def _data(self) -> tuple[Any, ...]:
        return (*self.rows, self.targets, self.weights, self.loss.params, self.fit_intercept)

    @cached_property
    def _separable(self) -> tuple[Array, Array, Array, Array]:
        assert isinstance(self.penalty, Separable)
        return self.penalty.coefficients((self.penalised, *self.shape[1:]))

    def _scratch(self, batch: int) -> Array:
        return np.empty((batch, *self.shape[1:]))

    def _check(self, x: Array) -> Array:
        good = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.c_contiguous
        if not good or x.shape != self.shape:
            found = f"{getattr(x, 'dtype', type(x).__name__)} of shape {np.shape(x)}"
            raise InputError(
                f"x must be a C-ordered float64 array of shape {self.shape}, got {found}"
            )
        return x


def _first_row(rows: Rows) -> Rows:
    if rows.dense:
        return rows._replace(values=rows.values[:1])
    stop = int(rows.indptr[1])
    return Rows(rows.values[:stop], rows.indices[:stop], rows.indptr[:2])


def _take_rows(rows: Rows, order: Visits) -> Rows:
    if rows.dense:
        return rows._replace(values=read_only(rows.values[order]))
    from reshuffle.kernels.shuffle import gather

    lengths = rows.indptr[1:][order] - rows.indptr[order]
    stored = int(lengths.sum(dtype=np.int64))
    indptr = np.zeros(order.size + 1, dtype=np.uint32 if stored < 2**32 else np.uint64)
    np.cumsum(lengths, out=indptr[1:])
    del lengths  # before the large arrays come
    values = np.empty(stored, dtype=rows.values.dtype)
    indices = np.empty(stored, dtype=rows.indices.dtype)
    gather(rows.values, rows.indices, rows.indptr, order, values, indices, indptr)
    return Rows(read_only(values), read_only(indices), read_only(indptr))


def _take_columns(rows: Rows, features: int, kept: Visits) -> Rows:
    if rows.dense:
        return rows._replace(values=read_only(np.take(rows.values, kept, axis=1)))
    from reshuffle.kernels.columns import ABSENT, count_kept, keep_columns, keep_indices

    place = np.full(features, ABSENT, dtype=np.uint32)
    place[kept] = np.arange(kept.size, dtype=np.uint32)
    indptr = np.zeros_like(rows.indptr)
    stored = 0
    if kept.size:
        count_kept(rows.indices, rows.indptr, place, indptr)
        np.cumsum(indptr, out=indptr)
        stored = int(indptr[-1])
    indices = np.empty(stored + 1, dtype=rows.indices.dtype)
    values = rows.values if rows.unit else np.empty(stored + 1, dtype=rows.values.dtype)
    if stored and rows.unit:
        keep_indices(rows.indices, rows.indptr, place, indices, indptr)
    elif stored:
        keep_columns(rows.values, rows.indices, rows.indptr, place, values, indices, indptr)
    kept_values = values if rows.unit else read_only(values[:stored])
    return Rows(kept_values, read_only(indices[:stored]), read_only(indptr))
