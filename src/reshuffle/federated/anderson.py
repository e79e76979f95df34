"""Anderson extrapolation of a fixed-point iteration z ← T(z), with a safeguard.

From the last points z_j, their images T(z_j) and residuals r_j = T(z_j) - z_j, the next point is

    Σ_j α_j T(z_j),    α = argmin ‖Σ_j α_j r_j‖  with  Σ_j α_j = 1,

written with differences of neighbours, so that the weights are a least-squares problem without a
constraint. On a linear map it does what GMRES does. It costs no evaluation of T.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reshuffle.objective import Array

GROWTH = 2.0  # of the residual beyond its best, at which an extrapolation counts as failed
PIECE = 1 << 12  # entries of a point at a time
SAME = 1e-7  # of the residual: changes of it that say nothing about where it would vanish
LONGEST = 100.0
"""The most that weights may add up to, in absolute value, in rounds. Far from the solution slopes of Huber's or the quantile
loss are flat, a round is nearly a translation, and longer extrapolations went to P(x) a million times above its start."""
RIDGE = 1e-10  # of the least-squares problem, relative to its trace


class Choice(NamedTuple):
    """The next point: images[base] - Σ_i weights_i (images[i+1] - images[i]); and which to keep."""

    base: int
    weights: Array
    kept: slice

    def point(self, images: Sequence[Array] | Array) -> Array:
        """The next point. Entry by entry, in pieces, so that no further array of its size is made."""
        out: Array = images[self.base].copy()
        flat = out.reshape(-1)
        pairs = [
            (w, images[i].reshape(-1), images[i + 1].reshape(-1))
            for i, w in enumerate(self.weights)
        ]
        for start in range(0, flat.size, PIECE):
            at = slice(start, start + PIECE)
            moved = np.zeros_like(flat[at])
            for weight, before, after in pairs:
                moved += weight * (after[at] - before[at])
            flat[at] -= moved
        return out


def chosen(norms: Array, gram: Array, slopes: Array, memory: int) -> Choice:
    """The choice by what is known of the residuals r_j, newest last, all of it sums over the clients.

    ``norms`` are ‖r_j‖, ``gram`` the products of the changes r_{j+1} - r_j among themselves, ``slopes``
    those with the newest residual. Where the residual has grown too much, or its best is ``memory``
    points old, the next point is the image of the best one, and nothing older or newer is kept: a plain
    step from there.
    """
    none = np.empty(0)
    best, last = int(norms.argmin()), len(norms) - 1
    failed = not norms[last] <= GROWTH * norms[best]
    if last == 1 and failed:  # the step was a plain one: T itself is no contraction here
        return Choice(last, none, slice(last, None))
    if failed or last - best >= memory:
        return Choice(best, none, slice(best, best + 1))
    kept = slice(max(0, last + 1 - memory), None)
    if last == 0 or not norms[last] > 0:
        return Choice(last, none, kept)
    if not np.trace(gram) > (SAME * norms[last]) ** 2:
        # far out where slopes are flat a round is a translation, and extrapolation would lead to infinity
        return Choice(last, none, kept)
    gram = gram.copy()
    gram[np.diag_indices(last)] += RIDGE * np.trace(gram) + np.finfo(float).tiny
    weights: Array = np.linalg.solve(gram, slopes).astype(np.float64, copy=False)
    total = float(np.abs(weights).sum())
    return Choice(last, weights * (LONGEST / max(total, LONGEST)), kept)


def extrapolated(
    images: Sequence[Array] | Array, residuals: Sequence[Array] | Array, memory: int
) -> tuple[Array, slice]:
    """The next point, and which of the images and residuals (newest last) to keep."""
    choice = chosen(*products(residuals), memory)
    return choice.point(images), choice.kept


def products(residuals: Sequence[Array] | Array) -> tuple[Array, Array, Array]:
    """‖r_j‖, the products of the changes r_{j+1} - r_j among themselves, and those with the newest residual.

    In pieces, so that no further array of the size of a residual is made; and not by BLAS, whose sums depend on
    its number of threads.
    """
    count, flat = len(residuals), [residual.reshape(-1) for residual in residuals]
    squares, gram, slopes = np.zeros(count), np.zeros((count - 1, count - 1)), np.zeros(count - 1)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # of a run that diverges, which is said elsewhere
        for start in range(0, flat[-1].size, PIECE):
            r = np.stack([residual[start : start + PIECE] for residual in flat])
            changes = np.diff(r, axis=0)
            squares += np.einsum("ik,ik->i", r, r)
            gram += np.einsum("ik,jk->ij", changes, changes)
            slopes += np.einsum("ik,k->i", changes, r[-1])
    return np.sqrt(squares), gram, slopes
