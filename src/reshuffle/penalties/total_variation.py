from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import as_numbers, check_strength
from reshuffle.penalties.fused_lasso import check_one_l1
from reshuffle.penalties.graphs import Arcs, Edges, GraphDifferences


@dataclass(frozen=True, eq=False)
class TotalVariation2D(GraphDifferences):
    """ψ(x) = strength · Σ (``|x_{r+1,c} - x_{r,c}| + |x_{r,c+1} - x_{r,c}|``) + l1·‖x‖₁ on an image of coefficients.

    It is the anisotropic total variation, which makes the image piecewise constant. The prox is exact, by maximum
    flows: about 2 ms for 28 × 28 pixels. x is the image row after row; in a matrix unknown each column is an
    image.

    Parameters
    ----------
    strength : the strength of the differences, not negative.
    image : rows and columns of the image; their product is the number of coordinates.
    l1 : the strength of the ℓ1 norm: one number, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> x = np.array([[0.0, 0.0, 9.0], [0.0, 3.0, 9.0]])
    >>> rs.penalties.TotalVariation2D(1.0, image=(2, 3)).prox(x.ravel(), step=1.0).reshape(2, 3)
    array([[1., 1., 8.],
           [1., 2., 8.]])

    References
    ----------
    Chambolle, Darbon: On total variation minimization and surface evolution using parametric maximum flows, 2009.
    """

    strength: float
    image: tuple[int, int]
    l1: float = 0.0
    _known: dict[int, tuple[Edges, Array, Arcs]] = field(
        init=False, repr=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        check_strength(self.strength)
        check_one_l1(self.l1)
        sides = as_numbers("image", self.image)
        if sides.shape != (2,) or sides.dtype.kind not in "iu" or sides.min() < 1:
            raise InputError(f"image must be two positive integers, got {shown(self.image)}")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        sides = (1, shape[0]) if shape[0] % 2 else (2, shape[0] // 2)
        return [cls(0.01, sides, 0.002)]

    def edges_and_bounds(self, nodes: int) -> tuple[Edges, Array]:
        rows, columns = self.image
        if rows * columns != nodes:
            raise InputError(f"image {rows} × {columns} does not fit x, which has {nodes} rows")
        pixel = np.arange(nodes).reshape(rows, columns)
        across = np.stack([pixel[:, :-1].ravel(), pixel[:, 1:].ravel()], axis=1)
        down = np.stack([pixel[:-1].ravel(), pixel[1:].ravel()], axis=1)
        edges = np.concatenate([across, down]).astype(np.int64)
        return edges, np.full(len(edges), float(self.strength))
