"""Any finite sum, given by Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle.errors import InputError
from reshuffle.finite_sum import Array, FiniteSum, Visits, check_penalty
from reshuffle.smoothness import Smoothness
from reshuffle.validation import check_positive


class OracleProblem(FiniteSum):
    """P(x) = (1/n) Σ_i f_i(x) + ψ(x), with f_i known through its gradient.

    Parameters
    ----------
    n, dim : the number of functions and of unknowns.
    gradient : ``gradient(i, x)`` returns ∇f_i(x).
    value : ``value(x)`` returns f(x) = (1/n) Σ_i f_i(x).
    penalty : ψ, anything with ``value`` and ``prox``.
    smoothness : L_i, one number for all or one each. Without it every step must be given.

    Examples
    --------
    The paper's Example 1: two linear functions and ψ = ‖x‖²/2. One prox per epoch is a proximal
    step along the full gradient; a prox after each step is not.

    >>> import numpy as np
    >>> import reshuffle as rs
    >>> c = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> problem = rs.OracleProblem(
    ...     n=2, dim=2, gradient=lambda i, x: c[i], value=lambda x: float(c.mean(0) @ x),
    ...     penalty=rs.penalties.L2(1.0))
    >>> rs.ProxRR(step=0.5, epochs=1).solve(problem).x * (1 + 2 * 0.5)
    array([-0.5, -1. ])
    """

    def __init__(
        self,
        n: int,
        dim: int,
        gradient: Callable[[int, Array], Any],
        value: Callable[[Array], float],
        penalty: Any = None,
        smoothness: float | Sequence[float] | Array | None = None,
    ) -> None:
        check_positive("n", n, integer=True)
        check_positive("dim", dim, integer=True)
        for name, function in (("gradient", gradient), ("value", value)):
            if not callable(function):
                raise InputError(f"{name} must be a function, got {function!r}")
        self.n, self.shape, self.penalised = int(n), (int(dim),), int(dim)
        self.penalty = check_penalty(penalty)
        self._gradient, self._value = gradient, value
        self._constants = None
        if smoothness is not None:
            constants = np.asarray(smoothness, dtype=np.float64)
            if constants.shape not in ((), (n,)) or not np.all(constants >= 0):
                raise InputError(
                    f"smoothness must be one non-negative number or {n} of them, got {smoothness!r}"
                )
            self._constants = np.array(np.broadcast_to(constants, (n,)))

    def value(self, x: Array) -> float:
        return float(self._value(x))

    def gradient(self, x: Array) -> Array:
        total = np.zeros(self.shape)
        for i in range(self.n):
            total += self.component(i, x)
        return total / self.n

    @cached_property
    def smoothness(self) -> Smoothness:
        if self._constants is None:
            raise InputError(
                "this oracle problem has no smoothness constants: "
                "give OracleProblem(smoothness=...), or give the solver a step and no tol"
            )
        constants = self._constants
        return Smoothness(constants.copy)

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
        for start in range(0, visits.size, batch):
            direction = np.zeros(self.shape)
            for i in visits[start : start + batch]:
                scale = average if weights is None or not weights.size else average * weights[i]
                direction += scale * self.component(int(i), x)
            x -= step * direction
            if prox_step > 0:
                x[...] = self.prox(x, prox_step)

    def take(self, order: Visits) -> OracleProblem:
        same = np.array_equal(np.sort(order), np.arange(self.n))

        def value(x: Array) -> float:
            if not same:
                raise InputError("an oracle knows the value of all its functions only, not of some")
            return self._value(x)

        return OracleProblem(
            n=int(order.size),
            dim=self.shape[0],
            gradient=lambda i, x: self._gradient(int(order[i]), x),
            value=value,
            penalty=self.penalty,
            smoothness=None if self._constants is None else self._constants[order],
        )

    def component(self, i: int, x: Array) -> Array:
        """∇f_i(x), checked."""
        gradient = np.asarray(self._gradient(i, x), dtype=np.float64)
        if gradient.shape != self.shape:
            raise InputError(
                f"gradient(i, x) must return shape {self.shape}, got {gradient.shape} for i={i}"
            )
        return gradient
