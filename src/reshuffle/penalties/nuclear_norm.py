from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.errors import InputError
from reshuffle.penalties.base import Array, check_non_negative


@dataclass(frozen=True)
class NuclearNorm:
    """ψ(x) = strength · Σ_k σ_k(x), the singular values of a matrix unknown: it asks for a low rank.

    The prox costs a singular value decomposition: with x = UΣVᵀ it is U max(Σ - step·strength, 0) Vᵀ.

    Parameters
    ----------
    strength : the factor in front, not negative.
    """

    strength: float

    def __post_init__(self) -> None:
        check_non_negative("strength", self.strength)
        if np.ndim(self.strength):
            raise InputError(f"strength must be one number, got {self.strength!r}")

    def value(self, x: Array) -> float:
        return float(self.strength * np.linalg.svd(_matrix(x), compute_uv=False).sum())

    def prox(self, x: Array, step: float) -> Array:
        left, sigma, right = np.linalg.svd(_matrix(x), full_matrices=False)
        shrunk: Array = (left * np.maximum(sigma - step * self.strength, 0.0)) @ right
        return shrunk


def _matrix(x: Array) -> Array:
    if x.ndim != 2:
        raise InputError(
            f"NuclearNorm is for a matrix unknown (a multinomial model), got x of shape {x.shape}"
        )
    return x
