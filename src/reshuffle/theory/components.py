"""The functions f_1, …, f_n one by one, as seen from a point x: gradients and Bregman divergences.

    D_{f_i}(y, x) = f_i(y) - f_i(x) - <∇f_i(x), y - x>

For a generalised linear model ∇f_i(x) = s_i a_i + ridge·x with one scalar s_i per sample, so all that
the theory needs comes from n scalars and passes over the rows; no n × d array is formed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from reshuffle.arrays import Array, Visits
from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.objective import FiniteSum
from reshuffle.problem import Problem

NODES = 16  # Nodes of the quadrature that replaces function values, which an oracle does not have.


class Components(ABC):
    """f_1, …, f_n at the point x."""

    def __init__(self, problem: FiniteSum, x: Array) -> None:
        self.problem, self.x = problem, x

    @abstractmethod
    def squared_norms(self, weights: Array | None = None) -> Array:
        """‖∇f_i(x)‖² for every i, the losses (not the ridge) scaled by the weights."""

    @abstractmethod
    def divergences(self, y: Array) -> Array:
        """D_{f_i}(y, x) for every i."""

    @abstractmethod
    def walk(self, order: Visits, step: float) -> Array:
        """D_{f_{π_k}}(x^k, x) for k = 0, …, n-1, where x^k = x - step·Σ_{j<k} ∇f_{π_j}(x)."""

    def gradients(self) -> Array:
        """∇f_i(x), one per row: n × d numbers, for small problems."""
        return np.array([self._gradient(i, self.x).ravel() for i in range(self.problem.n)])

    def _gradient(self, i: int, x: Array) -> Array:
        return self.problem.component(i, x)


def components(problem: FiniteSum, x: Array) -> Components:
    """The functions of a problem at x."""
    kind = Oracle if problem.datafit is None else LinearModel
    return kind(problem, np.ascontiguousarray(x, dtype=np.float64))


class LinearModel(Components):
    """f_i(x) = w_i·l(a_iᵀx + b, y_i) + (ridge/2)‖x‖²."""

    problem: Problem

    def squared_norms(self, weights: Array | None = None) -> Array:
        """‖s_i a_i + ridge·x‖² = s_i²‖a_i‖² + 2·ridge·s_i·a_iᵀx + ridge²‖x‖²."""
        problem = self.problem
        norms = problem.datafit.squared_norms()
        norms += problem.fit_intercept
        scale = np.ones(problem.n) if weights is None else weights
        own = scale**2 * _dot(self.slopes, self.slopes) * norms
        cross = 2.0 * problem.ridge * scale * _dot(self.slopes, self.inner)
        return np.maximum(own + cross + problem.ridge**2 * self._squared_length, 0.0)

    def divergences(self, y: Array) -> Array:
        moved = y[: self.problem.features] - self.x[: self.problem.features]
        order = np.arange(self.problem.n, dtype=np.uint32)
        return self._divergences(order, self.problem.margins(y), float(np.sum(moved**2)))

    def walk(self, order: Visits, step: float) -> Array:
        problem, x = self.problem, self.x.copy()
        z = np.empty((order.size, *problem.shape[1:]))
        native.walk(problem.datafit.core, order, self.slopes, step, x, z)
        if problem.ridge == 0.0:
            return self._divergences(order, z, 0.0)
        # The compiled walk leaves out the ridge's share of x^k, -step·k·ridge·x.
        k = np.arange(order.size).reshape(-1, *[1] * (z.ndim - 1))
        z -= (step * problem.ridge) * k * self.inner[order]
        return self._divergences(order, z, step**2 * self._squared_sums(order, z, step))

    def _squared_sums(self, order: Visits, z: Array, step: float) -> Array:
        """‖u_k‖² for u_k = Σ_{j<k} ∇f_{π_j}(x) without its intercept.

        ‖u_{k+1}‖² = ‖u_k‖² + 2<u_k, g_k> + ‖g_k‖², where the products with a_{π_k} are known from
        the margins, (a_{π_k}ᵀx - z_k)/step, and those with x add up.
        """
        slopes, inner, ridge = self.slopes[order], self.inner[order], self.problem.ridge
        with_x = _before(_dot(slopes, inner) + ridge * self._squared_length)
        products = _dot(slopes, self.margins[order] - z) / step + ridge * with_x
        squares = _before(2.0 * products + self._all_squared_norms[order])
        if self.problem.fit_intercept:
            bias = _before(slopes)
            squares -= _dot(bias, bias)
        return np.maximum(squares, 0.0)

    def _divergences(self, order: Visits, z: Array, squared_move: float | Array) -> Array:
        problem = self.problem
        change = np.empty(order.size)
        native.losses_at(problem.datafit.core, z, order, change)
        change -= self.losses[order]
        if problem.weights.size:
            change *= problem.weights[order]
        change -= _dot(self.slopes[order], z - self.margins[order])
        return np.maximum(change + 0.5 * problem.ridge * squared_move, 0.0)

    @cached_property
    def margins(self) -> Array:
        return self.problem.margins(self.x)

    @cached_property
    def inner(self) -> Array:
        """a_iᵀx without the intercept."""
        return self.margins - self.x[-1] if self.problem.fit_intercept else self.margins

    @cached_property
    def losses(self) -> Array:
        problem, out = self.problem, np.empty(self.problem.n)
        order = np.arange(problem.n, dtype=np.uint32)
        native.losses_at(problem.datafit.core, self.margins.copy(), order, out)
        return out

    @cached_property
    def slopes(self) -> Array:
        """w_i·l'(a_iᵀx + b, y_i)."""
        problem, out = self.problem, self.margins.copy()
        native.slopes_at(problem.datafit.core, 0, problem.n, out)
        if problem.weights.size:
            out *= problem.weights.reshape(-1, *[1] * (out.ndim - 1))
        return out

    @cached_property
    def _squared_length(self) -> float:
        return float(np.sum(self.x[: self.problem.features] ** 2))

    @cached_property
    def _all_squared_norms(self) -> Array:
        return self.squared_norms()


class Oracle(Components):
    """Functions known by their gradients alone.

    D_{f_i}(y, x) = ∫₀¹ <∇f_i(x + t(y - x)) - ∇f_i(x), y - x> dt by Gauss-Legendre quadrature.
    """

    def squared_norms(self, weights: Array | None = None) -> Array:
        scale = np.ones(self.problem.n) if weights is None else weights
        norms = [np.sum(self._gradient(i, self.x) ** 2) for i in range(self.problem.n)]
        return scale**2 * np.array(norms)

    def divergences(self, y: Array) -> Array:
        return np.array([self._divergence(i, y) for i in range(self.problem.n)])

    def walk(self, order: Visits, step: float) -> Array:
        x, out = self.x.copy(), np.empty(order.size)
        for k, i in enumerate(order):
            out[k] = self._divergence(int(i), x)
            x -= step * self._gradient(int(i), self.x)
        return out

    def _divergence(self, i: int, y: Array) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        move, start = y - self.x, self._gradient(i, self.x)
        slopes = [
            np.vdot(self._gradient(i, self.x + t * move) - start, move) for t in (nodes + 1) / 2
        ]
        return max(float(weights @ slopes) / 2.0, 0.0)


def _dot(a: Array, b: Array) -> Array:
    """<a_i, b_i>, a number or a vector per sample."""
    product: Array = (a * b).reshape(len(a), -1).sum(axis=1)
    return product


def _before(terms: Array) -> Array:
    """Σ_{j<k} terms_j for every k."""
    return np.cumsum(terms, axis=0) - terms
