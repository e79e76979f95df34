from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.penalties.base import ByContent, WithDual

ROUNDING = 1e-12
"""Relative to the largest entry: how far rounding may move a projection from the cone."""


@dataclass(frozen=True, eq=False)
class PSDCone(WithDual, ByContent):
    """ψ(x) = 0 where x is a symmetric matrix without negative eigenvalues, +inf elsewhere.

    The prox takes the symmetric part and drops its negative eigenvalues, at the cost of a decomposition. x has
    k² entries: a k × k matrix, or the same row after row, as in a model of products of two features (a
    quadratic form, a metric).

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.PSDCone().prox(np.diag([3.0, -0.5]), step=1.0)
    array([[3., 0.],
           [0., 0.]])
    """

    homogeneous = True

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        size = int(np.prod(shape))
        return [cls()] if isqrt(size) ** 2 == size else []

    def value(self, x: Array) -> float:
        matrix = _square(x)
        if not np.isfinite(matrix).all():
            return np.inf
        slack = ROUNDING * len(matrix) * float(np.abs(matrix).max())
        symmetric = bool(np.abs(matrix - matrix.T).max() <= slack)
        inside = symmetric and np.linalg.eigvalsh(_symmetric(matrix)).min() >= -slack
        return 0.0 if inside else np.inf

    def prox(self, x: Array, step: float) -> Array:
        matrix = _square(x)
        if not np.isfinite(matrix).all():
            return x.copy()  # The run detects that its iterate diverged.
        values, vectors = np.linalg.eigh(_symmetric(matrix))
        kept = values > 0
        half = vectors[:, kept] * np.sqrt(values[kept])  # The product is symmetric to the last bit.
        return np.ascontiguousarray(half @ half.T).reshape(x.shape)


def _square(x: Array) -> Array:
    side = isqrt(x.size)
    if side * side != x.size or x.shape not in ((side, side), (side * side,)):
        raise InputError(
            f"PSDCone is for a square matrix, also a flat one, got x of shape {x.shape}"
        )
    return x.reshape(side, side)


def _symmetric(matrix: Array) -> Array:
    both: Array = 0.5 * (matrix + matrix.T)
    return both
