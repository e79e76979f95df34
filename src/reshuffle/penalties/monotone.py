from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.penalties.base import ByContent, WithDual


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

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(), cls(decreasing=True)]

    def value(self, x: Array) -> float:
        steps = np.diff(x, axis=0)
        return 0.0 if np.all(steps <= 0 if self.decreasing else steps >= 0) else np.inf

    def prox(self, x: Array, step: float) -> Array:
        from scipy.optimize import isotonic_regression

        columns = x.reshape(len(x), -1).T
        fitted = [isotonic_regression(c, increasing=not self.decreasing).x for c in columns]
        return np.ascontiguousarray(np.array(fitted).T).reshape(x.shape)
