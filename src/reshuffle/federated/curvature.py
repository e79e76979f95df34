"""The clients' part of a second-order round: value, gradient and Hessian at a point, as sums over samples.

Question and answer are flat arrays of numbers, and the answers of all clients are added as they are:
the server needs nothing but their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Mask
from reshuffle.disk_datafit import DiskDatafit, on_disk
from reshuffle.errors import InputError
from reshuffle.federated.local import Load, Local, LocalEpoch, Turn, travels
from reshuffle.objective import Array, FiniteSum
from reshuffle.problem import as_problem
from reshuffle.solvers.second_order import RowCurvature, SecondOrder

LENGTHS = (1.0, 0.5, 0.25, 1.0 / 16.0, 1.0 / 64.0)
"""Shares of the last step at which f is evaluated, so that one round shows how long the step should have been."""

HEAD = len(LENGTHS) + 1
"""The numbers of an answer before its derivatives: values along the last step, and the cost of damping."""
FLAGS = (1, 2, 4, 8)
"""Weights that code four features, active or not, as a number below 16, which is exact even in the shortest number format."""
NOTHING = np.empty(0)
FAR = 1e200
"""The number that replaces values that overflow at a point too far out. Such a point is never accepted."""


class Question(NamedTuple):
    """The question of the server: f at x and along the last step, which led from ``base`` to x, and derivatives at x."""

    x: Array
    base: Array
    """The start of the last step; x itself if f at x is known to be good enough."""
    damping: float
    """The curvature that is added to every row, as a share of the largest."""
    active: NDArray[np.bool_]
    """The features whose second derivatives are wanted."""

    def packed(self) -> Array:
        flags = np.zeros((-(-self.active.size // len(FLAGS)), len(FLAGS)))
        flags.ravel()[: self.active.size] = self.active
        head = [[self.damping], flags @ FLAGS]
        return np.concatenate([*head, self.x.ravel(), self.base.ravel()])

    @classmethod
    def of(cls, message: Array, shape: tuple[int, ...], features: int) -> Self:
        x, base = message[_flags(features) :].reshape(2, *shape)
        active = active_of(message, features)
        return cls(np.ascontiguousarray(x), np.ascontiguousarray(base), float(message[0]), active)


def _flags(features: int) -> int:
    """Where x begins in a message."""
    return 1 + -(-features // len(FLAGS))


def active_of(message: Array, features: int) -> Mask:
    """The features whose second derivatives a message asks for."""
    flags = message[1 : _flags(features), None].astype(np.int64)
    chosen: Mask = (flags & np.array(FLAGS)) != 0
    return chosen.ravel()[:features]


class Answer(NamedTuple):
    """Sums over samples, without the ridge."""

    values: Array
    """The values of f at x - d + t·d, for the t of ``LENGTHS``."""
    spread: float
    """Σ_i c·w_i(a_iᵀd)² with c the largest curvature: the cost of damping for a step."""
    gradient: Array
    hessian: Array
    """The Hessian in the active features and the intercept, flat over features and outputs."""
    mean: Array = NOTHING
    """The gradient as a mean over samples. It is not sent."""

    def plus(self, other: Answer) -> Answer:
        """The sums over the samples of both; the sums of this one are changed."""
        for mine, more in zip(self[:4], other[:4], strict=True):
            if isinstance(mine, np.ndarray):
                mine += more
        return self._replace(spread=self.spread + other.spread)

    def packed(self) -> Array:
        lower = self.hessian[np.tril_indices(len(self.hessian))]
        return np.concatenate([self.values, [self.spread], self.gradient.ravel(), lower])

    @classmethod
    def of(cls, numbers: Array, shape: tuple[int, ...], width: int) -> Self:
        slopes, lower = numbers[HEAD : HEAD + prod(shape)], numbers[HEAD + prod(shape) :]
        hessian, at = np.empty((width, width)), np.tril_indices(width)
        hessian[at] = hessian.T[at] = lower
        return cls(numbers[: HEAD - 1], float(numbers[HEAD - 1]), slopes.reshape(shape), hessian)


def triangle(width: int) -> int:
    """The entries of a symmetric matrix that determine it."""
    return width * (width + 1) // 2


@travels
@dataclass(frozen=True)
class Curved(Local):
    """f_m and its derivatives at a point, for an unknown of this shape."""

    shape: tuple[int, ...]
    features: int
    seed: int

    @property
    def size(self) -> int:
        """The length of the gradient."""
        return prod(self.shape)

    def width(self, active: NDArray[np.bool_]) -> int:
        """The rows of the Hessian: active features and the intercept, times outputs."""
        rows = int(np.count_nonzero(active)) + self.shape[0] - self.features
        return rows * prod(self.shape[1:])

    def coordinates(self, active: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The coordinates of x, flat over features and outputs, that the rows of the Hessian stand for."""
        rows = np.flatnonzero(np.append(active, np.ones(self.shape[0] - self.features, bool)))
        outputs = prod(self.shape[1:])
        return (rows[:, None] * outputs + np.arange(outputs)).ravel()

    def point(self, message: Array) -> Array:
        return Question.of(message, self.shape, self.features).x

    def told(self, numbers: Array) -> Array:
        return np.nan_to_num(numbers, nan=FAR, posinf=FAR, neginf=-FAR).clip(-FAR, FAR)

    def reply_shape(self, message: Array) -> tuple[int, ...]:
        width = self.width(active_of(message, self.features))
        return (HEAD + self.size + triangle(width),)

    def blocks(self, message: Array) -> tuple[int, ...]:
        (whole,) = self.reply_shape(message)
        return HEAD - 1, 1, self.size, whole - HEAD - self.size

    def gradients(self, visits: int, samples: int, number: int) -> int:
        return samples

    def load(self, client: FiniteSum) -> Load:
        return Load(0, client.n, 1.0)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        fit = as_problem(client).datafit
        # The clients have no common means by which columns could be centred.
        origin = np.zeros(self.features)
        curves = None if fit.on_disk else SecondOrder(fit, origin)

        def epoch(turn: Turn) -> Array:
            asked = Question.of(turn.x, self.shape, self.features)
            with np.errstate(over="ignore", invalid="ignore"):  # at points that are too far out
                found = _answer(curves, asked) if curves else _on_disk(on_disk(fit), origin, asked)
                return self.told(found.packed())

        return epoch


def _answer(curves: SecondOrder, asked: Question) -> Answer:
    """The sums over the samples of one table."""
    fit = curves.fit
    at, values, spread = curves.linearise(asked.x), np.empty(len(LENGTHS)), 0.0
    values[:], largest = fit.n * at.value, curves.largest(at)
    step = asked.x - asked.base
    if step.any():
        values[1:] = [fit.value(asked.base + t * step) for t in LENGTHS[1:]]
        spread = fit.n * largest * curves.mean_square(curves.margins(step))
    active = np.flatnonzero(asked.active).astype(np.uint32)
    H = curves.hessian(RowCurvature(at.curvatures, asked.damping * largest), active)
    return Answer(values, spread, fit.n * at.gradient, fit.n * H, at.gradient)


def _on_disk(fit: DiskDatafit, origin: Array, asked: Question) -> Answer:
    """As ``_answer``, by one pass over the files: the answers of the windows are added like those of clients.

    Value and gradient at x are kept for the next question about x, so that the certificate needs no pass of its own.
    """
    total: Answer | None = None
    mean = np.zeros(asked.x.shape)
    for _, window in fit.windows():
        own = _answer(SecondOrder(window, origin), asked)
        mean += own.mean * (window.n / fit.n)
        total = own if total is None else total.plus(own)
    if total is None:
        raise InputError("a client must have rows")
    if fit.reads_once:
        fit.remember(asked.x, float(total.values[0]), mean)
    return total
