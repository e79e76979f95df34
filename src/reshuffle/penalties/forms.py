"""Penalties as the kernels read them: numbers per coordinate, or per coordinate and group.

The coordinates are those of x without its intercept, flat (row after row for a matrix unknown).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Coordinates(NamedTuple):
    """Σ_j l1_j|x_j| + (l2_j/2)x_j² + indicator(low_j ≤ x_j ≤ high_j)."""

    l1: Array
    l2: Array
    low: Array
    high: Array


class Groups(NamedTuple):
    """Σ_j l1_j|x_j| + (l2/2)‖x‖² + Σ_g strengths_g·‖x_g‖₂ over disjoint groups of coordinates.

    Group g has the coordinates members[starts[g]], …, members[starts[g+1] - 1]; what is in no group is
    held by l1 and l2 alone.
    """

    l1: Array
    l2: float
    strengths: Array
    members: NDArray[np.uint32]
    starts: NDArray[np.int64]


Form = Coordinates | Groups
NO_PENALTY = Coordinates(*(np.empty(0) for _ in range(4)))
