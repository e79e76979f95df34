"""The objective in numpy alone, nothing of the package in it, and the variables it is solved in.

x has one row for each feature (the last for the intercept) and one column for each output; it is kept flat. The
ridge is part of ψ here, which is λ_g‖x_g‖ over disjoint groups (an ℓ1 term is a group of one coordinate), plus
(l2/2)x², plus bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import glm_losses
from benchmarks.glm_losses import GlmName
from benchmarks.instances import Instance, LossName, is_sparse, mean_squares

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
CanonicalLoss = LossName | GlmName | Literal["quantile", "squared_outputs"]
"""The losses of the corpus, and those that other problems have."""
EXACT = 1_000_000  # entries up to which a point is judged in extended precision, which has no BLAS


@dataclass(frozen=True, eq=False)
class Canonical:
    """f(x) + ψ(x): A (dense or CSR), its targets, and ψ for each coordinate."""

    A: Any
    y: Array
    w: Array
    outputs: int
    loss: CanonicalLoss
    delta: float
    """Of Huber's loss, and the width of a quantile's kink."""
    l2: Array
    lower: Array
    upper: Array
    labels: Ints
    """The group of each coordinate, -1 for none."""
    strengths: Array
    """λ_g, all positive."""
    level: float = 0.5
    """Of a quantile."""

    @property
    def size(self) -> int:
        return int(self.A.shape[1]) * self.outputs

    def margins(self, x: Array) -> Array:
        z = np.asarray(self.A @ x.reshape(-1, self.outputs))
        return z if self.outputs > 1 else z[:, 0]

    def pull(self, slopes: Array) -> Array:
        """Aᵀ slopes, flat."""
        return np.asarray(self.A.T @ slopes.reshape(-1, self.outputs)).ravel()

    def loss_of(self, z: Array) -> Any:
        """Σ w_i l(z_i, y_i)."""
        return self.w @ _value(self.loss, z, self.y, self.delta, self.level)

    def slopes(self, z: Array) -> Array:
        found = _slope(self.loss, z, self.y, self.delta, self.level)
        return (self.w[:, None] if found.ndim == 2 else self.w) * found

    def norms(self, x: Array) -> Array:
        """‖x_g‖ of every group."""
        inside = self.labels >= 0
        squares = np.zeros(self.strengths.size, dtype=x.dtype)
        largest = np.zeros(self.strengths.size, dtype=x.dtype)
        np.maximum.at(largest, self.labels[inside], np.abs(x[inside]))
        unit = np.where(largest > 0, largest, 1)  # so that no square underflows
        np.add.at(squares, self.labels[inside], (x[inside] / unit[self.labels[inside]]) ** 2)
        return unit * np.sqrt(squares)

    def penalty_of(self, x: Array) -> Any:
        """ψ(x) without its bounds."""
        return self.strengths @ self.norms(x) + (self.l2 * x * x).sum() / 2

    def objective(self, x: Array) -> float:
        """P(x), +inf outside the bounds; in extended precision unless the data are large."""
        if np.any(x < self.lower) or np.any(x > self.upper):
            return np.inf
        exact = self.extended()
        x = x.astype(exact.w.dtype)
        return float(exact.loss_of(exact.margins(x)) + exact.penalty_of(x))

    def extended(self) -> Canonical:
        """The same in extended precision where that is quick enough."""
        if self.A.shape[0] * self.size > EXACT:
            return self
        dense = self.A.toarray() if is_sparse(self.A) else self.A
        long = np.longdouble
        return replace(self, A=dense.astype(long), y=self.y.astype(long), w=self.w.astype(long))

    def small_dense(self) -> Canonical:
        """The same with a dense A, which can be centred, unless it is large."""
        small = is_sparse(self.A) and self.A.shape[0] * self.size <= EXACT
        return replace(self, A=self.A.toarray()) if small else self

    def part(self, rows: Ints) -> Canonical:
        """The problem in these rows of x alone, the others being zero; groups must not be cut."""
        grid = np.arange(self.size).reshape(-1, self.outputs)[rows].ravel()
        labels = self.labels[grid]
        present, inverse = np.unique(labels[labels >= 0], return_inverse=True)
        labels = labels.copy()
        labels[labels >= 0] = inverse
        columns = self.A[:, rows]
        parts = {name: getattr(self, name)[grid] for name in ("l2", "lower", "upper")}
        return replace(self, A=columns, labels=labels, strengths=self.strengths[present], **parts)


def canonical(instance: Instance) -> Canonical:
    """The instance, as it is: no column scaled."""
    X, outputs = instance.X, instance.classes
    n, d = X.shape
    A: Any = X.astype(np.float64)
    if instance.intercept:
        one: Any = np.ones((n, 1))
        A = sp.csr_matrix(sp.hstack((A, one))) if is_sparse(A) else np.hstack((A, one))
    size, penalised = A.shape[1] * outputs, d * outputs

    def spread(value: Any, outside: float) -> Array:
        full = np.full(size, outside)
        shape = (d, outputs) if outputs > 1 else (d,)
        full[:penalised] = np.broadcast_to(value, shape).ravel()
        return full

    labels = np.full(size, -1, dtype=np.int64)
    if instance.penalty == "group_lasso":
        given = instance.labels
        if given is None:
            given = np.repeat(np.arange(d), outputs)
        labels[: given.size] = given
        counts = np.bincount(labels[labels >= 0])
        weights = np.sqrt(counts) if instance.group_weights is None else instance.group_weights
        strengths = instance.strength * weights
    else:
        l1 = spread(instance.l1, 0.0)
        labels[:], strengths = np.arange(size), l1
    labels, strengths = _positive_groups(labels, strengths)
    return Canonical(
        A,
        instance.y.astype(np.float64),
        instance.weights,
        outputs,
        instance.loss,
        instance.delta,
        spread(np.asarray(instance.l2) + instance.ridge, 0.0),
        spread(instance.lower if instance.penalty != "non_negative" else 0.0, -np.inf),
        spread(instance.upper, np.inf),
        labels,
        strengths,
    )


def _positive_groups(labels: Ints, strengths: Array) -> tuple[Ints, Array]:
    """Without the groups that are not penalised."""
    keep = strengths > 0
    number = np.where(keep, np.cumsum(keep) - 1, -1)
    inside = labels >= 0
    renamed = labels.copy()
    renamed[inside] = number[labels[inside]]
    return renamed, strengths[keep]


def scaled(model: Canonical, centre: bool) -> tuple[Canonical, Array, Array]:
    """The problem in x·c, columns having mean square 1; and c, and the means that were taken off.

    Features of one group share their c. Columns are centred only where the last row of x is a free intercept,
    which then takes up what the others lose.
    """
    A, outputs = model.A, model.outputs
    means = np.zeros(A.shape[1])
    if centre and not is_sparse(A):
        means[:-1] = A[:, :-1].mean(axis=0)
        A = A - means
    top = np.asarray(abs(A).max(axis=0).toarray()).ravel() if is_sparse(A) else abs(A).max(axis=0)
    c = np.where(top > 0, top, 1.0)
    A = sp.csr_matrix(A.multiply(1 / c)) if is_sparse(A) else A / c
    rms = np.sqrt(mean_squares(A))
    c = c * np.where(rms > 0, rms, 1.0)
    shared = c.copy()
    for group in np.flatnonzero(np.bincount(model.labels[model.labels >= 0]) > 1):
        rows = np.unique(np.flatnonzero(model.labels == group) // outputs)
        shared[rows] = c[rows].max()
    A = model.A - means if means.any() else model.A
    A = sp.csr_matrix(A.multiply(1 / shared)) if is_sparse(A) else A / shared
    each = np.repeat(shared, outputs)
    inside, of_group = model.labels >= 0, np.ones(model.strengths.size)
    of_group[model.labels[inside]] = each[inside]
    other = replace(
        model,
        A=A,
        l2=model.l2 / each / each,
        lower=model.lower * each,
        upper=model.upper * each,
        strengths=model.strengths / of_group,
    )
    return other, shared, means


def _value(loss: CanonicalLoss, z: Array, y: Array, delta: float, level: float) -> Array:
    if loss == "squared_outputs":
        return np.asarray(((z - y) ** 2).sum(axis=1) / 2)
    if loss in glm_losses.GLMS:
        return glm_losses.value(loss, z, y)
    if loss == "quantile":
        s = np.clip((z - y) / delta, -level, 1 - level)
        return np.asarray(s * (z - y) - delta * s * s / 2)
    if loss == "multinomial":
        top = z.max(axis=1)
        total = np.log(np.exp(z - top[:, None]).sum(axis=1))
        return np.asarray(total + (top - z[np.arange(len(y)), y.astype(int)]))
    if loss == "logistic":
        return np.asarray(np.log1p(np.exp(-np.abs(z))) + np.maximum(-y * z, 0))
    if loss == "squared_hinge":
        return np.asarray(np.maximum(1 - y * z, 0) ** 2 / 2)
    r = np.abs(z - y)
    if loss == "squared":
        return np.asarray(r * r / 2)
    return np.where(r <= delta, r * r / 2, delta * (r - delta / 2))


def _slope(loss: CanonicalLoss, z: Array, y: Array, delta: float, level: float) -> Array:
    if loss in glm_losses.GLMS:
        return glm_losses.slope(loss, z, y)
    if loss == "quantile":
        return np.clip((z - y) / delta, -level, 1 - level)
    if loss == "multinomial":
        p = np.asarray(np.exp(z - z.max(axis=1)[:, None]))
        p /= p.sum(axis=1)[:, None]
        p[np.arange(len(y)), y.astype(int)] -= 1
        return p
    if loss == "logistic":
        e = np.exp(-np.abs(z))
        return np.asarray(-y * np.where(y * z > 0, e, 1) / (1 + e))
    if loss == "squared_hinge":
        return np.asarray(-y * np.maximum(1 - y * z, 0))
    if loss in ("squared", "squared_outputs"):
        return np.asarray(z - y)
    return np.clip(z - y, -delta, delta)
