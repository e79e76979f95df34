from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import Array, ByContent, conjugate_with_ridge

FEASIBLE = (
    1e-9  # of the sizes that a row multiplies: how far a projection may lie outside by rounding
)
RANK = 1e-12  # of the largest singular value: below it an equation follows from others


class _Reduced(NamedTuple):
    """x = origin + basis·w solves Cx = d; rows·w ≤ limits is Ax ≤ b."""

    origin: Array
    basis: Array
    rows: Array
    limits: Array


@dataclass(frozen=True, eq=False)
class Polyhedron(ByContent):
    """ψ(x) = 0 where Ax ≤ b and Cx = d, +inf elsewhere; its prox is the projection.

    The equations are eliminated once, by a singular value decomposition. The projection is then a least-distance
    problem, which an active-set method solves (non-negative least squares, Lawson and Hanson), and a last
    solve on the rows that are active brings to the last digits. For up to some hundred rows and columns.

    Parameters
    ----------
    A, b : the inequalities Ax ≤ b: a dense matrix with a column per coordinate of x, and a vector.
    C, d : the equations Cx = d.

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
    _known: dict[str, _Reduced] = field(init=False, repr=False, default_factory=dict)

    strong_convexity = 0.0

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
        self._check_size(x.size)
        if not np.isfinite(x).all():
            return x.copy()  # a run that blew up is told by its iterate
        origin, basis, rows, limits = self._reduced()
        w = basis.T @ (x.ravel() - origin)
        return (origin + basis @ (w + _least_move(rows, limits - rows @ w))).reshape(x.shape)

    # --- abilities -----------------------------------------------------------------------------

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return ridge > 0

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        return conjugate_with_ridge(self, g, ridge)

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        return 1.0

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

    def _reduced(self) -> _Reduced:
        if "reduced" not in self._known:
            size = self._columns()
            origin, basis = np.zeros(size), np.eye(size)
            if self.C is not None:
                left, sigma, right = np.linalg.svd(self.C)
                rank = int(np.count_nonzero(sigma > RANK * sigma[0]))
                origin = right[:rank].T @ ((left[:, :rank].T @ self.d) / sigma[:rank])
                basis = np.ascontiguousarray(right[rank:].T)
            rows, limits = np.empty((0, basis.shape[1])), np.empty(0)
            if self.A is not None:
                rows, limits = self.A @ basis, self.b - self.A @ origin
                norms = np.linalg.norm(rows, axis=1)
                kept = norms > RANK * np.linalg.norm(self.A, axis=1)  # others do not depend on w
                rows, limits = rows[kept] / norms[kept, None], limits[kept] / norms[kept]
            self._known["reduced"] = _Reduced(origin, basis, rows, limits)
        return self._known["reduced"]


def _least_move(rows: Array, room: Array) -> Array:
    """The shortest s with rows·s ≤ room, rows of length 1.

    With (u, r) the solution and residual of non-negative least squares on [-rowsᵀ; -roomᵀ]u ≈ (0, …, 0, 1), it is
    -r/r_last without its last entry. The rows with u > 0 are active: s is the shortest that meets them.
    """
    from scipy.optimize import nnls

    if not room.size or room.min() >= 0:
        return np.zeros(rows.shape[1])
    scale = float(-room.min())
    system = -np.vstack([rows.T, room[None] / scale])
    aim = np.zeros(len(system))
    aim[-1] = 1.0
    u, _ = nnls(
        system, aim, maxiter=30 * rows.shape[0]
    )  # ten times scipy's: rows may be degenerate
    r = system @ u - aim
    rough: Array = -scale * r[:-1] / r[-1]
    active = u > 0
    s = np.asarray(np.linalg.lstsq(rows[active], room[active], rcond=RANK)[0], dtype=np.float64)
    worst = float((rows @ s - room).max())
    better = worst <= max(float((rows @ rough - room).max()), FEASIBLE * scale)
    return s if better else rough


def _numbers(name: str, given: Any) -> Array:
    try:
        numbers = np.asarray(
            given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers, got {shown(given)}") from None
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} must be finite, got {shown(given)}")
    return numbers
