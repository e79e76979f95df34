"""The interface of a problem: P(x) = f(x) + ψ(x), and f as a mean of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from reshuffle.arrays import Array as Array
from reshuffle.arrays import Ends, Noise
from reshuffle.arrays import Visits as Visits
from reshuffle.cached import cached_property
from reshuffle.datafit import ALONE, Copies, Datafit
from reshuffle.digests import Fingerprint, digest, on_demand
from reshuffle.errors import InputError, shown
from reshuffle.interruption import listen
from reshuffle.penalties import Penalty, Zero, ability, strong_convexity
from reshuffle.penalties.inexact import COLD, Approximate, approximate
from reshuffle.smoothness import Smoothness
from reshuffle.validation import check_number, check_vector, check_visits


class Objective(ABC):
    """P(x) = f(x) + ψ(x), f convex and L_f-smooth.

    ``shape`` is the shape of x; ψ sees ``x[:features]`` only (an intercept comes after it).
    """

    n: int
    """The number of functions whose mean is f: a full gradient counts as this many gradients."""
    shape: tuple[int, ...]
    penalty: Penalty = Zero()
    ridge: float = 0.0
    """f contains (ridge/2)‖x[:features]‖²."""
    taken_by: ClassVar[str] = "FedRR, ExactFedRR or FISTA"
    """Solvers for a problem that is not a finite sum, for a message."""

    @property
    def features(self) -> int:
        """The number of rows of x on which ψ and the ridge depend."""
        return self.shape[0]

    @abstractmethod
    def value(self, x: Array) -> float:
        """f(x)."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """∇f(x)."""

    can_recede: bool = False
    """Whether ``recedes`` can be true for this loss."""

    receding: str = "every row is fitted, twice the coefficients fit it better (the classes are separable and unpenalised)"
    """The meaning of ``recedes``, for a message."""

    def recedes(self, x: Array) -> bool:
        """Whether every f_i is known to decrease along tx for all t ≥ 1, so that f has no minimum in that direction."""
        return False

    @property
    def smoothness(self) -> Smoothness:
        """The constants L_i, L_max, L̄ and L_f."""
        raise InputError(
            f"{type(self).__name__} has no smoothness constants: give it some "
            "(OracleProblem(smoothness=...)), or give the solver a step and no tol"
        )

    @property
    def typical_curvature(self) -> float:
        """L̄, or a substitute if the loss has no curvature bound; its inverse is the step of the gradient mapping in ``tol``."""
        return self.smoothness.L_mean

    # --- ψ -------------------------------------------------------------------------------------

    def objective(self, x: Array, value: float | None = None) -> float:
        """P(x) = f(x) + ψ(x), where f(x) may be known already."""
        name = f"value(x) of penalty {type(self.penalty).__name__}"
        penalty = check_number(name, self.penalty.value(x[: self.features]))
        if not np.isfinite(penalty):
            return penalty
        known = self.value(x) if value is None else value
        return check_number(f"value(x) of {type(self).__name__}", known) + penalty

    def prox(self, x: Array, step: float) -> Array:
        """prox_{step·ψ}(x); an intercept is not changed."""
        return self._whole("prox(x, step)", self.penalty.prox(x[: self.features], step), x)

    def prox_with_ridge(self, x: Array, step: float) -> Array:
        """The prox of ψ + (ridge/2)‖·‖², computed from that of ψ."""
        return self.prox(*self._shrunk(x, step))

    def prox_from(
        self, x: Array, step: float, start: Array, gap: float, *, with_ridge: bool
    ) -> Approximate:
        """``prox`` or ``prox_with_ridge``, with a warm start and a requested gap if it is found by iterations.

        With k = 1 + step·ridge the objective of the second is k times that of the first plus a constant, so
        its gap is k times that of the first.
        """
        shrink = 1.0 + step * self.ridge if with_ridge else 1.0
        point, length = self._shrunk(x, step) if with_ridge else (x, step)
        if ability(self.penalty, "prox_from") is None:
            return Approximate(self.prox(point, length), COLD)
        found = approximate(self.penalty, point[: self.features], length, start, gap / shrink)
        whole = self._whole("prox_from(x, step, start, gap)", found.point, point)
        return found._replace(point=whole, gap=shrink * found.gap)

    def _shrunk(self, x: Array, step: float) -> tuple[Array, float]:
        """The point and the step of the prox of ψ that give the prox of ψ + (ridge/2)‖·‖² at x."""
        shrink = 1.0 + step * self.ridge
        scaled = x.copy()
        scaled[: self.features] /= shrink
        return scaled, step / shrink

    def _whole(self, function: str, found: object, x: Array) -> Array:
        """The result of a function of the penalty at x, checked and completed by the intercept of x."""
        given, name = x[: self.features], f"{function} of penalty {type(self.penalty).__name__}"
        result = check_vector(name, found, given.shape)
        if not np.isfinite(result).all() and np.isfinite(given).all():
            raise InputError(f"{name} must be finite where x is, it returned NaN or infinity")
        return result if self.features == len(x) else np.concatenate([result, x[self.features :]])

    @property
    def strong_convexity(self) -> float:
        """A lower bound of μ of P that is known beforehand: the ridge plus μ of ψ.

        An intercept is not penalised, so μ is that of the other coordinates.
        """
        return self.ridge + strong_convexity(self.penalty)

    @property
    def contraction(self) -> float:
        """μ_f + 2μ_ψ, the contraction rate of an epoch in the theorems, in which the ridge counts once."""
        return 2.0 * self.strong_convexity - self.ridge

    def gradient_mapping(self, x: Array) -> float:
        """‖x - prox_{τψ}(x - τ∇f(x))‖/τ with τ = 1/L_f: zero at a minimiser and only there."""
        step = 1.0 / self.smoothness.L_f
        return float(np.linalg.norm(x - self.prox(x - step * self.gradient(x), step)) / step)

    def lambda_max(self) -> float:
        """The smallest factor t for which t·ψ holds every feature at zero.

        For ``L1(1.0)`` this is the usual λ_max = ‖∇f(0)‖_∞. With an intercept the gradient is taken at
        the best model that consists of an intercept only.
        """
        known = ability(self.penalty, "lambda_max")
        if known is None:
            raise InputError(f"penalty {self.penalty!r} cannot tell its lambda_max")
        return float(known(self.gradient(self.without_features())[: self.features]))

    def without_features(self) -> Array:
        """x = 0, with the best intercept if there is one."""
        return np.zeros(self.shape)

    # --- the run's business --------------------------------------------------------------------

    def prepare(self) -> None:
        """Do one-time work before a run's clock starts."""
        return  # Most problems have nothing to prepare.

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Digests of the parts of the problem: a run is resumed only on a problem with the same ones."""
        return Fingerprint(self.contents)

    def contents(self) -> Mapping[str, str]:
        """The digest of each part's content."""
        return {"problem": digest(self)}

    def __getstate__(self) -> dict[str, object]:
        """The state without cached values: kernels and constants belong to one process."""
        found = on_demand(type(self))
        return {name: value for name, value in vars(self).items() if name not in found}


class FiniteSum(Objective):
    """f = (1/n) Σ_i f_i, each f_i convex and L_i-smooth.

    A subclass has ``n``, ``shape``, ``value(x)`` and ``component(i, x)`` = ∇f_i(x), and ``smoothness``
    if solvers are to choose their steps; then every solver runs on it. The other methods may be
    overridden by faster ones.
    """

    weights: Array = np.empty(0)
    """The factors of the losses inside f_i, one per sample; empty if all are 1."""
    weight: float = 1.0
    """The mean weight of the functions relative to those of other clients, if it was given."""
    datafit: Datafit | None = None
    """The losses in the form that the kernels read; ``None`` if the functions are known only by their gradients."""

    def component(self, i: int, x: Array) -> Array:
        """∇f_i(x)."""
        return self.take(np.array([i], dtype=np.uint32)).gradient(x)

    def checked_component(self, i: int, x: Array) -> Array:
        """∇f_i(x), checked to be an array of x's shape."""
        name = f"component(i, x) of {type(self).__name__} with i={i}"
        return check_vector(name, self.component(i, x), self.shape)

    def gradient(self, x: Array) -> Array:
        total = np.zeros(self.shape)
        for i in range(self.n):
            listen()
            total += self.checked_component(i, x)
        return total / self.n

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
        ``weights`` (one per sample) scale the losses; the ridge inside f_i is not scaled.
        """
        for start in range(0, visits.size, batch):
            direction = np.zeros(self.shape)
            for i in visits[start : start + batch]:
                listen()
                scale = average if weights is None or not weights.size else average * weights[i]
                direction += scale * self.checked_component(int(i), x)
            x -= step * direction
            if prox_step > 0:
                x[...] = self.prox(x, prox_step)

    def clipped_sweep(
        self,
        x: Array,
        visits: Visits,
        ends: Ends,
        step: float,
        *,
        average: float,
        clip: float,
        noise: Noise,
        share: float,
        prox_step: float = 0.0,
    ) -> None:
        """x ← x - step·average·(Σ_{i in batch} clip_C(∇f_i(x)) + noise_k + share·ridge·x), batch after batch, in place.

        clip_C(g) = g·min(1, C/‖g‖), over all unknowns; ∇f_i is without the ridge here, which is not clipped. Batch k
        ends before visit ``ends[k]``, may be empty, and has the next row of the noise. ``share`` is the mean length of a batch: a
        ridge in proportion to its own length would reveal this length. A gradient that is NaN counts as zero.
        """
        start, features = 0, slice(self.features)
        for stop in ends.tolist():
            direction = noise(1)[0]
            for i in visits[start:stop]:
                listen()
                direction += clipped(np.nan_to_num(self._without_ridge(int(i), x), nan=0.0), clip)
            direction[features] += share * self.ridge * x[features]
            x -= step * average * direction
            if prox_step > 0:
                x[...] = self.prox(x, prox_step)
            start = stop

    def weighted(self, factor: float) -> FiniteSum:
        """The sum with all losses multiplied by a factor."""
        raise InputError(f"{type(self).__name__} cannot weigh its functions beside other clients'")

    # --- slopes: what is remembered of a gradient ---------------------------------------------------

    def slopes(self, x: Array) -> tuple[Array, Array]:
        """A table with one entry per function, on which ∇f_i(x) depends, and the mean gradient at x.

        For a linear model an entry is a number (or one per output), otherwise a whole gradient. A ridge
        inside f_i is left out: with slopes it counts as part of ψ (``prox_with_ridge``).
        """
        table = np.array([self._without_ridge(i, x) for i in range(self.n)])
        return table, table.mean(axis=0)

    def corrected_sweep(
        self, x: Array, visits: Visits, step: float, table: Array, drift: Array
    ) -> None:
        """x ← x - step·(∇f_i(x) - ∇̃f_i + drift),  ∇̃f_i ← ∇f_i(x), visit after visit.

        ∇̃f_i is what ``table`` remembers of ∇f_i; x and the table are changed in place. A ridge is left
        out, as in ``slopes``. With the table and the mean gradient at y, and the mean for the drift, these
        are the steps of SVRG; with a table of zeros and the drift -h, gradient steps on f_i - ⟨h, ·⟩.
        """
        visits = check_visits(visits, self.n)
        for name, array, shape in (
            ("x", x, self.shape),
            ("table", table, (self.n, *table.shape[1:])),
        ):
            if array.shape != shape or array.dtype != np.float64 or not array.flags.writeable:
                raise InputError(
                    f"{name} must be a float64 array of shape {shape} that can be changed"
                )
        drift = check_vector("drift", drift, self.shape)
        self.block(x, visits, step, table, drift)
        x -= step * visits.size * drift

    def block(
        self, y: Array, visits: Visits, step: float, table: Array, q: Array, copies: Copies = ALONE
    ) -> None:
        """As ``corrected_sweep``, with the drift along q applied at the end: the k-th step reads x as y - step·k·q.

        With importance copies, the visits name copies, and the table has an entry for each of them.
        """
        for k, c in enumerate(visits.tolist()):
            listen()
            i, weight = (int(copies.owner[c]), copies.weights[c]) if copies.owner.size else (c, 1.0)
            new = self._without_ridge(i, y - step * k * q)
            y -= step * weight * (new - table[c])
            table[c] = new

    def _without_ridge(self, i: int, x: Array) -> Array:
        gradient = self.checked_component(i, x)
        if self.ridge:
            features = slice(self.features)
            gradient = gradient.copy()
            gradient[features] -= self.ridge * x[features]
        return gradient

    def first(self) -> FiniteSum:
        """A problem of the first function only, on which to try a method of your own."""
        return self.take(np.zeros(1, dtype=np.uint32))

    def take(self, order: Visits) -> FiniteSum:
        """The functions in the given order (repetitions allowed), stored in that order."""
        return Reordered(self, order)

    def __init_subclass__(cls) -> None:
        own = {
            n
            for n in ("component", "gradient", "take")
            if getattr(cls, n) is not vars(FiniteSum)[n]
        }
        if "component" not in own and not {"gradient", "take"} <= own:
            raise InputError(
                f"{cls.__name__} must have component(i, x), the gradient of one function"
            )


def clipped(vector: Array, bound: float) -> Array:
    """v·min(1, C/‖v‖), without overflow."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0:
        return vector
    scaled = np.clip(vector, -np.finfo(float).max, np.finfo(float).max) / min(
        largest, np.finfo(float).max
    )
    norm = float(np.linalg.norm(scaled))
    return vector if largest * norm <= bound else scaled * (bound / norm)


class Reordered(FiniteSum):
    """The functions of another sum in the order given."""

    def __init__(self, whole: FiniteSum, order: Visits) -> None:
        self.whole, self.order = whole, order
        self.n, self.shape = int(order.size), whole.shape
        self.penalty, self.ridge = whole.penalty, whole.ridge
        self.weights = whole.weights[order] if whole.weights.size else whole.weights

    @property
    def features(self) -> int:
        return self.whole.features

    def value(self, x: Array) -> float:
        if not np.array_equal(np.sort(self.order), np.arange(self.whole.n)):
            raise InputError(
                "only the value of all functions together is known, not the value of some of them"
            )
        return self.whole.value(x)

    def component(self, i: int, x: Array) -> Array:
        return self.whole.component(int(self.order[i]), x)

    @cached_property
    def smoothness(self) -> Smoothness:
        constants = self.whole.smoothness.individual[self.order]
        return Smoothness(constants.copy)


def check_penalty(penalty: Any) -> Penalty:
    """The penalty, checked to have ``value`` and ``prox``; ``None`` means no penalty."""
    if penalty is None:
        return Zero()
    methods = (getattr(penalty, name, None) for name in ("value", "prox"))
    if isinstance(penalty, type) or not all(map(callable, methods)):
        raise InputError(
            f"penalty must have methods value(x) and prox(x, step), got {shown(penalty)}"
        )
    given: Penalty = penalty
    return given


def check_ridge(ridge: object) -> float:
    """A ridge is a finite number that is not negative."""
    if not (isinstance(ridge, (int, float, np.number)) and 0 <= ridge < np.inf):
        raise InputError(f"ridge must be finite and not negative, got {shown(ridge)}")
    return float(ridge)
