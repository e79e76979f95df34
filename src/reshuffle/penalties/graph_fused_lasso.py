from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.arrays import Array, Labels
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import as_numbers, check_non_negative, check_strength
from reshuffle.penalties.fused_lasso import check_one_l1
from reshuffle.penalties.graphs import Arcs, Edges, GraphDifferences


@dataclass(frozen=True, eq=False)
class GraphFusedLasso(GraphDifferences):
    """ψ(x) = strength · Σ_{(i, j)} w_ij·``|x_i - x_j|`` + l1·‖x‖₁ over the edges of a graph of coordinates.

    The prox is exact, by maximum flows; with l1 it is followed by soft thresholding. In a matrix unknown the
    nodes are its rows, and each column is penalised alone.

    Parameters
    ----------
    strength : the strength of the differences, not negative.
    edges : pairs of numbers of coordinates, one row per edge. An edge that is named twice counts twice.
    l1 : the strength of the ℓ1 norm: one number, not negative.
    weights : w_ij, one per edge, not negative; 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> triangle = rs.penalties.GraphFusedLasso(0.5, edges=[(0, 1), (1, 2), (0, 2)])
    >>> triangle.prox(np.array([0.0, 0.5, 5.0, 7.0]), step=1.0)
    array([0.75, 0.75, 4.  , 7.  ])

    References
    ----------
    Hochbaum: An efficient algorithm for image segmentation, Markov random fields and related problems, 2001.
    Chambolle, Darbon: On total variation minimization and surface evolution using parametric maximum flows, 2009.
    """

    strength: float
    edges: Sequence[tuple[int, int]] | Labels
    l1: float = 0.0
    weights: Sequence[float] | Array | None = None
    _known: dict[int, tuple[Edges, Array, Arcs]] = field(
        init=False, repr=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        check_strength(self.strength)
        check_one_l1(self.l1)
        edges = check_edges(self.edges)
        if self.weights is not None:
            weights = as_numbers("weights", self.weights)
            check_non_negative("weights", weights)
            if weights.shape != (len(edges),):
                raise InputError(
                    f"weights must hold {len(edges)} numbers, one per edge, got shape {weights.shape}"
                )

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        ring = [(k, (k + 1) % shape[0]) for k in range(shape[0])]
        weights = np.linspace(0.5, 1.5, len(ring) + 1)
        return [cls(0.01, [*ring, (0, 2)], 0.002, weights), cls(0.01, ring[:2])]

    def edges_and_bounds(self, nodes: int) -> tuple[Edges, Array]:
        edges = check_edges(self.edges)
        if edges.max() >= nodes:
            raise InputError(f"edges name coordinate {edges.max()}, but x has {nodes} rows")
        weights = np.ones(len(edges)) if self.weights is None else np.asarray(self.weights, float)
        return edges, self.strength * weights


def check_edges(edges: object) -> Edges:
    """The edges as an array of two columns, checked to be pairs of distinct, non-negative integers."""
    try:
        pairs = np.asarray(edges)
    except ValueError:  # The tuples have different lengths.
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or pairs.dtype.kind not in "iu":
        raise InputError(f"edges must be pairs of numbers of coordinates, got {shown(edges)}")
    pairs = pairs.astype(np.int64)
    if pairs.min() < 0:
        raise InputError(f"edges must name coordinates from 0 on, got {pairs.min()}")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        raise InputError(
            f"edges must join different coordinates, got a loop at {pairs[loops][0, 0]}"
        )
    return pairs
