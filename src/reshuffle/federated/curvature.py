"""The clients' part of a second-order round: value, gradient and Hessian at a point, as sums over samples.

Question and answer are flat arrays of numbers, and the answers of all clients are added as they are:
the server needs nothing but their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.federated.local import Load, Local, LocalEpoch, travels
from reshuffle.objective import Array, FiniteSum
from reshuffle.problem import Problem
from reshuffle.randomness import Stream
from reshuffle.solvers.second_order import RowCurvature, SecondOrder

LENGTHS = (1.0, 0.5, 0.25, 1.0 / 16.0, 1.0 / 64.0)
"""Shares of the last step at which f is evaluated, so that one round tells how far the step should have gone."""

FAR = 1e200
"""The number that stands for values which overflow at a point too far out. No such point is ever accepted."""


class Question(NamedTuple):
    """The question of the server: f at x and along the last step d, which ended at x, and derivatives at x."""

    x: Array
    d: Array
    """The last step: zero where f at x is known to be good enough."""
    damping: float
    """Curvature that is added to every row, in parts of the largest."""
    active: NDArray[np.bool_]
    """The features whose second derivatives are wanted."""

    def packed(self) -> Array:
        return np.concatenate([[self.damping], self.active, self.x.ravel(), self.d.ravel()])

    @classmethod
    def of(cls, message: Array, shape: tuple[int, ...], features: int) -> Self:
        active = message[1 : features + 1] != 0.0
        x, d = message[features + 1 :].reshape(2, *shape)
        return cls(np.ascontiguousarray(x), np.ascontiguousarray(d), float(message[0]), active)


class Answer(NamedTuple):
    """Sums over samples, the ridge left out."""

    values: Array
    """The values of f at x - d + t·d, for the t of ``LENGTHS``."""
    spread: float
    """Σ_i c·w_i(a_iᵀd)² with c the largest curvature: what damping costs a step."""
    gradient: Array
    hessian: Array
    """The Hessian in the active features and the intercept, flat over features and outputs."""

    def packed(self) -> Array:
        lower = self.hessian[np.tril_indices(len(self.hessian))]
        return np.concatenate([self.values, [self.spread], self.gradient.ravel(), lower])

    @classmethod
    def of(cls, numbers: Array, shape: tuple[int, ...], width: int) -> Self:
        head, size = len(LENGTHS) + 1, int(np.prod(shape))
        hessian, at = np.empty((width, width)), np.tril_indices(width)
        hessian[at] = hessian.T[at] = numbers[head + size :]
        gradient = numbers[head : head + size].reshape(shape)
        return cls(numbers[: head - 1], float(numbers[head - 1]), gradient, hessian)


@travels
@dataclass(frozen=True)
class Curved(Local):
    """f_m and its derivatives at a point, for an unknown of this shape."""

    shape: tuple[int, ...]
    features: int
    seed: int

    def width(self, active: NDArray[np.bool_]) -> int:
        """The rows of the Hessian: active features and the intercept, times outputs."""
        rows = int(np.count_nonzero(active)) + self.shape[0] - self.features
        return rows * int(np.prod(self.shape[1:]))

    def point(self, message: Array) -> Array:
        return Question.of(message, self.shape, self.features).x

    def told(self, numbers: Array) -> Array:
        return np.nan_to_num(numbers, nan=FAR, posinf=FAR, neginf=-FAR).clip(-FAR, FAR)

    def reply_shape(self, message: Array) -> tuple[int, ...]:
        width = self.width(message[1 : self.features + 1] != 0.0)
        size = int(np.prod(self.shape))
        return (len(LENGTHS) + 1 + size + width * (width + 1) // 2,)

    def blocks(self, message: Array) -> tuple[int, ...]:
        (whole,), size = self.reply_shape(message), int(np.prod(self.shape))
        return len(LENGTHS), 1, size, whole - len(LENGTHS) - 1 - size

    def gradients(self, visits: int, samples: int, number: int) -> int:
        return samples

    def load(self, client: FiniteSum) -> Load:
        return Load(0, client.n, 1.0)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        fit = cast(Problem, client).datafit
        # the clients have no common means to centre columns at
        curves = SecondOrder(fit, origin=np.zeros(self.features))

        def epoch(
            x: Array, step: float, number: int, stream: Stream, control: Array | None
        ) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):  # at points that are too far out
                return self.told(answer(Question.of(x, self.shape, self.features)).packed())

        def answer(asked: Question) -> Answer:
            at, values, spread = curves.linearise(asked.x), np.empty(len(LENGTHS)), 0.0
            values[:], largest = fit.n * at.value, curves.largest(at)
            if asked.d.any():
                start = asked.x - asked.d
                values[1:] = [fit.value(start + t * asked.d) for t in LENGTHS[1:]]
                spread = fit.n * largest * curves.mean_square(curves.margins(asked.d))
            active = np.flatnonzero(asked.active).astype(np.uint32)
            H = curves.hessian(RowCurvature(at.curvatures, asked.damping * largest), active)
            return Answer(values, spread, fit.n * at.gradient, fit.n * H)

        return epoch
