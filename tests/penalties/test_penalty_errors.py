"""Parameters that are refused: each is named, with what is wanted, before any work starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.penalties import (
    L1,
    L2,
    SLOPE,
    Box,
    ElasticNet,
    FusedLasso,
    GraphFusedLasso,
    GroupLasso,
    L1Ball,
    L2Ball,
    LatentGroupLasso,
    LInfBall,
    Monotone,
    NonNegative,
    NuclearNorm,
    OverlappingGroupLasso,
    Polyhedron,
    PSDCone,
    Simplex,
    Sum,
    TotalVariation2D,
)

BAD: list[tuple[Any, tuple[Any, ...], str]] = [
    (L1, (-1.0,), "l1 must be finite and not negative"),
    (L1, (np.nan,), "l1 must be finite and not negative"),
    (L1, (np.array([1.0, np.inf]),), "l1 must be"),
    (L1, ("strong",), "l1 must be"),
    (L2, (-0.1,), "l2 must be"),
    (ElasticNet, (0.1, -0.1), "l2 must be"),
    (ElasticNet, (-0.1, 0.1), "l1 must be"),
    (NonNegative, (-1.0,), "l1 must be"),
    (Box, (1.0, 0.0), "lower must not exceed upper"),
    (Box, (np.zeros(2), np.array([1.0, -1.0])), "lower must not exceed upper"),
    (Box, (np.nan, 1.0), "lower"),
    (Box, (None, 1.0), "lower"),
    (Box, (np.inf, np.inf), "lower"),
    (Box, (-np.inf, -np.inf), "upper"),
    (L1Ball, (0.0,), "radius must be positive"),
    (L1Ball, (-1.0,), "radius must be positive"),
    (L1Ball, (np.nan,), "radius must be positive"),
    (L1Ball, (np.inf,), "radius must be positive"),
    (L1Ball, (None,), "radius must be"),
    (GroupLasso, (-1.0, [0, 0]), "strength must be"),
    (GroupLasso, (1.0, [0, -2]), "groups must be -1 or more"),
    (GroupLasso, (1.0, [[0, 1], [1, 2]]), "groups must be disjoint"),
    (GroupLasso, (1.0, [[0, 1, 2], [1]]), "groups must be disjoint"),
    (GroupLasso, (1.0, [[0, -1]]), "groups must be disjoint lists of non-negative"),
    (GroupLasso, (1.0, []), "groups must not be empty"),
    (GroupLasso, (1.0, [[0], []]), "groups must not be empty"),
    (GroupLasso, (1.0, [0.5, 1.7]), "groups must"),
    (GroupLasso, (1.0, ["a", "b"]), "groups must"),
    (GroupLasso, (1.0, 5), "groups must"),
    (GroupLasso, (1.0, [0, 1], [1.0, -1.0]), "weights must be"),
    (NuclearNorm, (-1.0,), "strength must be"),
    (L2Ball, (0.0,), "radius must be positive"),
    (LInfBall, (-1.0,), "radius must be positive"),
    (LInfBall, (np.inf,), "radius must be positive"),
    (Simplex, (0.0,), "total must be positive"),
    (SLOPE, (-1.0, [1.0]), "strength must be"),
    (SLOPE, (1.0, [1.0, 2.0]), "weights must be 1-d and must not increase"),
    (SLOPE, (1.0, []), "weights must be 1-d"),
    (SLOPE, (1.0, [1.0, -2.0]), "weights must be finite and not negative"),
    (Monotone, ("down",), "decreasing must be True or False"),
    (Sum, (L1Ball(1.0), L1(1.0)), "the prox of L1Ball . L1 does not follow"),
    (Sum, (NuclearNorm(1.0), L1(1.0)), "does not follow"),
    (Sum, (Monotone(), L1(np.ones(3))), "does not follow"),
    (Sum, (Box(-1.0, 1.0), L2Ball(1.0)), "does not follow"),
    (Box(0.0, 1.0).__add__, (Box(2.0, 3.0),), "lower must not exceed upper"),
    (FusedLasso, (-1.0,), "strength must be"),
    (FusedLasso, (1.0, -1.0), "l1 must be finite"),
    (FusedLasso, (1.0, np.ones(3)), "l1 must be one number"),
    (FusedLasso, (1.0, 0.0, [-1.0]), "weights must be"),
    (GraphFusedLasso, (-1.0, [(0, 1)]), "strength must be"),
    (GraphFusedLasso, (1.0, []), "edges must be pairs"),
    (GraphFusedLasso, (1.0, [(0, 1, 2)]), "edges must be pairs"),
    (GraphFusedLasso, (1.0, [(0, 1), (2,)]), "edges must be pairs"),
    (GraphFusedLasso, (1.0, [(0.5, 1.5)]), "edges must be pairs"),
    (GraphFusedLasso, (1.0, [(0, -1)]), "edges must name coordinates from 0 on"),
    (GraphFusedLasso, (1.0, [(0, 1), (2, 2)]), "a loop at 2"),
    (GraphFusedLasso, (1.0, [(0, 1)], 0.0, [1.0, 2.0]), "weights must hold 1 numbers"),
    (TotalVariation2D, (-1.0, (2, 2)), "strength must be"),
    (TotalVariation2D, (1.0, (2, 0)), "image must be two positive integers"),
    (TotalVariation2D, (1.0, 4), "image must be two positive integers"),
    (OverlappingGroupLasso, (-1.0, [[0]]), "strength must be"),
    (OverlappingGroupLasso, (1.0, []), "groups must be index lists"),
    (OverlappingGroupLasso, (1.0, [[0], []]), "groups must not be empty, group 1"),
    (OverlappingGroupLasso, (1.0, [[0, 0]]), "name each coordinate once"),
    (OverlappingGroupLasso, (1.0, [[0, -1]]), "from 0 on"),
    (OverlappingGroupLasso, (1.0, [0, 1]), "groups must be lists of integers"),
    (OverlappingGroupLasso, (1.0, [["a"]]), "groups must be lists of integers"),
    (OverlappingGroupLasso, (1.0, [[0]], [1.0, 2.0]), "weights must hold 1 numbers"),
    (OverlappingGroupLasso, (1.0, [[0]], None, 0.0), "tolerance must lie between 0 and 1"),
    (LatentGroupLasso, (-1.0, [[0]]), "strength must be"),
    (LatentGroupLasso, (1.0, [[0], []]), "groups must not be empty, group 1"),
    (LatentGroupLasso, (1.0, [[0]], [1.0, 2.0]), "weights must hold 1 numbers"),
    (Polyhedron, (), "needs inequalities"),
    (Polyhedron, (np.eye(2), [1.0]), "A must be a matrix with a row for each"),
    (Polyhedron, (None, None, np.eye(2), [1.0]), "C must be a matrix with a row for each"),
    (Polyhedron, (np.eye(2), [np.nan, 1.0]), "b must be finite"),
    (Polyhedron, ("A", [1.0]), "A must hold numbers"),
    (Polyhedron, (np.eye(2), np.ones(2), np.ones((1, 3)), [1.0]), "as many columns"),
    (Polyhedron, (1j * np.eye(2), np.ones(2)), "A must hold numbers"),
    (Polyhedron, (sp.csr_array(1j * np.eye(2)), np.ones(2)), "A must hold numbers"),
    (Polyhedron, (sp.csr_array(np.eye(2)), np.ones(3)), "A must be a matrix with a row for each"),
    (Polyhedron, (sp.csr_array(np.diag([1.0, np.nan])), np.ones(2)), "A must be finite"),
    (Polyhedron, (sp.coo_array((10**9, 10**9)), np.ones(2)), "A of shape .* takes"),
    (Polyhedron, ([[1.0], [-1.0]], [0.0, -1.0]), "Polyhedron is empty"),
    (Polyhedron, (None, None, [[1.0], [1.0]], [0.0, 1.0]), "Polyhedron is empty"),
]
MISFITS: list[tuple[Any, int, str]] = [
    (GroupLasso(1.0, [0, 1], weights=[1.0]), 2, "weights must hold 2 numbers"),
    (GroupLasso(1.0, [0, 1, 1]), 2, "groups name 3 coordinates, but x has 2"),
    (GroupLasso(1.0), 2, "groups must be given"),
    (NuclearNorm(1.0), 2, "NuclearNorm is for a matrix unknown"),
    (SLOPE(1.0, [1.0]), 2, "weights must hold 2 numbers"),
    (FusedLasso(1.0, weights=[1.0]), 5, "weights must hold 4 numbers"),
    (GraphFusedLasso(1.0, [(0, 7)]), 5, "edges name coordinate 7, but x has 5 rows"),
    (TotalVariation2D(1.0, (2, 3)), 5, "image 2 × 3 does not fit x, which has 5 rows"),
    (OverlappingGroupLasso(1.0, [[0, 5]]), 5, "groups name coordinate 5, but x has 5"),
    (LatentGroupLasso(1.0, [[0, 5]]), 5, "groups name coordinate 5, but x has 5"),
    (Polyhedron(np.eye(2), np.ones(2)), 5, "Polyhedron is for 2 coordinates, but x has 5"),
    (PSDCone(), 5, "PSDCone is for a square matrix"),
]


@pytest.mark.parametrize(("make", "arguments", "message"), BAD)
def test_bad_parameters_are_named(make: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        make(*arguments)


@pytest.mark.parametrize("method", ["value", "prox"])
@pytest.mark.parametrize(("psi", "size", "message"), MISFITS)
def test_parameters_that_do_not_fit_the_unknown(
    psi: Any, size: int, message: str, method: str
) -> None:
    with pytest.raises(rs.InputError, match=message):
        getattr(psi, method)(np.ones(size), *[1.0] * (method == "prox"))
