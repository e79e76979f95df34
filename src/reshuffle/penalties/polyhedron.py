from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.capacity import check_room
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import ByContent, WithDual
from reshuffle.penalties.inexact import COLD, Approximate
from reshuffle.penalties.least_distance import FEASIBLE, RANK, least_move


class _Reduced(NamedTuple):
    """x = origin + basis·w solves Cx = d; rows·w ≤ limits is Ax ≤ b."""

    origin: Array
    basis: Array
    rows: Array
    limits: Array


@dataclass(frozen=True, eq=False)
class Polyhedron(WithDual, ByContent):
    """ψ(x) = 0 where Ax ≤ b and Cx = d, +inf elsewhere; its prox is the projection.

    The equations are eliminated once, by a singular value decomposition. The projection is then a least-distance
    problem, which an active-set method solves (non-negative least squares, Lawson and Hanson), and a last
    solve on the active rows refines to the last digits. A run tries the rows of its last prox first. It is meant for up
    to some hundreds of rows and columns.

    Parameters
    ----------
    A, b : the inequalities Ax ≤ b: a matrix with a column per coordinate of x, and a vector.
    C, d : the equations Cx = d. A sparse A or C is made dense, because eliminating equations makes rows dense.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> ordered = rs.penalties.Polyhedron(A=[[1.0, -1.0, 0.0]], b=[0.0], C=[[1.0, 1.0, 1.0]], d=[3.0])
    >>> ordered.prox(np.array([4.0, 0.0, 1.0]), step=1.0).round(12)
    array([1.33333333, 1.33333333, 0.33333333])

    References
    ----------
    Lawson, Hanson: Solving least squares problems, 1974, chapter 23.
    """

    A: Any = None
    b: Any = None
    C: Any = None
    d: Any = None

    def __post_init__(self) -> None:
        if self.A is None and self.C is None:
            raise InputError("Polyhedron needs inequalities (A and b) or equations (C and d)")
        for pair in (("A", "b"), ("C", "d")):
            matrix, vector = (getattr(self, name) for name in pair)
            if matrix is None and vector is None:
                continue
            matrix, vector = (_numbers(n, v) for n, v in zip(pair, (matrix, vector), strict=True))
            if matrix.ndim != 2 or vector.shape != (len(matrix),) or not matrix.size:
                raise InputError(
                    f"{pair[0]} must be a matrix with a row for each of the numbers {pair[1]}, "
                    f"got shapes {matrix.shape} and {vector.shape}"
                )
            object.__setattr__(self, pair[0], matrix)
            object.__setattr__(self, pair[1], vector)
        if self.A is not None and self.C is not None and self.A.shape[1] != self.C.shape[1]:
            raise InputError(
                f"A and C must have as many columns, got {self.A.shape[1]} and {self.C.shape[1]}"
            )
        self._check_feasible()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        size = int(np.prod(shape))
        rising = (np.eye(size) - np.eye(size, k=1))[:3]  # x_1 ≤ x_2 ≤ x_3 ≤ x_4
        return [
            cls(
                np.vstack([rising, np.ones(size)]),
                np.array([0.0, 0.0, 0.0, 0.5]),
                np.eye(size)[-1:],
                [0.02],
            )
        ]

    def value(self, x: Array) -> float:
        flat = x.ravel()
        self._check_size(flat.size)
        if not np.isfinite(flat).all():
            return np.inf
        size = 1.0 + float(np.abs(flat).max())
        outside = 0.0
        for matrix, vector, equal in ((self.A, self.b, False), (self.C, self.d, True)):
            if matrix is not None:
                beyond = matrix @ flat - vector
                scale = np.abs(matrix).sum(axis=1) * size + np.abs(vector)
                outside = max(outside, float(((np.abs(beyond) if equal else beyond) / scale).max()))
        return 0.0 if outside <= FEASIBLE else np.inf

    def prox(self, x: Array, step: float) -> Array:
        return self.prox_from(x, step, COLD, 0.0).point

    # --- abilities -----------------------------------------------------------------------------

    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        """``start`` holds the multipliers of the rows: if the same rows are active again, one solve is enough."""
        self._check_size(x.size)
        if not np.isfinite(x).all():
            return Approximate(x.copy(), COLD, np.inf)  # The run detects that its iterate diverged.
        origin, basis, rows, limits = self._reduced
        guess = start > 0 if start.shape == limits.shape else np.zeros(limits.shape, dtype=bool)
        w = basis.T @ (x.ravel() - origin)
        move = least_move(rows, limits - rows @ w, guess)
        point = (origin + basis @ (w + move.s)).reshape(x.shape)
        return Approximate(point, move.multipliers, move.gap, move.solves)

    # --- pieces --------------------------------------------------------------------------------

    def _columns(self) -> int:
        return int((self.A if self.A is not None else self.C).shape[1])

    def _check_size(self, size: int) -> None:
        if size != self._columns():
            raise InputError(f"Polyhedron is for {self._columns()} coordinates, but x has {size}")

    def _check_feasible(self) -> None:
        from scipy.optimize import linprog

        found = linprog(
            np.zeros(self._columns()), self.A, self.b, self.C, self.d, bounds=(None, None)
        )
        if found.status == 2:
            raise InputError("Polyhedron is empty: no x has Ax ≤ b and Cx = d")

    @cached_property
    def _reduced(self) -> _Reduced:
        size = self._columns()
        origin, basis = np.zeros(size), np.eye(size)
        if self.C is not None:
            left, sigma, right = np.linalg.svd(self.C)
            rank = int(np.count_nonzero(sigma > RANK * sigma[0]))
            origin = right[:rank].T @ ((left[:, :rank].T @ self.d) / sigma[:rank])
            basis = np.ascontiguousarray(right[rank:].T)
        if self.A is None:
            return _Reduced(origin, basis, np.empty((0, basis.shape[1])), np.empty(0))
        rows, limits = self.A @ basis, self.b - self.A @ origin
        norms = np.linalg.norm(rows, axis=1)
        kept = norms > RANK * np.linalg.norm(self.A, axis=1)  # The other rows do not depend on w.
        return _Reduced(origin, basis, rows[kept] / norms[kept, None], limits[kept] / norms[kept])


def _numbers(name: str, given: Any) -> Array:
    if hasattr(given, "toarray"):
        check_room(f"{name} of shape {given.shape}, dense,", 8 * prod(given.shape))
        given = given.toarray()
    try:
        if np.iscomplexobj(given):
            raise TypeError  # numpy would silently drop the imaginary part.
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers, got {shown(given)}") from None
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} must be finite, got {shown(given)}")
    return numbers
