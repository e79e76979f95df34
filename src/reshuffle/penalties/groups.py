"""Norms of groups of coordinates: the common part of the group penalties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array, Labels, Mask
from reshuffle.cached import cached_property
from reshuffle.capacity import check_room
from reshuffle.errors import InputError, shown
from reshuffle.penalties.abilities import Features
from reshuffle.penalties.base import (
    FAR_BELOW,
    HALVINGS,
    ByContent,
    as_numbers,
    check_non_negative,
    largest_scale,
    soft,
)
from reshuffle.penalties.column_groups import COLUMNS
from reshuffle.penalties.forms import Groups

GroupsGiven = str | Sequence[int] | Sequence[Sequence[int]] | Labels | None


@dataclass(frozen=True, eq=False)
class GroupNorms(ByContent):
    """ψ(x) = Σ_j l1_j|x_j| + Σ_g bounds_g·‖x_g‖₂ over disjoint groups, for one size of x.

    ``labels`` has the group of each coordinate (flat), -1 for a coordinate in none.
    """

    labels: Labels
    bounds: Array
    l1: Array

    strong_convexity = 0.0

    def value(self, x: Array) -> float:
        return float(self.l1 @ np.abs(x.ravel()) + self.bounds @ self._norms(x.ravel()))

    def prox(self, x: Array, step: float) -> Array:
        """Soft thresholding by l1, then each group shrunk by its bound (Simon et al., 2013)."""
        shrunk = soft(x.ravel(), step * self.l1)
        norms, threshold = self._norms(shrunk), step * self.bounds
        ratio = np.divide(threshold, norms, out=np.ones_like(norms), where=norms > threshold)
        return (shrunk * self._spread(1.0 - ratio, outside=1.0)).reshape(x.shape)

    # --- abilities -----------------------------------------------------------------------------

    def compiled(self, shape: tuple[int, ...], ridge: float = 0.0) -> Groups:
        members = np.argsort(self.labels, kind="stable")
        members = members[np.count_nonzero(self.labels < 0) :]
        starts = np.concatenate([[0], np.cumsum(self._sizes)])
        return Groups(self.l1, ridge, self.bounds, members.astype(np.uint32), starts)

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        held = (self.l1 > 0) | (self._spread(self.bounds, outside=0.0) > 0)
        return ridge > 0 or bool(held.all())

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """Σ_g max(‖soft(g_g, l1)‖ - bounds_g, 0)²/(2·ridge), and without a ridge 0 or +inf."""
        if ridge == 0:
            return 0.0 if self.dual_scale(g) == 1.0 else np.inf
        shrunk = soft(g.ravel(), self.l1)
        outside = shrunk[self.labels < 0]
        beyond = np.maximum(self._norms(shrunk) - self.bounds, 0.0)
        return float((beyond @ beyond + outside @ outside) / (2.0 * ridge))

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        """The largest α ≤ 1 with ‖soft(αg_g, l1)‖ ≤ bounds_g in every group, by bisection."""
        if ridge > 0 or self._feasible(g.ravel(), 1.0):
            return 1.0
        if not self.l1.any() and not np.any(
            g.ravel()[self.labels < 0]
        ):  # Without l1 the answer is a quotient per group.
            norms = self._norms(g.ravel())
            ratios = self.bounds / np.where(norms > 0.0, norms, np.inf)
            return min(1.0, float(ratios.min(where=norms > 0.0, initial=1.0))) * FAR_BELOW
        return largest_scale(lambda scale: self._feasible(g.ravel(), scale)) * FAR_BELOW

    def _feasible(self, g: Array, scale: float) -> bool:
        shrunk = soft(scale * g, self.l1)
        return bool(np.all(self._norms(shrunk) <= self.bounds)) and not np.any(
            shrunk[self.labels < 0]
        )

    def part(self, kept: Features, shape: tuple[int, ...]) -> GroupNorms:
        labels = self.labels.reshape(shape)[kept].ravel()
        l1 = self.l1.reshape(shape)[kept].ravel()
        inside = np.unique(labels[labels >= 0])
        labels = np.where(labels < 0, -1, np.searchsorted(inside, labels))
        return GroupNorms(labels, self.bounds[inside], np.ascontiguousarray(l1))

    def holds_at_zero(self, g: Array, slack: float = 1.0, drift: Array | float = 0.0) -> Mask:
        largest = np.abs(g).ravel() + np.broadcast_to(drift, g.shape).ravel()
        beyond = np.maximum(largest - slack * self.l1, 0.0)
        held = self._spread((self._norms(beyond) <= slack * self.bounds).astype(float), 0.0) > 0
        alone = (self.labels < 0) & (beyond == 0.0)
        rests: Mask = (held | alone).reshape(g.shape)
        return rests

    def excess(self, x: Array, g: Array) -> Array:
        push, moved = np.maximum(np.abs(g.ravel()) - self.l1, 0.0), x.ravel() != 0
        norms = np.maximum(self._norms(push) - self.bounds, 0.0)
        norms[self.labels[moved & self._inside]] = np.inf
        beyond = np.where(self._inside, self._spread(norms, 0.0), np.where(moved, np.inf, push))
        return beyond.reshape(x.shape)

    def together(self, matter: Mask) -> Mask:
        """All coordinates of the groups that matter."""
        flat = matter.ravel()
        touched = np.zeros(self.bounds.size, dtype=bool)
        touched[self.labels[flat & (self.labels >= 0)]] = True
        kept: Mask = (flat | (self._spread(touched.astype(float), 0.0) > 0)).reshape(matter.shape)
        return kept

    def curvature_product(self, x: Array, v: Array) -> Array:
        """bounds_g·(v_g - x_g⟨x_g, v_g⟩/‖x_g‖²)/‖x_g‖ in the groups that are not zero."""
        norms = self._norms(x.ravel())
        inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        along = np.bincount(
            self.labels[self._inside], (x.ravel() * v.ravel())[self._inside], self.bounds.size
        )
        spread = self._spread(self.bounds * inverse, 0.0)
        radial = self._spread(self.bounds * along * inverse**3, 0.0)
        return (spread * v.ravel() - radial * x.ravel()).reshape(x.shape)

    def lambda_max(self, g: Array) -> float:
        """The smallest t with ‖soft(g_g, t·l1)‖ ≤ t·bounds_g in every group, by bisection."""
        flat, low, high = np.abs(g.ravel()), 0.0, 1.0

        def holds(t: float) -> bool:
            shrunk = soft(flat, t * self.l1)
            within = np.all(self._norms(shrunk) <= t * self.bounds)
            return bool(within) and not np.any(shrunk[self.labels < 0])

        held = (self.l1 > 0) | (self._spread(self.bounds, 0.0) > 0)
        if np.any(flat[~held] > 0):
            return np.inf
        while not holds(high):
            low, high = high, 2.0 * high
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high if flat.any() else 0.0

    # --- pieces --------------------------------------------------------------------------------

    @cached_property
    def _inside(self) -> NDArray[np.bool_]:
        return self.labels >= 0

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.labels[self._inside], minlength=self.bounds.size)

    def _norms(self, x: Array) -> Array:
        squares = np.bincount(self.labels[self._inside], x[self._inside] ** 2, self.bounds.size)
        return np.sqrt(squares)

    def _spread(self, per_group: Array, outside: float) -> Array:
        """Spread a number per group over its coordinates; the label -1 picks the appended number."""
        spread: Array = np.append(per_group, outside)[self.labels]
        return spread


class Grouped(ByContent, ABC):
    """A penalty that becomes ``GroupNorms`` once the shape of x is known."""

    groups: GroupsGiven
    weights: Sequence[float] | Array | None
    strong_convexity = 0.0
    homogeneous = True

    @abstractmethod
    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        """ψ for an unknown of this shape."""

    def value(self, x: Array) -> float:
        return self.norms(x.shape).value(x)

    def prox(self, x: Array, step: float) -> Array:
        return self.norms(x.shape).prox(x, step)

    def compiled(self, shape: tuple[int, ...], ridge: float = 0.0) -> Groups:
        return self.norms(shape).compiled(shape, ridge)

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return self.norms(shape).has_dual(shape, ridge)

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        return self.norms(g.shape).conjugate(g, ridge)

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        return self.norms(g.shape).dual_scale(g, ridge)

    def part(self, kept: Features, shape: tuple[int, ...]) -> GroupNorms:
        return self.norms(shape).part(kept, shape)

    def holds_at_zero(self, g: Array, slack: float = 1.0, drift: Array | float = 0.0) -> Mask:
        return self.norms(g.shape).holds_at_zero(g, slack, drift)

    def excess(self, x: Array, g: Array) -> Array:
        return self.norms(x.shape).excess(x, g)

    def together(self, matter: Mask) -> Mask:
        return self.norms(matter.shape).together(matter)

    def curvature_product(self, x: Array, v: Array) -> Array:
        return self.norms(x.shape).curvature_product(x, v)

    def lambda_max(self, g: Array) -> float:
        return self.norms(g.shape).lambda_max(g)

    def _labelled(self, shape: tuple[int, ...]) -> tuple[Labels, Array]:
        """The group of every coordinate, and the weight of every group."""
        size = int(np.prod(shape))
        if self.groups is None:
            if len(shape) != 2:
                raise InputError("groups must be given unless the unknown is a matrix")
            labels = np.repeat(np.arange(shape[0]), shape[1])
        else:
            labels = group_labels(self.groups)
            if len(shape) == 2 and labels.size == shape[0]:  # One label for all outputs of a row.
                labels = np.repeat(labels, shape[1])
        if labels.size > size:
            raise InputError(f"groups name {labels.size} coordinates, but x has {size}")
        labels = np.append(labels, np.full(size - labels.size, -1))
        inside, count = labels >= 0, int(labels.max()) + 1
        if self.weights is None:  # The group numbers may have gaps of any size.
            labels[inside] = np.unique(labels[inside], return_inverse=True)[1]
            return labels, np.sqrt(np.bincount(labels[inside]))
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (count,):
            raise InputError(
                f"weights must hold {count} numbers, one per group, got shape {weights.shape}"
            )
        return labels, weights


def check_groups(groups: GroupsGiven, weights: Sequence[float] | Array | None) -> None:
    """Check that groups are labels or disjoint index lists, and that weights are finite and not negative."""
    if weights is not None:
        check_non_negative("weights", weights)
    if groups is not None and not (isinstance(groups, str) and groups == COLUMNS):
        group_labels(groups)


def group_labels(groups: object) -> Labels:
    """The group of each coordinate, from labels or from index lists."""
    if isinstance(groups, str) and groups == COLUMNS:
        raise InputError(
            'groups="columns" needs the names of features: use it in an estimator that is fitted to a table, or give '
            "groups=reshuffle.penalties.column_groups(names or encoder)"
        )
    try:
        flat = np.asarray(groups)
    except ValueError:  # The lists have different lengths.
        flat = np.empty(0, dtype=object)
    if flat.ndim == 1 and flat.dtype.kind in "iu" and flat.size:
        if flat.min() < -1:
            raise InputError(f"groups must be -1 or more, got {flat.min()}")
        return flat.astype(np.int64)
    if not isinstance(groups, Sequence | np.ndarray) or isinstance(groups, str):
        raise InputError(f"groups must be labels or index lists, got {shown(groups)}")
    lists = [as_numbers("groups", g).ravel() for g in groups]
    if not lists or any(g.size == 0 for g in lists):
        raise InputError("groups must not be empty")
    if any(np.ndim(g) != 1 for g in groups) or any(g.dtype.kind not in "iu" for g in lists):
        raise InputError(f"groups must hold integers (labels or index lists), got {shown(groups)}")
    members = np.concatenate(lists)
    if members.min() < 0 or np.unique(members).size != members.size:
        raise InputError("groups must be disjoint lists of non-negative coordinate numbers")
    check_room("groups: a label for every coordinate", 8 * (int(members.max()) + 1))
    labels = np.full(int(members.max()) + 1, -1)
    for number, group in enumerate(lists):
        labels[group] = number
    return labels
