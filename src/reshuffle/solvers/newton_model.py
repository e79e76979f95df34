"""The quadratic model of a Newton step: minimised by the solver of the core, or given to FISTA as a problem."""

from __future__ import annotations

from math import prod
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.objective import Objective
from reshuffle.penalties import Penalty
from reshuffle.penalties.forms import Coordinates, Form, native_form
from reshuffle.smoothness import Smoothness

FEW = 100
"""The fewest features of a first working set, ``sets::few`` in the core."""


class Solved(NamedTuple):
    """The result of the solver of a model in some coordinates."""

    gained: float
    left: float
    length: float
    """The length of ``null``, in units in which every column has curvature 1; zero if there is no such direction."""
    null: Array
    """A direction in which the model has no curvature."""
    rounds: int


def descend(
    form: Form, H: Array, slope: Array, start: Array, u: Array, accuracy: float, floor: float
) -> Solved:
    """Minimise slopeᵀ(u - start) + ½(u - start)ᵀH(u - start) + ψ(u) from u, in place."""
    flat, null = np.ascontiguousarray(slope).reshape(-1), np.empty(u.size)
    gained, left, length, made = native.minimise(
        native_form(form), H, flat, start, u, accuracy, floor, null
    )
    return Solved(gained, left, length, null, made)


def loose_rows(form: Form, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Rows of an unknown of this shape that no penalty holds: that of an intercept, and those of unpenalised features."""
    loose, held = np.ones(shape[0], dtype=bool), np.empty(form.l1.size, dtype=bool)
    native.held(native_form(form), held)
    outputs = prod(shape[1:])
    features = held.size // outputs
    loose[:features] = ~held.reshape(features, outputs).any(axis=1)
    return loose


def is_quadratic(form: Form) -> TypeGuard[Coordinates]:
    """Whether ψ is Σ_j (l2_j/2)x_j²."""
    each = form.one_by_one
    if each is None or each.l1.any():
        return False
    return bool(np.all(each.low == -np.inf) and np.all(each.high == np.inf))


def within(form: Form, x: Array) -> Array:
    """x clipped to the bounds of the penalty, if it has any."""
    each = form.one_by_one
    if each is None:
        return x
    new = x.copy()
    flat = new.reshape(-1)[: each.l1.size]
    np.clip(flat, each.low, each.high, out=flat)
    return new


class QuadraticObjective(Objective):
    """⟨g, u - x⟩ + ½(u - x)ᵀH(u - x) + ψ(u), for FISTA where the core cannot minimise it."""

    n = 1

    def __init__(self, x: Array, g: Array, H: Array, penalty: Penalty) -> None:
        self.x, self.g, self.H, self.penalty = x, g, H, penalty
        self.shape = x.shape

    def value(self, x: Array) -> float:
        d = x - self.x
        return float(self.g @ d + 0.5 * d @ self.H @ d)

    def gradient(self, x: Array) -> Array:
        return np.asarray(self.g + self.H @ (x - self.x))

    @cached_property
    def smoothness(self) -> Smoothness:
        largest = float(np.linalg.eigvalsh(self.H)[-1])
        return Smoothness(lambda: np.array([largest]))
