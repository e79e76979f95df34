"""What a solver sees of a problem: P(x) = (1/n) Σ f_i(x) + ψ(x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.penalties import Penalty, Zero
from reshuffle.smoothness import Smoothness

Array = NDArray[np.float64]
Visits = NDArray[np.uint32]


class FiniteSum(ABC):
    """min P(x) = f(x) + ψ(x), f = (1/n) Σ_i f_i, each f_i convex and L_i-smooth.

    ``shape`` is the shape of x; ψ sees ``x[:penalised]`` only (an intercept comes after it).
    """

    n: int
    shape: tuple[int, ...]
    penalised: int
    penalty: Penalty
    ridge: float = 0.0
    weights: Array = np.empty(0)
    """The factors of the losses inside f_i, one a sample; empty where all are 1."""

    @abstractmethod
    def value(self, x: Array) -> float:
        """f(x)."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """∇f(x)."""

    @abstractmethod
    def sweep(
        self,
        x: Array,
        visits: Visits,
        step: float,
        *,
        weights: Array | None = None,
        batch: int = 1,
        average: float = 1.0,
        prox_step: float = 0.0,
    ) -> None:
        """x ← x - step·average·Σ_{i in batch} w_i∇f_i(x), batch after batch, in place.

        With ``prox_step > 0`` every batch is followed by the prox of ψ with that parameter.
        ``weights`` (one a sample) scale the losses; the ridge inside f_i is not scaled.
        """

    @cached_property
    @abstractmethod
    def smoothness(self) -> Smoothness:
        """The constants L_i, L_max, L̄ and L_f."""

    @abstractmethod
    def take(self, order: Visits) -> FiniteSum:
        """The same functions in another order (repetitions allowed), laid out in that order."""

    def compile(self, *, gradient: bool = False) -> None:
        """Compile (or load) the kernels of a run now, so that its clock does not see it."""
        return  # most problems have none

    @property
    def signature(self) -> tuple[object, ...]:
        """Which kernels ``compile`` gets ready: problems with the same signature share them."""
        return (type(self),)

    @property
    def strong_convexity(self) -> float:
        """μ of P as far as it is known beforehand: the ridge plus that of ψ.

        An intercept is not penalised, so μ is that of the other coordinates.
        """
        return self.ridge + float(getattr(self.penalty, "strong_convexity", 0.0))

    @property
    def contraction(self) -> float:
        """μ_f + 2μ_ψ, by which the theorems let an epoch contract: the ridge counts once."""
        return 2.0 * self.strong_convexity - self.ridge

    def objective(self, x: Array) -> float:
        """P(x) = f(x) + ψ(x)."""
        penalty = float(self.penalty.value(x[: self.penalised]))
        return self.value(x) + penalty if np.isfinite(penalty) else penalty

    def prox(self, x: Array, step: float) -> Array:
        """prox_{step·ψ}(x); an intercept stays as it is."""
        given = x[: self.penalised]
        result = np.asarray(self.penalty.prox(given, step), dtype=np.float64)
        if result.shape != given.shape:
            raise InputError(
                f"the prox of penalty {self.penalty!r} must keep the shape {given.shape}, "
                f"it returned {result.shape}"
            )
        if self.penalised == len(x):
            return np.ascontiguousarray(result)
        return np.concatenate([result, x[self.penalised :]])

    def prox_with_ridge(self, x: Array, step: float) -> Array:
        """The prox of ψ + (ridge/2)‖·‖², by that of ψ alone."""
        shrink = 1.0 + step * self.ridge
        scaled = x.copy()
        scaled[: self.penalised] /= shrink
        return self.prox(scaled, step / shrink)

    def gradient_mapping(self, x: Array) -> float:
        """‖x - prox_{τψ}(x - τ∇f(x))‖/τ with τ = 1/L_f: zero at a minimiser and only there."""
        step = 1.0 / self.smoothness.average
        return float(np.linalg.norm(x - self.prox(x - step * self.gradient(x), step)) / step)


def check_penalty(penalty: object) -> Penalty:
    """Anything with ``value`` and ``prox``; ``None`` is no penalty."""
    if penalty is None:
        return Zero()
    if isinstance(penalty, type) or not isinstance(penalty, Penalty):
        raise InputError(f"penalty must have methods value(x) and prox(x, step), got {penalty!r}")
    return penalty
