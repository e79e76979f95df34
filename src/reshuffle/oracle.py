"""A problem that is a finite sum of functions given in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.digests import digest
from reshuffle.errors import InputError, shown
from reshuffle.objective import FiniteSum, check_penalty
from reshuffle.smoothness import Smoothness
from reshuffle.validation import check_number, check_positive, check_vector


class OracleProblem(FiniteSum):
    """P(x) = (1/n) Σ_i f_i(x) + ψ(x), with f_i known through its gradient.

    Parameters
    ----------
    n, dim : the number of functions and of unknowns.
    gradient : ``gradient(i, x)`` returns ∇f_i(x).
    value : ``value(x)`` returns f(x) = (1/n) Σ_i f_i(x).
    penalty : ψ, any object with ``value`` and ``prox``.
    smoothness : the L_i, one number for all functions or one for each. Without it every step must be given.

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
        gradient: Callable[[int, Array], object],
        value: Callable[[Array], float],
        penalty: object = None,
        smoothness: float | Sequence[float] | Array | None = None,
    ) -> None:
        check_positive("n", n, integer=True)
        check_positive("dim", dim, integer=True)
        for name, function in (("gradient", gradient), ("value", value)):
            if not callable(function):
                raise InputError(f"{name} must be a function, got {shown(function)}")
        self.n, self.shape = int(n), (int(dim),)
        self.penalty = check_penalty(penalty)
        self.oracle = gradient, value
        self.constants = None
        if smoothness is not None:
            constants = np.asarray(smoothness, dtype=np.float64)
            if constants.shape not in ((), (n,)) or not np.all(constants >= 0):
                raise InputError(
                    f"smoothness must be one non-negative number or {n} of them, got {shown(smoothness)}"
                )
            self.constants = np.array(np.broadcast_to(constants, (n,)))

    def __repr__(self) -> str:
        return f"<OracleProblem: {self.n} functions of {self.shape[0]}, penalty={self.penalty!r}>"

    def value(self, x: Array) -> float:
        return check_number("value(x)", self.oracle[1](x))

    def component(self, i: int, x: Array) -> Array:
        """∇f_i(x), checked."""
        return check_vector(f"gradient(i, x) with i={i}", self.oracle[0](i, x), self.shape)

    @cached_property
    def smoothness(self) -> Smoothness:
        if self.constants is None:
            return super().smoothness
        return Smoothness(self.constants.copy)

    def contents(self) -> Mapping[str, str]:
        functions, constants = digest(*self.oracle), digest(self.n, self.shape, self.constants)
        return {"functions": functions, "constants": constants, "penalty": digest(self.penalty)}
