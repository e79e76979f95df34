"""Finds scales of columns on which all clients agree, so that the method runs in u, with x = S·u.

    P(Su) = (1/N) Σ_m F_m(Su) + R(Su),    rows (a_i - c)∘s,    b = b' - cᵀx  if there is an intercept.

The minimiser is that of P; only the metric changes, so that columns of size 10⁻⁴ and columns of size 10⁵ are treated
alike. R(Su) must have a prox: it has one if R is separable, or if R has groups and the columns of a group share a scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError
from reshuffle.federated.local import Corrected, Load, LocalEpoch, travels
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties import Penalty, Zero
from reshuffle.penalties.abilities import compiled_form, needed_form
from reshuffle.penalties.forms import Form, Groups
from reshuffle.problem import Problem, as_problem
from reshuffle.rows import Rows
from reshuffle.validation import read_only

ALIKE = 4.0
"""Columns are left as they are if their units differ by at most this factor, and their means are at most this many deviations:
a copy of all rows would gain little."""
CONSTANT = 1e-12
"""A deviation below this share of a column's root mean square is rounding and cannot serve as its unit."""
NOISE = 1e-14
"""Columns whose unit is below this share of the largest are rounding errors of constant columns and are not scaled up."""
PIECE = 1 << 20
"""Values of dense rows that are read at a time, so that no copy of a mapped file is made."""


def moments(problem: FiniteSum) -> dict[str, Plain]:
    """The weighted moments of a client's columns: means, Σ w·(x - mean)², the weight of entries that are not zero, Σ w."""
    fit = as_problem(problem).datafit
    if fit.on_disk:
        raise InputError(
            "scales must be None where the rows of a client lie on disk: other scales need a copy of them in memory"
        )
    rows, weights = fit.rows, fit.weights if fit.weights.size else np.ones(fit.n)
    total = float(weights.sum()) or 1.0
    if not rows.dense:
        values = np.ones(rows.stored) if rows.unit else rows.values.astype(np.float64)
        X: Any = csr_matrix(
            (values, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)),
            (fit.n, fit.features),
        )
        mean = X.T @ weights / total
        squares = np.maximum(X.power(2).T @ weights - total * mean**2, 0.0)
        filled = (X != 0).T @ weights
    else:
        length = max(PIECE // fit.features, 1)
        starts = range(0, fit.n, length)
        parts = [(rows.values[k : k + length], weights[k : k + length]) for k in starts]
        mean = (
            np.sum([w @ part.astype(np.float64, copy=False) for part, w in parts], axis=0) / total
        )
        squares = np.sum([w @ (part - mean) ** 2 for part, w in parts], axis=0)
        filled = np.sum([w @ (part != 0) for part, w in parts], axis=0)
    told = {"mean": mean, "squares": squares, "filled": filled}
    return {**told, "weight": total, "sparse": int(not rows.dense)}


class Units(NamedTuple):
    """The units of the columns over all clients."""

    unit: Array
    """The root mean square of its entries that are not zero, about ``centre``; the median of all for an empty column."""
    centre: Array
    """The mean of each column that is to be centred, and zero for others."""

    @property
    def spread(self) -> float:
        """The ratio of the largest unit to the smallest."""
        return float(self.unit.max() / self.unit.min())


def units(said: Mapping[int, Record], intercept: bool) -> Units:
    """The units of all columns. If there is an intercept, dense columns far from zero are centred, and it absorbs the difference."""
    records: Any = list(said.values())
    weights = np.array([record["weight"] for record in records])
    means = np.array([record["mean"] for record in records])
    mean = weights @ means / weights.sum()
    variance = sum(record["squares"] for record in records) + weights @ (means - mean) ** 2
    variance = variance / weights.sum()
    filled = sum(record["filled"] for record in records) / weights.sum()
    filled = np.where(filled > 0.0, filled, 1.0)
    whole = variance + mean**2
    varies = variance > CONSTANT**2 * whole
    far = varies & (mean**2 > ALIKE**2 * variance / filled)
    dense = not any(record["sparse"] for record in records)
    centred = dense and intercept and bool(far.any())
    square = np.where(varies, variance, whole) if centred else whole
    unit = np.sqrt(square / filled)
    known = np.isfinite(unit) & (unit > NOISE * np.max(unit, initial=0.0, where=np.isfinite(unit)))
    typical = float(np.median(unit[known])) if known.any() else 1.0
    return Units(np.where(known, unit, typical), mean if centred else np.zeros(mean.size))


class Metric(NamedTuple):
    """x = scale∘u on the features, and b = b' - centreᵀx."""

    scale: Array
    """Powers of two: products with them have no rounding."""
    centre: Array

    def outer(self, u: Array) -> Array:
        """x as a function of u."""
        x = u.copy()
        x[: self.scale.size] *= _column(self.scale, u)
        x[self.scale.size :] -= self._shift(x)
        return x

    def inner(self, x: Array) -> Array:
        """u as a function of x."""
        u = x.copy()
        u[: self.scale.size] /= _column(self.scale, x)
        u[self.scale.size :] += self._shift(x)
        return u

    def _shift(self, x: Array) -> Array:
        """centreᵀx, summed in a fixed order and not by BLAS, whose sums depend on its number of threads."""
        products = _column(self.centre, x) * x[: self.centre.size]
        return np.asarray(np.add.reduce(products, axis=0))

    def problem(self, client: FiniteSum) -> Problem:
        """The losses of a client as functions of u: a copy of its rows. Penalty and ridge are left to the server."""
        own = as_problem(client)
        fit, rows = own.datafit, own.datafit.rows
        if rows.dense:
            values = rows.values
            if self.centre.any():
                values = (values - self.centre) * self.scale
            else:
                values = values * self.scale.astype(values.dtype)
            new = rows._replace(values=read_only(np.ascontiguousarray(values)))
        else:
            old = np.ones(rows.stored) if rows.unit else rows.values
            scaled = old * self.scale[rows.indices].astype(old.dtype)
            new = Rows(read_only(scaled), rows.indices, rows.indptr)
        view = own.with_datafit(fit.on_samples(new, fit.targets, fit.weights, fit.offsets))
        view.penalty, view.ridge = Zero(), 0.0
        return view


def _column(numbers: Array, like: Array) -> Array:
    return numbers.reshape(-1, *[1] * (like.ndim - 1))


def metric(found: Units, penalty: Penalty, shape: tuple[int, ...]) -> Metric | None:
    """The metric for these units; None if the penalty does not allow one or nothing would be gained.

    ``shape`` is that of x without the intercept. Columns whose coefficients are in one group have one scale.
    """
    form = compiled_form(penalty, shape)
    if form is None:
        return None
    squares = found.unit**2
    groups = form.in_groups
    if groups is not None:
        kin = _kin(groups, shape)
        squares = (np.bincount(kin, squares) / np.bincount(kin))[kin]
    scale = np.exp2(-np.round(0.5 * np.log2(squares)))
    alike = scale.max() <= ALIKE * scale.min()
    if alike and not found.centre.any():
        return None
    return Metric(
        np.ones(scale.size) if alike and scale.max() == scale.min() else scale, found.centre
    )


def _kin(form: Groups, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """A label for every feature, the same for those that groups connect."""
    members = form.members[: form.starts[-1]].astype(np.int64) // prod(shape[1:])
    group = np.repeat(np.arange(form.strengths.size), np.diff(form.starts)) + shape[0]
    size = shape[0] + form.strengths.size
    graph = csr_matrix((np.ones(members.size), (members, group)), (size, size))
    return connected_components(graph, directed=False)[1][: shape[0]].astype(np.int64)


@dataclass(frozen=True, eq=False)
class ScaledPenalty:
    """R(Su) + (ridge/2)‖Su‖², for the form of R with that ridge."""

    form: Form
    scale: Array
    """One number for every coordinate, flat."""

    @classmethod
    def of(
        cls, penalty: Penalty, ridge: float, found: Metric, shape: tuple[int, ...]
    ) -> ScaledPenalty:
        form = needed_form(penalty, shape, ridge)
        return cls(form, np.repeat(found.scale, prod(shape[1:])))

    @property
    def strong_convexity(self) -> float:
        return float(np.min(self.form.l2 * self.scale**2))

    def prox(self, u: Array, step: float) -> Array:
        """argmin_v step·(R(Sv) + (ridge/2)‖Sv‖²) + ‖v - u‖²/2."""
        s, flat = self.scale, u.reshape(-1)
        shrink = 1.0 + step * self.form.l2 * s**2
        point = np.copysign(np.maximum(np.abs(flat) - step * self.form.l1 * s, 0.0), flat) / shrink
        box, form = self.form.one_by_one, self.form.in_groups
        if box is not None:
            point = np.clip(point, box.low / s, box.high / s)
        if form is None:
            return point.reshape(u.shape)
        members, sizes = form.members[: form.starts[-1]], np.diff(form.starts)
        group = np.repeat(np.arange(sizes.size), sizes)
        norms = np.sqrt(np.bincount(group, point[members] ** 2, sizes.size))
        first = members[np.minimum(form.starts[:-1], members.size - 1)]
        threshold = step * form.strengths * s[first] / shrink[first]
        ratio = np.divide(threshold, norms, out=np.ones_like(norms), where=norms > threshold)
        point[members] *= (1.0 - ratio)[group]
        return point.reshape(u.shape)


@travels
@dataclass(frozen=True, eq=False)
class Rescaled(Corrected):
    """The passes of ``Corrected`` in u, for the metric that all clients agreed on."""

    scale: Array
    centre: Array

    @property
    def metric(self) -> Metric:
        return Metric(self.scale, self.centre)

    def view(self, client: FiniteSum) -> FiniteSum:
        return self.metric.problem(client)

    def point(self, message: Array) -> Array:
        return self.metric.outer(message)

    def rehearse(self, client: FiniteSum) -> None:
        super().rehearse(self.view(client.first()))

    def load(self, client: FiniteSum) -> Load:
        return super().load(self.view(client))

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        return super().bind(self.view(client), position, factor)


def prox_in(found: ScaledPenalty, features: int) -> Callable[[Array, float], Array]:
    """The prox of the features; an intercept is not changed."""

    def prox(u: Array, step: float) -> Array:
        new = u.copy()
        new[:features] = found.prox(u[:features], step)
        return new

    return prox


def rescaled(local: Corrected, found: Metric) -> Rescaled:
    """``local`` in another metric."""
    return Rescaled(local.order, local.passes, local.importance, local.seed, *found)
