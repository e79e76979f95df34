"""Penalties of the order of coordinates, whose proxes are isotonic regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import (
    FAR_BELOW,
    ByContent,
    WithDual,
    as_numbers,
    check_non_negative,
    check_strength,
    check_weights,
)


@dataclass(frozen=True, eq=False)
class Monotone(WithDual, ByContent):
    """ψ(x) = 0 where x_1 ≤ x_2 ≤ … (or ≥, where ``decreasing``), +inf elsewhere.

    The prox is isotonic regression. In a matrix unknown each column is monotone.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.Monotone().prox(np.array([1.0, 4.0, 2.0, 5.0]), step=1.0)
    array([1., 3., 3., 5.])
    """

    decreasing: bool = False

    homogeneous = True
    comonotone = True

    def __post_init__(self) -> None:
        if not isinstance(self.decreasing, (bool, np.bool_)):
            raise InputError(f"decreasing must be True or False, got {shown(self.decreasing)}")

    example_arguments = ((), (True,))

    def value(self, x: Array) -> float:
        steps = np.diff(x, axis=0)
        return 0.0 if np.all(steps <= 0 if self.decreasing else steps >= 0) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        columns = x.reshape(len(x), -1).T
        fitted = [_isotonic(c, increasing=not self.decreasing) for c in columns]
        return np.ascontiguousarray(np.array(fitted).T).reshape(x.shape)


@dataclass(frozen=True, eq=False)
class SLOPE(WithDual, ByContent):
    """ψ(x) = strength · Σ_j w_j·``|x|_(j)``, with ``|x|_(1) ≥ |x|_(2) ≥ …`` the sorted magnitudes (OWL).

    With weights that do not increase it is a norm: coordinates of nearly equal effect get the same magnitude.
    The prox sorts, subtracts the weights, makes the sequence decreasing (isotonic regression) and clips at 0.

    Parameters
    ----------
    strength : the factor in front, not negative.
    weights : w_1 ≥ w_2 ≥ … ≥ 0, one for each coordinate of x (of all columns, for a matrix unknown).

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> rs.penalties.SLOPE(1.0, weights=[2.0, 1.0, 0.0]).prox(np.array([-5.0, 4.5, 1.0]), step=1.0)
    array([-3.25,  3.25,  1.  ])

    References
    ----------
    Bogdan, van den Berg, Sabatti, Su, Candès: SLOPE, adaptive variable selection via convex optimization, 2015.
    """

    strength: float
    weights: Sequence[float] | Array

    homogeneous = True

    def __post_init__(self) -> None:
        check_strength(self.strength)
        weights = as_numbers("weights", self.weights)
        check_non_negative("weights", weights)
        if weights.ndim != 1 or not weights.size or np.any(np.diff(weights) > 0):
            raise InputError(f"weights must be 1-d and must not increase, got {shown(weights)}")

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02, np.linspace(2.0, 0.5, int(np.prod(shape))))]

    def value(self, x: Array) -> float:
        return float(self._bounds(x) @ _falling(x))

    def prox(self, x: Array, step: float) -> Array:
        magnitudes = np.abs(x.ravel())
        order = np.argsort(-magnitudes, kind="stable")
        fallen = _isotonic(magnitudes[order] - step * self._bounds(x), increasing=False)
        shrunk = np.empty(x.size)
        shrunk[order] = np.maximum(fallen, 0.0)
        return np.copysign(shrunk, x.ravel()).reshape(x.shape)

    # --- abilities -----------------------------------------------------------------------------

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        return ridge > 0 or (self.strength > 0 and self.weights[0] > 0)

    def own_scale(self, g: Array) -> float:
        """g is feasible where its k largest magnitudes add up to at most the k largest weights, for every k."""
        sums, bounds = np.cumsum(_falling(g)), np.cumsum(self._bounds(g))
        if np.all(sums <= bounds):
            return 1.0
        beyond = sums > bounds
        return float((bounds[beyond] / sums[beyond]).min() * FAR_BELOW)

    def lambda_max(self, g: Array) -> float:
        """The largest quotient of the sum of the k largest magnitudes of g by that of the k largest weights, over k."""
        sums, bounds = np.cumsum(_falling(g)), np.cumsum(self._bounds(g))
        if not sums[-1] > 0:
            return 0.0
        with np.errstate(divide="ignore"):
            return float(np.max(sums / bounds))

    def _bounds(self, x: Array) -> Array:
        return self.strength * check_weights(self.weights, x.size, "coordinate of x")


def _falling(x: Array) -> Array:
    """The magnitudes in decreasing order."""
    ordered: Array = np.sort(np.abs(x), axis=None)[::-1]
    return ordered


def _isotonic(x: Array, increasing: bool) -> Array:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(x, increasing=increasing).x)
