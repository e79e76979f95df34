from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array, Mask
from reshuffle.errors import InputError, shown
from reshuffle.penalties.abilities import Features
from reshuffle.penalties.base import BELOW, ByContent, Numbers, as_numbers, check_non_negative
from reshuffle.penalties.forms import Coordinates

NUMBERS = ("l1", "l2", "lower", "upper")


class Separable(ByContent):
    """ψ(x) = Σ_j l1_j|x_j| + (l2_j/2)x_j² + indicator(lower_j ≤ x_j ≤ upper_j).

    The prox is soft thresholding, then shrinking, then clipping. A subclass names some of the four; it has
    every ability, and is applied inside the kernels.

    Examples
    --------
    >>> import numpy as np, reshuffle as rs
    >>> both = rs.penalties.L1(0.5) + rs.penalties.Box(-1.0, 1.0)
    >>> both.prox(np.array([4.0, -1.0, 0.2]), step=1.0)
    array([ 1. , -0.5,  0. ])
    """

    l1: Numbers = 0.0
    l2: Numbers = 0.0
    lower: Numbers = -np.inf
    upper: Numbers = np.inf

    def __post_init__(self) -> None:
        for name in NUMBERS:
            if isinstance(getattr(self, name), (list, tuple)):
                object.__setattr__(self, name, as_numbers(name, getattr(self, name)))
        for name in ("l1", "l2"):
            check_non_negative(name, getattr(self, name))
        if self._is_free:
            return
        low, high = as_numbers("lower", self.lower), as_numbers("upper", self.upper)
        try:
            np.broadcast_shapes(low.shape, high.shape)
        except ValueError:
            raise InputError(
                f"lower and upper must go together, got shapes {low.shape} and {high.shape}"
            ) from None
        numbers = low.dtype.kind in "iuf" and high.dtype.kind in "iuf"
        # lower ≤ upper, with a real number between them; false if one is NaN.
        if not (numbers and np.all((low <= high) & (low < np.inf) & (high > -np.inf))):
            raise InputError(
                f"lower must not exceed upper, got lower={shown(self.lower)}, upper={shown(self.upper)}"
            )

    @property
    def _is_free(self) -> bool:
        return self.lower is Separable.lower and self.upper is Separable.upper

    def _ridge_of_all(self, ridge: float) -> float:
        """l2 plus the ridge if that is one number and there are no bounds; otherwise 0."""
        return float(self.l2 + ridge) if self._is_free and np.ndim(self.l2) == 0 else 0.0

    @property
    def strong_convexity(self) -> float:
        return float(np.min(self.l2))

    def value(self, x: Array) -> float:
        if not self._is_free and (np.any(x < self.lower) or np.any(x > self.upper)):
            return np.inf
        absolute = 0.0 if _is_zero(self.l1) else float((self.l1 * np.abs(x)).sum())
        return absolute + (0.0 if _is_zero(self.l2) else 0.5 * float((self.l2 * x * x).sum()))

    def prox(self, x: Array, step: float) -> Array:
        shrunk = np.maximum(np.abs(x) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        clipped: Array = np.clip(np.copysign(shrunk, x), self.lower, self.upper)
        return clipped

    def __add__(self, other: object) -> Separable:
        """The sum of two separable penalties, which is separable: l1 and l2 add up, bounds meet."""
        if not isinstance(other, Separable):
            return NotImplemented
        both = Separable()
        both.l1, both.l2 = self.l1 + other.l1, self.l2 + other.l2
        low, high = np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper)
        both.lower, both.upper = (v if np.ndim(v) else float(v) for v in (low, high))
        Separable.__post_init__(both)  # Bounds that exclude each other are refused.
        return both

    # --- abilities -----------------------------------------------------------------------------

    @property
    def homogeneous(self) -> bool:
        """Whether ψ(cx) = c·ψ(x) for c > 0: no l2, and no bound but 0."""
        bounds = np.isin(self.lower, (0.0, -np.inf)), np.isin(self.upper, (0.0, np.inf))
        return not np.any(self.l2) and bool(np.all(bounds[0]) and np.all(bounds[1]))

    def compiled(self, shape: tuple[int, ...], ridge: float = 0.0) -> Coordinates:
        numbers = (self.l1, self.l2 + ridge, self.lower, self.upper)
        try:
            return Coordinates(*(np.full(shape, v, dtype=np.float64).ravel() for v in numbers))
        except ValueError:
            given = {n: np.shape(getattr(self, n)) for n in NUMBERS if np.ndim(getattr(self, n))}
            raise InputError(
                f"penalty {type(self).__name__} has arrays of shape {given}, "
                f"which do not fit coordinates of shape {shape}"
            ) from None

    def has_dual(self, shape: tuple[int, ...], ridge: float = 0.0) -> bool:
        """Whether l1, l2 or bounds hold every coordinate."""
        if self._is_free and np.ndim(self.l1) == 0 and np.ndim(self.l2) == 0:
            return bool(self.l1 > 0 or self.l2 + ridge > 0)
        l1, l2, low, high = self.compiled(shape, ridge)
        return bool(np.all((l1 > 0) | (l2 > 0) | np.isfinite(high - low)))

    def conjugate(self, g: Array, ridge: float = 0.0) -> float:
        """Σ_j max_u g_j u - ψ_j(u); without bounds, Σ_j max(|g_j| - l1, 0)²/(2·l2)."""
        held = self._ridge_of_all(ridge)
        if held > 0.0:
            beyond = np.maximum(np.abs(g) - self.l1, 0.0)
            square = float(np.vdot(beyond, beyond)) / (2.0 * held)
            return square if np.isfinite(square) else np.inf
        l2, low, high = np.broadcast_arrays(self.l2 + ridge, self.lower, self.upper)
        shrunk = np.copysign(np.maximum(np.abs(g) - self.l1, 0.0), g)
        best = np.where(shrunk == 0.0, 0.0, np.where(shrunk > 0.0, high, low))
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.clip(np.where(l2 > 0.0, shrunk / l2, best), low, high)
            at_best = g * best - self.l1 * np.abs(best) - 0.5 * l2 * best * best
        return float(np.sum(at_best)) if np.isfinite(best).all() else np.inf

    def dual_scale(self, g: Array, ridge: float = 0.0) -> float:
        if self._ridge_of_all(ridge) > 0.0:
            return 1.0
        low, high = np.broadcast_arrays(self.lower, self.upper)
        free = np.asarray(self.l2) + ridge == 0.0
        unbounded = free & np.where(g > 0.0, np.isinf(high), np.isinf(low))
        beyond = unbounded & (np.abs(g) > self.l1)
        ratios = np.broadcast_to(self.l1, g.shape)[beyond] / np.abs(g[beyond])
        return float(ratios.min() * BELOW) if ratios.size else 1.0

    def part(self, kept: Features, shape: tuple[int, ...]) -> Separable:
        other = Separable()
        for name in NUMBERS:
            given = getattr(self, name)
            whole = np.ndim(given) == 0
            setattr(other, name, given if whole else np.broadcast_to(given, shape)[kept])
        return other

    def holds_at_zero(self, g: Array, slack: float = 1.0, drift: Array | float = 0.0) -> Mask:
        if not np.any(drift):
            return self._rests(g, slack)
        held: Mask = self._rests(g + drift, slack) & self._rests(g - drift, slack)
        return held

    def _rests(self, g: Array, slack: float) -> Mask:
        """Whether -g_j is in ∂ψ_j(0), with l1·slack in place of l1."""
        if self._is_free:
            held: Mask = np.abs(g) <= slack * np.asarray(self.l1)
        else:
            held = np.equal(self._excess(np.zeros(1), g, slack), 0.0)
        return held

    def excess(self, x: Array, g: Array) -> Array:
        return self._excess(x, g, 1.0)

    def _excess(self, x: Array, g: Array, slack: float) -> Array:
        push = np.copysign(np.maximum(np.abs(g) - slack * np.asarray(self.l1), 0.0), -g)
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        blocked = ((push > 0) & (high <= 0)) | ((push < 0) & (low >= 0))
        beyond = np.where(blocked, 0.0, np.abs(push))
        return np.where((x != 0) | (low > 0) | (high < 0), np.inf, beyond)

    def together(self, matter: Mask) -> Mask:
        return matter

    def curvature_product(self, x: Array, v: Array) -> Array:
        product: Array = self.l2 * v
        return product

    def lambda_max(self, g: Array) -> float:
        """The largest ``|g_j|/l1_j`` over the coordinates that no bound keeps from following -g."""
        low, high = np.broadcast_to(self.lower, g.shape), np.broadcast_to(self.upper, g.shape)
        if np.any(low > 0) or np.any(high < 0):
            return np.inf
        pushed: NDArray[np.bool_] = np.where(g > 0, low < 0, high > 0) & (g != 0)
        l1 = np.broadcast_to(self.l1, g.shape)[pushed]
        with np.errstate(divide="ignore"):
            return float(np.max(np.abs(g[pushed]) / l1, initial=0.0))

    def _contents(self) -> list[object]:
        return [getattr(self, name) for name in NUMBERS]

    def __repr__(self) -> str:
        given = [f"{n}={getattr(self, n)!r}" for n in NUMBERS if n in vars(self)]
        return f"{type(self).__name__}({', '.join(given)})"


def _is_zero(numbers: Numbers) -> bool:
    """Whether this is the number zero, for all coordinates."""
    return np.ndim(numbers) == 0 and bool(numbers == 0.0)
