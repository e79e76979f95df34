"""Differences along the edges of a graph: the common part of the total-variation penalties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.core import native
from reshuffle.penalties.base import ByContent, DualByNorm, soft

Edges = NDArray[np.int64]
RATIOS = 100  # The most rounds of the search, which usually ends after a handful; each finds a set of larger ratio.


class Arcs(NamedTuple):
    """The edges in the form that the kernel takes: the neighbours of each node, see ``core/cuts.hpp``."""

    first: NDArray[np.int64]
    target: NDArray[np.int64]
    edge: NDArray[np.int64]
    tail: NDArray[np.bool_]


def arcs_of(edges: Edges, nodes: int) -> Arcs:
    """The arcs of a graph: every edge occurs once from each of its ends."""
    ends, others = edges.T.ravel(), edges[:, ::-1].T.ravel()
    order = np.argsort(ends, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=nodes))])
    number = np.tile(np.arange(len(edges)), 2)[order]
    return Arcs(first, np.ascontiguousarray(others[order]), number, order < len(edges))


class GraphDifferences(DualByNorm, ByContent, ABC):
    """ψ(x) = Σ_e bounds_e |x_i - x_j| + l1·‖x‖₁ over edges e = (i, j), in each column of x."""

    strength: float
    l1: float
    _known: dict[int, tuple[Edges, Array, Arcs]]

    strong_convexity = 0.0
    homogeneous = True
    comonotone = True

    @abstractmethod
    def edges_and_bounds(self, nodes: int) -> tuple[Edges, Array]:
        """The edges for an unknown with this many rows, and the bound of each."""

    def value(self, x: Array) -> float:
        edges, bounds, _ = self._graph(len(x))
        jumps = np.abs(x[edges[:, 0]] - x[edges[:, 1]]).sum(axis=tuple(range(1, x.ndim)))
        return float(bounds @ jumps + self.l1 * np.abs(x).sum())

    def prox(self, x: Array, step: float) -> Array:
        fused = [soft(self._fused(c, step), step * self.l1) for c in _columns(x)]
        return np.ascontiguousarray(np.array(fused).T).reshape(x.shape)

    # --- abilities -----------------------------------------------------------------------------

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        """Whether there is l1 or a ridge: the differences alone do not penalise a common shift."""
        return self.l1 > 0 or ridge > 0

    def lambda_max(self, g: Array) -> float:
        """The dual norm: the largest ``|g(S)|/(l1·|S| + bounds of the edges that leave S)``, in any column."""
        if not np.any(g):
            return 0.0
        if self.l1 == 0:
            return np.inf  # A common shift is not penalised.
        return max(self._ratio(sign * c) for c in _columns(g) for sign in (1.0, -1.0))

    def _ratio(self, g: Array) -> float:
        """The largest g(S)/(l1·|S| + cut(S)) over sets S, by Dinkelbach's method.

        For a ratio t the best of g(S) - t(l1·|S| + cut(S)) is the set where prox_{tTV}(g) is above t·l1.
        """
        edges, bounds, _ = self._graph(g.size)
        ratio = max(float(g.sum()) / (self.l1 * g.size), 0.0)
        for _ in range(RATIOS):
            inside = (self._fused(g, ratio) if ratio > 0 else g) > ratio * self.l1
            leaving = inside[edges[:, 0]] != inside[edges[:, 1]]
            cost = self.l1 * np.count_nonzero(inside) + bounds[leaving].sum()
            better = float(g[inside].sum() / cost) if inside.any() else 0.0
            if better <= ratio:
                break
            ratio = better
        return ratio

    def _fused(self, column: Array, step: float) -> Array:
        """The prox of the differences alone."""
        _, bounds, arcs = self._graph(column.size)
        fused = np.empty(column.size)
        native.cut_prox(column, *arcs, step * bounds, fused)
        return fused

    def _graph(self, nodes: int) -> tuple[Edges, Array, Arcs]:
        if nodes not in self._known:
            edges, bounds = self.edges_and_bounds(nodes)
            self._known[nodes] = edges, bounds, arcs_of(edges, nodes)
        return self._known[nodes]


def _columns(x: Array) -> Array:
    return np.ascontiguousarray(x.reshape(len(x), -1).T, dtype=np.float64)
