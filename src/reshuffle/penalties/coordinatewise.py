"""The penalties that are separable, each by a choice of l1, l2 and bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from reshuffle.penalties.base import Numbers, check_radius
from reshuffle.penalties.separable import Separable


@dataclass(frozen=True, eq=False)
class Zero(Separable):
    """ψ(x) = 0.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.Zero().prox(np.array([2.0, -3.0]), step=1.0)
    array([ 2., -3.])
    """

    example_arguments = ((),)


@dataclass(frozen=True, eq=False)
class L1(Separable):
    """ψ(x) = l1·‖x‖₁, or Σ_j l1_j|x_j| when l1 is an array.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L1(0.5).prox(np.array([2.0, 0.3, -1.0]), step=1.0)  # soft thresholding
    array([ 1.5,  0. , -0.5])
    >>> rs.penalties.L1([0.0, 1.0, 1.0]).value(np.array([2.0, -0.3, 1.0]))  # the first is free
    1.3
    """

    l1: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [cls(0.02), cls(np.linspace(0.0, 0.04, int(np.prod(shape))).reshape(shape))]


@dataclass(frozen=True, eq=False)
class L2(Separable):
    """ψ(x) = (l2/2)·‖x‖², strongly convex with μ = l2.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.L2(1.0).prox(np.array([2.0, -4.0]), step=1.0)  # x/(1 + step·l2)
    array([ 1., -2.])
    """

    l2: Numbers = field()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        return [
            cls(0.1),
            cls(np.linspace(0.05, 0.2, shape[0]).reshape(-1, *[1] * (len(shape) - 1))),
        ]


@dataclass(frozen=True, eq=False)
class ElasticNet(Separable):
    """ψ(x) = l1·‖x‖₁ + (l2/2)·‖x‖², the regulariser of the paper's experiments.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.ElasticNet(l1=1.0, l2=1.0).prox(np.array([3.0, -0.5]), step=1.0)
    array([ 1., -0.])
    """

    l1: Numbers = field()
    l2: Numbers = field()

    example_arguments = ((0.02, 0.1),)


@dataclass(frozen=True, eq=False)
class NonNegative(Separable):
    """ψ(x) = l1·Σ_j x_j + (l2/2)·‖x‖² where x ≥ 0, +inf elsewhere.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.NonNegative(l1=0.5).prox(np.array([2.0, 0.3, -1.0]), step=1.0)
    array([1.5, 0. , 0. ])
    """

    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower = 0.0

    example_arguments = ((0.01,), ())


@dataclass(frozen=True, eq=False)
class Box(Separable):
    """ψ(x) = 0 where lower ≤ x ≤ upper, +inf elsewhere.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.Box(0.0, 1.0).prox(np.array([-0.5, 0.5, 3.0]), step=1.0)
    array([0. , 0.5, 1. ])
    """

    lower: Numbers = -np.inf
    upper: Numbers = np.inf

    example_arguments = ((-0.05, 0.1),)


@dataclass(frozen=True, eq=False)
class LInfBall(Separable):
    """ψ(x) = 0 where ‖x‖_∞ ≤ radius, +inf elsewhere: the box -radius ≤ x ≤ radius.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> rs.penalties.LInfBall(1.0).prox(np.array([3.0, -0.5]), step=1.0)
    array([ 1. , -0.5])
    """

    radius: float

    def __post_init__(self) -> None:
        check_radius(self.radius)
        object.__setattr__(self, "lower", -float(self.radius))
        object.__setattr__(self, "upper", float(self.radius))
        super().__post_init__()

    example_arguments = ((0.08,),)
