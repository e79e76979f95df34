"""Anderson extrapolation of a fixed-point iteration z ← T(z), with a safeguard.

From the last points z_j, their images T(z_j) and residuals r_j = T(z_j) - z_j, the next point is

    Σ_j α_j T(z_j),    α = argmin ‖Σ_j α_j r_j‖  with  Σ_j α_j = 1,

written with differences of neighbours, so that the weights are a least-squares problem without a
constraint. On a linear map it does what GMRES does. It costs no evaluation of T.
"""

from __future__ import annotations

import numpy as np

from reshuffle.objective import Array

GROWTH = 2.0  # of the residual beyond its best, at which an extrapolation counts as failed
RIDGE = 1e-10  # of the least-squares problem, relative to its trace


def extrapolated(images: Array, residuals: Array, memory: int) -> tuple[Array, slice]:
    """The next point, and which of the images and residuals (newest last) to keep.

    Where the residual has grown too much, or its best is ``memory`` points old, the next point is the
    image of the best one, and nothing older or newer is kept: a plain step from there.
    """
    flat = residuals.reshape(len(residuals), -1)
    norms = np.sqrt((flat * flat).sum(axis=1))
    best, last = int(norms.argmin()), len(norms) - 1
    failed = not norms[last] <= GROWTH * norms[best]
    if last == 1 and failed:  # the step was a plain one: T itself is no contraction here
        return images[last], slice(last, None)
    if failed or last - best >= memory:
        return images[best], slice(best, best + 1)
    kept = slice(max(0, last + 1 - memory), None)
    if last == 0 or not norms[last] > 0:
        return images[last], kept
    changes = np.diff(flat, axis=0)
    # not by BLAS, whose sums depend on its number of threads
    gram = np.einsum("ik,jk->ij", changes, changes)
    gram[np.diag_indices(last)] += RIDGE * np.trace(gram) + np.finfo(float).tiny
    weights = np.linalg.solve(gram, np.einsum("ik,k->i", changes, flat[last]))
    moves = np.diff(images.reshape(len(images), -1), axis=0)
    point = images[last] - np.einsum("i,ik->k", weights, moves).reshape(images[last].shape)
    return point, kept
