from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.penalties.base import (
    FAR_BELOW,
    ByContent,
    WithDual,
    check_strength,
    strength_that_holds,
)

SAFE = 1e-3  # Relative to ‖x‖: for larger thresholds the Gram matrix gives singular values to 1e-13 of the largest.


@dataclass(frozen=True, eq=False)
class NuclearNorm(WithDual, ByContent):
    """ψ(x) = strength · Σ_k σ_k(x), the singular values of a matrix unknown; it favours a low rank.

    The prox costs a decomposition: with x = UΣVᵀ it is U max(Σ - step·strength, 0) Vᵀ. If the threshold is large
    enough, V and Σ come from the Gram matrix of the shorter side.

    Parameters
    ----------
    strength : the factor in front, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.NuclearNorm(1.0).prox(np.diag([3.0, 0.5]), step=1.0)
    array([[2., 0.],
           [0., 0.]])
    """

    strength: float

    homogeneous = True

    def __post_init__(self) -> None:
        check_strength(self.strength)

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02)] if len(shape) == 2 else []

    def value(self, x: Array) -> float:
        matrix = _matrix(x)
        if not np.isfinite(matrix).all():
            return np.inf
        return float(self.strength * _singular_values(matrix).sum())

    def prox(self, x: Array, step: float) -> Array:
        matrix = _matrix(x)
        if not np.isfinite(matrix).all():
            return x.copy()  # The run detects that its iterate diverged.
        threshold = step * self.strength
        if threshold > SAFE * float(np.linalg.norm(matrix)):
            return _by_gram(matrix, threshold)
        left, sigma, right = np.linalg.svd(matrix, full_matrices=False)
        shrunk: Array = (left * np.maximum(sigma - threshold, 0.0)) @ right
        return shrunk

    # --- abilities -----------------------------------------------------------------------------

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return self.strength > 0 or ridge > 0

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """Σ_k max(σ_k(g) - strength, 0)²/(2·ridge), and without a ridge 0 or +inf."""
        if ridge == 0:
            return self.own_conjugate(g)
        return float(
            np.sum(np.maximum(_singular_values(g) - self.strength, 0.0) ** 2) / (2 * ridge)
        )

    def own_scale(self, g: Array) -> float:
        largest = float(_singular_values(g).max(initial=0.0))
        return 1.0 if largest <= self.strength else self.strength / largest * FAR_BELOW

    def lambda_max(self, g: Array) -> float:
        """σ_max(g)/strength."""
        return strength_that_holds(_singular_values(g), self.strength)


def _by_gram(matrix: Array, threshold: float) -> Array:
    """x·V max(1 - threshold/Σ, 0) Vᵀ with xᵀx = VΣ²Vᵀ, for the shorter side: a third to a half of the time of the SVD.

    Only σ > threshold count. Rounding moves σ² by ε·σ_max² and so σ by ε·σ_max²/(2·threshold).
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    squares, vectors = np.linalg.eigh(tall.T @ tall)
    kept = squares > threshold**2
    vectors, sigma = vectors[:, kept], np.sqrt(squares[kept])
    shrunk = ((tall @ vectors) * (1.0 - threshold / sigma)) @ vectors.T
    return np.ascontiguousarray(shrunk if tall is matrix else shrunk.T)


def _singular_values(x: Array) -> Array:
    return np.asarray(np.linalg.svd(_matrix(x), compute_uv=False), dtype=np.float64)


def _matrix(x: Array) -> Array:
    if x.ndim != 2:
        raise InputError(
            f"NuclearNorm is for a matrix unknown (a multinomial model), got x of shape {x.shape}"
        )
    return x
