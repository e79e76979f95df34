"""What a penalty is: a value and a prox."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError

Array = NDArray[np.float64]
BELOW = 1.0 - 2.0**-51  # keeps a scaled point feasible in spite of rounding
Numbers = float | NDArray[np.float64]
"""One number for all coordinates, or an array that broadcasts against them."""


@runtime_checkable
class Penalty(Protocol):
    """Anything with these two methods is a penalty; no base class is needed.

    It may also say how strongly convex it is (``strong_convexity``, 0 where it does not).
    """

    def value(self, x: Array) -> float:
        """ψ(x), +inf outside a constraint."""
        ...

    def prox(self, x: Array, step: float) -> Array:
        """argmin_u step·ψ(u) + ‖u - x‖²/2."""
        ...


class Conjugate(Protocol):
    """A penalty whose conjugate is known, so that a duality gap can be had."""

    def value(self, x: Array) -> float: ...

    def conjugate(self, g: Array) -> float:
        """ψ*(g) = sup_x ⟨g, x⟩ - ψ(x)."""
        ...

    def dual_scale(self, g: Array) -> float:
        """The largest α ≤ 1 for which ψ*(αg) is finite."""
        ...


class Separable:
    """ψ(x) = Σ_j l1_j|x_j| + (l2_j/2)x_j² + indicator(lower_j ≤ x_j ≤ upper_j).

    The prox is soft thresholding, then shrinking, then clipping; the kernels know it too, so these
    penalties may be applied after every step at compiled speed.
    """

    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower: Numbers = -np.inf
    upper: Numbers = np.inf

    def __post_init__(self) -> None:
        for name in ("l1", "l2", "lower", "upper"):
            if isinstance(getattr(self, name), (list, tuple)):
                object.__setattr__(self, name, np.array(getattr(self, name)))
        for name in ("l1", "l2"):
            check_non_negative(name, getattr(self, name))
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        numbers = low.dtype.kind in "iuf" and high.dtype.kind in "iuf"
        # lower ≤ upper with a real number between them; false where one is NaN
        if not (numbers and np.all((low <= high) & (low < np.inf) & (high > -np.inf))):
            raise InputError(
                f"lower must not exceed upper, got lower={self.lower!r}, upper={self.upper!r}"
            )

    @property
    def strong_convexity(self) -> float:
        return float(np.min(self.l2))

    def value(self, x: Array) -> float:
        if np.any(x < self.lower) or np.any(x > self.upper):
            return np.inf
        return float(np.sum(self.l1 * np.abs(x)) + 0.5 * np.sum(self.l2 * x * x))

    def prox(self, x: Array, step: float) -> Array:
        shrunk = np.maximum(np.abs(x) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        clipped: Array = np.clip(np.copysign(shrunk, x), self.lower, self.upper)
        return clipped

    def with_ridge(self, ridge: float) -> Separable:
        """ψ + (ridge/2)‖·‖²."""
        other = Separable()
        other.l1, other.l2 = self.l1, self.l2 + ridge
        other.lower, other.upper = self.lower, self.upper
        return other

    def part(self, kept: NDArray[np.uint32], shape: tuple[int, ...]) -> Separable:
        """The penalty of these rows of an x of the given shape."""
        other = Separable()
        for name in ("l1", "l2", "lower", "upper"):
            given = getattr(self, name)
            whole = np.ndim(given) == 0
            setattr(other, name, given if whole else np.broadcast_to(given, shape)[kept])
        return other

    def holds_at_zero(self, g: Array, slack: float = 1.0) -> NDArray[np.bool_]:
        """Where x_j = 0 is optimal against the gradient g: -g_j in ∂ψ_j(0), with l1·slack for l1."""
        push = np.copysign(np.maximum(np.abs(g) - slack * np.asarray(self.l1), 0.0), -g)
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        allowed = (low <= 0) & (high >= 0)
        still = (push == 0) | ((push < 0) & (low == 0)) | ((push > 0) & (high == 0))
        held: NDArray[np.bool_] = np.logical_and(allowed, still)
        return held

    def conjugate(self, g: Array) -> float:
        """ψ*(g) = sup_x ⟨g, x⟩ - ψ(x), +inf where unbounded."""
        l2, low, high = np.broadcast_arrays(self.l2, self.lower, self.upper)
        shrunk = np.copysign(np.maximum(np.abs(g) - self.l1, 0.0), g)
        best = np.where(shrunk == 0.0, 0.0, np.where(shrunk > 0.0, high, low))
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.clip(np.where(l2 > 0.0, shrunk / l2, best), low, high)
            at_best = g * best - self.l1 * np.abs(best) - 0.5 * l2 * best * best
        return float(np.sum(at_best)) if np.isfinite(best).all() else np.inf

    def dual_scale(self, g: Array) -> float:
        """The largest α ≤ 1 for which ψ*(αg) is finite."""
        low, high = np.broadcast_arrays(self.lower, self.upper)
        unbounded = (np.asarray(self.l2) == 0.0) & np.where(g > 0.0, np.isinf(high), np.isinf(low))
        beyond = unbounded & (np.abs(g) > self.l1)
        ratios = np.broadcast_to(self.l1, g.shape)[beyond] / np.abs(g[beyond])
        return float(ratios.min() * BELOW) if ratios.size else 1.0

    def coefficients(self, shape: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
        """l1, l2, lower, upper for every coordinate, flat: what the kernels take."""
        try:
            l1, l2, lower, upper = (
                np.ascontiguousarray(np.broadcast_to(v, shape), dtype=np.float64).ravel()
                for v in (self.l1, self.l2, self.lower, self.upper)
            )
        except ValueError:
            raise InputError(
                f"penalty {self!r} has coefficients that do not fit coordinates of shape {shape}"
            ) from None
        return l1, l2, lower, upper


def check_non_negative(name: str, value: Numbers) -> None:
    """A strength is a finite number that is not negative, or an array of such."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iuf" or not np.all((numbers >= 0) & np.isfinite(numbers)):
        raise InputError(f"{name} must be finite and not negative, got {value!r}")
