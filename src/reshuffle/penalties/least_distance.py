"""The shortest move into a polyhedron, by active sets: a guess that is verified, or non-negative least squares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array

RANK = 1e-12
"""Relative to the largest singular value: below it, an equation follows from the others."""
FEASIBLE = 1e-9  # Relative to the sizes that a row multiplies: how far rounding may move a projection outside.
ROUNDED = 1e-12  # Relative to the longest distance to a row: a point this close counts as lying on its boundary.


class Move(NamedTuple):
    """s, the multipliers of the rows, a bound on ‖s‖²/2 - ‖s*‖²/2, and how many systems were solved."""

    s: Array
    multipliers: Array
    gap: float
    solves: int


def least_move(rows: Array, room: Array, guess: NDArray[np.bool_]) -> Move:
    """The shortest s with rows·s ≤ room, for rows of length 1; ``guess`` says which of them it may meet.

    s* = -rowsᵀμ with μ ≥ 0, and μ = 0 in the rows that it does not meet. The right guess is proved by one small
    system; after a wrong one the method of Lawson and Hanson finds the rows.
    """
    if not room.size or room.min() >= 0:
        return Move(np.zeros(rows.shape[1]), np.zeros(room.size), 0.0, 0)
    scale = float(-room.min())
    active = _multipliers(rows[guess], room[guess])
    if active is not None and active.min() >= 0:
        s = -rows[guess].T @ active
        if float((rows @ s - room).max()) <= ROUNDED * scale:
            multipliers = np.zeros(room.size)
            multipliers[guess] = active
            return Move(s, multipliers, _gap(rows, room, s, multipliers, scale), 1)
    s, multipliers = _by_nnls(rows, room, scale)
    return Move(s, multipliers, _gap(rows, room, s, multipliers, scale), 1 + bool(guess.any()))


def _multipliers(rows: Array, room: Array) -> Array | None:
    """The multipliers of the shortest s that meets these rows, by Cholesky factors and two corrections; None if the rows are dependent."""
    from scipy.linalg import cho_factor, cho_solve

    if not room.size:
        return None
    gram = rows @ rows.T
    try:
        factors = cho_factor(gram)
    except np.linalg.LinAlgError:
        return None
    found: Array = -cho_solve(factors, room)
    for _ in range(2):
        found -= cho_solve(factors, room + gram @ found)
    return found


def _meeting(rows: Array, room: Array) -> tuple[Array, Array]:
    """The shortest s that meets these rows, and their multipliers."""
    s = np.asarray(np.linalg.lstsq(rows, room, rcond=RANK)[0], dtype=np.float64)
    return s, np.asarray(np.linalg.lstsq(rows.T, -s, rcond=RANK)[0], dtype=np.float64)


def _by_nnls(rows: Array, room: Array, scale: float) -> tuple[Array, Array]:
    """With (u, r) the solution and residual of non-negative least squares on [-rowsᵀ; -roomᵀ]u ≈ (0, …, 0, 1),
    s is -r/r_last without its last entry. The rows with u > 0 are active: s is the shortest that meets them.
    """
    from scipy.optimize import nnls

    system = -np.vstack([rows.T, room[None] / scale])
    aim = np.zeros(len(system))
    aim[-1] = 1.0
    # Degenerate rows need more iterations than scipy's default.
    u, _ = nnls(system, aim, maxiter=30 * rows.shape[0])
    r = system @ u - aim
    rough: Array = -scale * r[:-1] / r[-1]
    multipliers, active = -scale / r[-1] * u, u > 0
    s, exact = _meeting(rows[active], room[active])
    worst = float((rows @ s - room).max())
    if worst > max(float((rows @ rough - room).max()), FEASIBLE * scale):
        return rough, multipliers
    if exact.min() >= 0:
        multipliers[active] = exact
    return s, multipliers


def _gap(rows: Array, room: Array, s: Array, multipliers: Array, scale: float) -> float:
    """‖r‖²/2 + Σ_i μ_i(room_i - rows_i·s) with r = s + rowsᵀμ.

    r - s lies in the ε-normal cone at s, ε being the sum, which says how much longer s may be than the shortest
    one. A row counts as met if it is met up to rounding: s is then the shortest move for a room that differs by no more.
    """
    active = multipliers > 0
    r = s + rows[active].T @ multipliers[active]
    slack = np.abs(room[active] - rows[active] @ s)
    left = multipliers[active] @ np.maximum(slack - ROUNDED * scale, 0.0)
    return float(0.5 * np.vdot(r, r) + left)
