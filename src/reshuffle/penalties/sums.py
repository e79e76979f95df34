from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.penalties.abilities import ability, strong_convexity, weak_convexity
from reshuffle.penalties.balls import L2Ball
from reshuffle.penalties.base import ByContent, WithDual
from reshuffle.penalties.coordinatewise import L1
from reshuffle.penalties.inexact import COLD, Approximate, approximate
from reshuffle.penalties.ordered import SLOPE, Monotone
from reshuffle.penalties.separable import NUMBERS, Separable


@dataclass(frozen=True, eq=False)
class Sum(WithDual, ByContent):
    """ψ(x) = first(x) + second(x), for pairs whose prox follows exactly from those of the two parts.

    The rules, either way round:

    - a penalty plus ``L2(l2)`` with one number: prox_{sψ} at x/(1 + s·l2) with step s/(1 + s·l2);
    - one whose subgradients depend only on the order of the coordinates (``Monotone``, ``FusedLasso``, ``GraphFusedLasso``,
      ``TotalVariation2D``; ability ``comonotone``) plus a separable one that is the same for all coordinates:
      its prox, then that of the separable one;
    - a positively homogeneous one (norms and cones; ability ``homogeneous``) plus ``L2Ball``: its prox, then
      the projection;
    - two separable ones: write ``L1(0.1) + Box(-1.0, 1.0)`` for a penalty with every ability.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> P = rs.penalties
    >>> P.Sum(P.Monotone(), P.Box(0.0, 2.5)).prox(np.array([-1.0, 4.0, 2.0, 5.0]), step=1.0)
    array([0. , 2.5, 2.5, 2.5])
    >>> P.Sum(P.NuclearNorm(1.0), P.L1(1.0))
    Traceback (most recent call last):
    reshuffle.errors.InputError: the prox of NuclearNorm + L1 does not follow from those of the two ...

    References
    ----------
    Yu: On decomposing the proximal map, 2013.
    """

    first: Any
    second: Any

    def __post_init__(self) -> None:
        self._rule()

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        weights = np.linspace(2.0, 0.5, int(np.prod(shape)))
        return [cls(Monotone(decreasing=True), L1(0.003)), cls(L2Ball(0.3), SLOPE(0.02, weights))]

    @property
    def strong_convexity(self) -> float:
        return max(self._convexity, 0.0)

    @property
    def weak_convexity(self) -> float:
        """ρ of the sum; 0 if one part is convex enough for both."""
        return max(-self._convexity, 0.0)

    @property
    def _convexity(self) -> float:
        """The largest known μ, of either sign, for which ψ - (μ/2)‖·‖² is convex."""
        parts = (self.first, self.second)
        return sum(strong_convexity(p) - weak_convexity(p) for p in parts)

    def value(self, x: Array) -> float:
        return float(self.first.value(x) + self.second.value(x))

    def prox(self, x: Array, step: float) -> Array:
        return self._approximate(x, step, COLD, 0.0).point

    # --- abilities -----------------------------------------------------------------------------

    @property
    def prox_from(self) -> Callable[[Array, float, Array, float], Approximate] | None:
        """The prox by iterations, if a part has one; the gap of the part is also one of the sum.

        With ``L2`` and k = 1 + s·l2 the objective of the sum is k times that of the part and a constant, and so is
        the gap. With a radial one, q = c·p is made of a p with x - p - r in s∂_ε ψ(p), ε + ‖r‖²/2 ≤ gap. ψ being
        homogeneous, this is in s∂_{cε} ψ(q) too; p - q is a subgradient of the other at q, and so x - q - r one of both,
        with no larger gap as c ≤ 1.
        """
        kind, inner, _ = self._rule()
        known = kind in ("ridge", "radial") and ability(inner, "prox_from") is not None
        return self._approximate if known else None

    def _approximate(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        kind, inner, outer = self._rule()
        if kind == "separable":
            return Approximate((inner + outer).prox(x, step), COLD)
        if kind == "ridge":
            shrink = 1.0 + step * float(outer.l2)
            found = approximate(inner, x / shrink, step / shrink, start, gap / shrink)
            return found._replace(gap=shrink * found.gap)
        found = approximate(inner, x, step, start, gap)
        return found._replace(point=outer.prox(found.point, step))

    def _rule(self) -> tuple[str, Any, Any]:
        """The rule that applies, and the parts in the order in which their proxes are taken."""
        for inner, outer in ((self.first, self.second), (self.second, self.first)):
            if isinstance(inner, Separable) and isinstance(outer, Separable):
                return "separable", inner, outer
            if _is_ridge(outer):
                return "ridge", inner, outer
            if ability(inner, "comonotone") and _is_uniform(outer):
                return "ordered", inner, outer
            if ability(inner, "homogeneous") and ability(outer, "radial"):
                return "radial", inner, outer
        names = f"{type(self.first).__name__} + {type(self.second).__name__}"
        raise InputError(
            f"the prox of {names} does not follow from those of the two (see penalties.Sum for "
            "the pairs where it does)"
        )


def _is_uniform(penalty: object) -> bool:
    """Whether the penalty is separable, and the same for all coordinates."""
    return isinstance(penalty, Separable) and not any(np.ndim(getattr(penalty, n)) for n in NUMBERS)


def _is_ridge(penalty: object) -> bool:
    """Whether the penalty is (l2/2)‖x‖² with one number l2, and nothing else."""
    if not isinstance(penalty, Separable) or not _is_uniform(penalty):
        return False
    return (penalty.l1, penalty.lower, penalty.upper) == (0.0, -np.inf, np.inf)
