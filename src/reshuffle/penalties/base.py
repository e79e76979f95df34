"""The common base of this package's penalties: checks, equality by content, conjugates with a ridge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError, shown
from reshuffle.penalties.abilities import Penalty
from reshuffle.penalties.inexact import approximate

Numbers = float | NDArray[np.float64]
"""One number for all coordinates, or an array that broadcasts against them."""
HALVINGS = 60  # Bisections of an interval of length 1: more than a float64 can resolve.
# A factor just below 1 that keeps a scaled point feasible in spite of rounding.
BELOW = 1.0 - 2.0**-51
# The same for points whose norms or singular values are computed anew, with more rounding.
FAR_BELOW = 1.0 - 1e-12


class ByContent:
    """Objects are equal if their classes and parameters are, arrays included. For dataclasses with ``eq=False``."""

    example_arguments: ClassVar[tuple[tuple[Any, ...], ...]] = ()
    """Arguments of the examples, of a class whose examples fit every shape."""

    @classmethod
    def examples(cls, shape: tuple[int, ...]) -> list[Self]:
        """Instances for an unknown of this shape, with which the conformance tests run."""
        return [cls(*arguments) for arguments in cls.example_arguments]

    @property
    def strong_convexity(self) -> float:
        """μ with ψ - (μ/2)‖·‖² convex."""
        return 0.0

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(map(_same, self._contents(), other._contents()))

    def __hash__(self) -> int:
        return hash((type(self), *map(_frozen, self._contents())))

    def _contents(self) -> list[object]:
        return [getattr(self, f.name) for f in fields(self) if f.init]  # type: ignore[arg-type]


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(_frozen(one) == _frozen(other))


def _frozen(value: object) -> object:
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(map(_frozen, value))
    return value


def as_numbers(name: str, value: object) -> AnyArray:
    """The parameter of this name as an array of numbers; anything else is refused."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        raise InputError(
            f"{name} must be a number or an array of numbers, got {shown(value)}"
        ) from None


def check_non_negative(name: str, value: object) -> None:
    """Check that a strength is a finite, non-negative number or an array of such numbers."""
    if type(value) is float and 0.0 <= value < np.inf:
        return  # Most strengths are plain floats, for which numpy would be slow.
    numbers = as_numbers(name, value)
    if numbers.dtype.kind not in "iuf" or not np.all((numbers >= 0) & np.isfinite(numbers)):
        raise InputError(f"{name} must be finite and not negative, got {shown(value)}")


def check_strength(strength: float) -> None:
    """Check that a strength is one finite, non-negative number."""
    if isinstance(strength, (list, tuple)) or np.ndim(strength):
        raise InputError(f"strength must be one number, got {shown(strength)}")
    check_non_negative("strength", strength)


def check_radius(radius: float, name: str = "radius") -> None:
    """Check that a radius is one positive, finite number."""
    good = isinstance(radius, (int, float, np.number)) and np.isfinite(radius)
    if not (good and radius > 0):
        raise InputError(f"{name} must be positive and finite, got {shown(radius)}")


def check_weights(weights: object, count: int, per: str) -> Array:
    """The weights as an array; refused unless there are so many. ``per`` says what each belongs to."""
    numbers = np.asarray(weights, dtype=np.float64)
    if numbers.shape != (count,):
        raise InputError(
            f"weights must hold {count} numbers, one per {per}, got shape {numbers.shape}"
        )
    return numbers


def bisected(low: float, high: float, beyond: Callable[[float], bool]) -> tuple[float, float]:
    """The ends between which ``beyond`` becomes true, closer together than a float64 can tell apart."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high


def largest_scale(feasible: Callable[[float], bool]) -> float:
    """The largest α ≤ 1 up to which α is feasible."""
    return bisected(0.0, 1.0, lambda scale: not feasible(scale))[0]


def strength_that_holds(slopes: Array, strength: float) -> float:
    """λ_max of a penalty that holds slopes up to its strength at zero: the smallest t with t·strength ≥ max |slopes|."""
    largest = float(np.abs(slopes).max(initial=0.0))
    return largest / strength if strength > 0 else np.inf if largest > 0 else 0.0


def soft(x: Array, threshold: Numbers) -> Array:
    """Soft thresholding."""
    shrunk: Array = np.copysign(np.maximum(np.abs(x) - threshold, 0.0), x)
    return shrunk


def conjugate_with_ridge(penalty: Penalty, g: Array, ridge: float) -> float:
    """(ψ + (r/2)‖·‖²)*(g) = ⟨g, p⟩ - ψ(p) - (r/2)‖p‖² at p = prox_{ψ/r}(g/r), for a ridge r > 0.

    If the prox is found by iterations, the result is an upper bound instead, so that no duality gap comes out too
    small. With x = g/r, the formula is -rΦ(p) + r‖x‖²/2 for the objective Φ(u) = ψ(u)/r + ‖u - x‖²/2 of the prox, and
    the supremum is the same at the minimum of Φ. A p with Φ(p) - min Φ ≤ gap therefore misses it by at most
    r·gap, which is added.
    """
    p, _, gap, _ = approximate(penalty, g / ridge, 1.0 / ridge)
    there = np.vdot(g, p) - penalty.value(p) - 0.5 * ridge * np.vdot(p, p)
    return float(there + ridge * gap)


class WithDual:
    """The abilities that a duality gap needs.

    With a ridge they use ``value`` and ``prox`` alone, so that they hold for every class that inherits them. A
    subclass whose ψ* is known without a ridge says so by ``has_dual``, and has ``own_conjugate`` or ``own_scale``.
    """

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        """Whether there is a ridge: without one, no formula gives a dual point."""
        return ridge > 0

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """ψ*(g); with a ridge by the prox, see ``conjugate_with_ridge``."""
        if ridge > 0:
            return conjugate_with_ridge(cast(Penalty, self), g, ridge)
        return self.own_conjugate(g)

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        """1 with a ridge, with which the conjugate is finite everywhere."""
        return 1.0 if ridge > 0 else self.own_scale(g)

    def own_conjugate(self, g: Array) -> float:
        """ψ*(g) without a ridge: of a positively homogeneous ψ 0 where g is feasible, else +inf."""
        return 0.0 if self.own_scale(g) == 1.0 else np.inf

    def own_scale(self, g: Array) -> float:
        """The largest known α ≤ 1 with ψ*(αg) finite, without a ridge; for any ψ that is 0."""
        return 0.0


class DualByNorm(WithDual, ABC):
    """The dual of a ψ that is a norm: g is feasible where its dual norm, which is ``lambda_max``, is at most 1."""

    @abstractmethod
    def lambda_max(self, g: Array) -> float:
        """The dual norm of g."""

    def own_scale(self, g: Array) -> float:
        norm = self.lambda_max(g)
        return 1.0 if norm <= 1.0 else FAR_BELOW / norm
