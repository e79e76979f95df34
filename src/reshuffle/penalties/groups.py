"""Norms of groups of coordinates: the common part of the group penalties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array, Labels, Mask
from reshuffle.cached import cached_property
from reshuffle.penalties.abilities import Features
from reshuffle.penalties.base import (
    FAR_BELOW,
    ByContent,
    WithDual,
    bisected,
    largest_scale,
    soft,
)
from reshuffle.penalties.forms import Groups


class Grouped(WithDual, ByContent, ABC):
    """ψ(x) = Σ_j l1_j|x_j| + Σ_g bounds_g·‖x_g‖₂ over disjoint groups, which are known once the shape of x is."""

    homogeneous = True

    @abstractmethod
    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        """ψ for an unknown of this shape."""

    def value(self, x: Array) -> float:
        at = self.norms(x.shape)
        return float(at.l1 @ np.abs(x.ravel()) + at.bounds @ at.lengths(x.ravel()))

    def prox(self, x: Array, step: float) -> Array:
        """Soft thresholding by l1, then each group shrunk by its bound (Simon et al., 2013)."""
        at = self.norms(x.shape)
        shrunk = soft(x.ravel(), step * at.l1)
        norms, threshold = at.lengths(shrunk), step * at.bounds
        ratio = np.divide(threshold, norms, out=np.ones_like(norms), where=norms > threshold)
        return (shrunk * at.spread(1.0 - ratio, outside=1.0)).reshape(x.shape)

    # --- abilities -----------------------------------------------------------------------------

    def compiled(self, shape: tuple[int, ...], ridge: float = 0.0) -> Groups:
        at = self.norms(shape)
        members = np.argsort(at.labels, kind="stable")
        members = members[np.count_nonzero(~at.inside) :]
        starts = np.concatenate([[0], np.cumsum(at.sizes)])
        return Groups(at.l1, ridge, at.bounds, members.astype(np.uint32), starts)

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        at = self.norms(shape)
        held = (at.l1 > 0) | (at.spread(at.bounds, outside=0.0) > 0)
        return ridge > 0 or bool(held.all())

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """Σ_g max(‖soft(g_g, l1)‖ - bounds_g, 0)²/(2·ridge), and without a ridge 0 or +inf."""
        if ridge == 0:
            return self.own_conjugate(g)
        at = self.norms(g.shape)
        shrunk = soft(g.ravel(), at.l1)
        outside = shrunk[~at.inside]
        beyond = np.maximum(at.lengths(shrunk) - at.bounds, 0.0)
        return float((beyond @ beyond + outside @ outside) / (2.0 * ridge))

    def own_scale(self, g: Array) -> float:
        """The largest α ≤ 1 with ‖soft(αg_g, l1)‖ ≤ bounds_g in every group, by bisection."""
        at, flat = self.norms(g.shape), g.ravel()

        def feasible(scale: float) -> bool:
            return at.within(soft(scale * flat, at.l1), at.bounds)

        if feasible(1.0):
            return 1.0
        if at.l1.any() or np.any(flat[~at.inside]):
            return largest_scale(feasible) * FAR_BELOW
        norms = at.lengths(flat)  # Without l1 the answer is a quotient per group.
        ratios = at.bounds / np.where(norms > 0.0, norms, np.inf)
        return min(1.0, float(ratios.min(where=norms > 0.0, initial=1.0))) * FAR_BELOW

    def part(self, kept: Features, shape: tuple[int, ...]) -> GroupNorms:
        at = self.norms(shape)
        labels = at.labels.reshape(shape)[kept].ravel()
        l1 = at.l1.reshape(shape)[kept].ravel()
        inside = np.unique(labels[labels >= 0])
        labels = np.where(labels < 0, -1, np.searchsorted(inside, labels))
        return GroupNorms(labels, at.bounds[inside], np.ascontiguousarray(l1))

    def holds_at_zero(self, g: Array, slack: float = 1.0, drift: Array | float = 0.0) -> Mask:
        rests: Mask = self._excess(np.zeros(g.shape), np.abs(g) + drift, slack) == 0.0
        return rests

    def excess(self, x: Array, g: Array) -> Array:
        return self._excess(x, g, 1.0)

    def _excess(self, x: Array, g: Array, slack: float) -> Array:
        at = self.norms(x.shape)
        push, moved = np.maximum(np.abs(g.ravel()) - slack * at.l1, 0.0), x.ravel() != 0
        lengths = np.maximum(at.lengths(push) - slack * at.bounds, 0.0)
        lengths[at.labels[moved & at.inside]] = np.inf
        beyond = np.where(at.inside, at.spread(lengths, 0.0), np.where(moved, np.inf, push))
        return beyond.reshape(x.shape)

    def together(self, matter: Mask) -> Mask:
        """All coordinates of the groups that matter."""
        at, flat = self.norms(matter.shape), matter.ravel()
        touched = np.zeros(at.bounds.size, dtype=bool)
        touched[at.labels[flat & at.inside]] = True
        kept: Mask = (flat | (at.spread(touched.astype(float), 0.0) > 0)).reshape(matter.shape)
        return kept

    def curvature_product(self, x: Array, v: Array) -> Array:
        """bounds_g·(v_g - x_g⟨x_g, v_g⟩/‖x_g‖²)/‖x_g‖ in the groups that are not zero."""
        at = self.norms(x.shape)
        norms = at.lengths(x.ravel())
        inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        along = at.sums(x.ravel() * v.ravel())
        spread = at.spread(at.bounds * inverse, 0.0)
        radial = at.spread(at.bounds * along * inverse**3, 0.0)
        return (spread * v.ravel() - radial * x.ravel()).reshape(x.shape)

    def lambda_max(self, g: Array) -> float:
        """The smallest t with ‖soft(g_g, t·l1)‖ ≤ t·bounds_g in every group, by bisection."""
        at, flat = self.norms(g.shape), np.abs(g.ravel())
        low, high = 0.0, 1.0

        def holds(t: float) -> bool:
            return at.within(soft(flat, t * at.l1), t * at.bounds)

        held = (at.l1 > 0) | (at.spread(at.bounds, 0.0) > 0)
        if np.any(flat[~held] > 0):
            return np.inf
        while not holds(high):
            low, high = high, 2.0 * high
        return bisected(low, high, holds)[1] if flat.any() else 0.0


@dataclass(frozen=True, eq=False)
class GroupNorms(Grouped):
    """Such a penalty for one shape of x.

    ``labels`` has the group of each coordinate (flat), -1 for a coordinate in none.
    """

    labels: Labels
    bounds: Array
    l1: Array

    def norms(self, shape: tuple[int, ...]) -> GroupNorms:
        return self

    @cached_property
    def inside(self) -> Mask:
        return self.labels >= 0

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.labels[self.inside], minlength=self.bounds.size)

    def sums(self, terms: Array) -> NDArray[Any]:
        """The sum of the terms of each group."""
        return np.bincount(self.labels[self.inside], terms[self.inside], self.bounds.size)

    def lengths(self, x: Array) -> Array:
        """‖x_g‖ of each group."""
        lengths: Array = np.sqrt(self.sums(x**2))
        return lengths

    def spread(self, per_group: Array, outside: float) -> Array:
        """Spread a number per group over its coordinates; the label -1 picks the appended number."""
        spread: Array = np.append(per_group, outside)[self.labels]
        return spread

    def within(self, shrunk: Array, bounds: Array) -> bool:
        """Whether ‖shrunk_g‖ ≤ bounds_g in every group, and all is zero outside them."""
        return bool(np.all(self.lengths(shrunk) <= bounds)) and not np.any(shrunk[~self.inside])
