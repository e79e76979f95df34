"""Penalties of other libraries: operators of pyproximal, and expressions of cvxpy."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.errors import InputError, shown


class Operator(Protocol):
    """An operator of pyproximal: its value, and its prox."""

    def __call__(self, x: Array) -> float | bool: ...
    def prox(self, x: Array, tau: float) -> Array: ...


class FromPyproximal:
    """ψ(x) = operator(x), with the operator's own prox; a matrix unknown is handed over flat, row after row.

    Parameters
    ----------
    operator : a ``pyproximal.ProxOperator``, or anything that is called for a value and has ``prox(x, tau)``.
    strong_convexity : μ, if the operator is strongly convex.

    An operator that keeps a state between calls (a warm start) makes equal runs differ, so switch that off.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> import pyproximal  # doctest: +SKIP
    >>> penalty = rs.penalties.FromPyproximal(pyproximal.L1(sigma=0.1))  # doctest: +SKIP
    >>> penalty.prox(np.array([1.0, -0.5]), step=2.0)  # doctest: +SKIP
    array([ 0.8, -0.3])
    """

    def __init__(self, operator: Operator, strong_convexity: float = 0.0) -> None:
        if not callable(operator) or not callable(getattr(operator, "prox", None)):
            raise InputError(
                f"operator must be callable and have prox(x, tau), got {shown(operator)}"
            )
        self.operator, self.strong_convexity = operator, float(strong_convexity)

    def __repr__(self) -> str:
        return f"FromPyproximal({type(self.operator).__name__})"

    def value(self, x: Array) -> float:
        found = self.operator(x.ravel())
        if isinstance(found, (bool, np.bool_)):  # An indicator returns whether x is inside its set.
            return 0.0 if found else np.inf
        return float(found)

    def prox(self, x: Array, step: float) -> Array:
        # A copy, because some operators work in place.
        found = np.asarray(self.operator.prox(x.ravel().copy(), step), dtype=np.float64)
        return found.reshape(x.shape)


class FromCvxpy:
    """ψ(x) = expression(x), or the set of its constraints, as a cvxpy model; the prox is solved by cvxpy.

    The model is compiled once for each shape, with x and the step as parameters. It serves to try a penalty
    and to check one: a call takes milliseconds at least, and its accuracy is that of the solver (Clarabel's
    tolerances are set to 1e-10 here; tighter ones it often misses).

    Parameters
    ----------
    build : a function of a ``cvxpy.Variable`` that returns a convex expression, a list of constraints, or a pair
        of both.
    options : arguments of ``cvxpy.Problem.solve`` in place of those above.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> import cvxpy as cp  # doctest: +SKIP
    >>> penalty = rs.penalties.FromCvxpy(lambda x: (cp.norm1(x), [x >= -1]))  # doctest: +SKIP
    >>> penalty.prox(np.array([3.0, 0.5, -9.0]), step=1.0).round(6)  # doctest: +SKIP
    array([ 2.,  0., -1.])
    """

    def __init__(self, build: Callable[[Any], Any], **options: object) -> None:
        if not callable(build):
            raise InputError(f"build must be a function of a cvxpy Variable, got {shown(build)}")
        self.build, self.options = build, options

    @cached_property
    def _models(self) -> dict[tuple[int, ...], object]:
        return {}  # Compiled models are a cache and no part of the penalty's identity.

    def __repr__(self) -> str:
        return f"FromCvxpy({getattr(self.build, '__name__', 'build')})"

    def __getstate__(self) -> dict[str, object]:
        return {"build": self.build, "options": self.options}  # The copy compiles its models again.

    def value(self, x: Array) -> float:
        variable, expression, constraints, *_ = self._model(x.shape)
        variable.value = x
        # The accuracy to which a solver's answer can be trusted.
        if any(np.max(c.violation(), initial=0.0) > 1e-7 for c in constraints):
            return np.inf
        return float(expression.value) if expression is not None else 0.0

    def prox(self, x: Array, step: float) -> Array:
        variable, _, _, point, weight, problem = self._model(x.shape)
        point.value, weight.value = x, step
        exact = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
        options: dict[str, object] = self.options or {"solver": "CLARABEL", **exact}
        # No warm start, so that equal calls have equal answers.
        problem.solve(warm_start=False, **options)
        if variable.value is None:
            raise InputError(f"cvxpy found no prox of {self!r}: the model is {problem.status}")
        return np.ascontiguousarray(variable.value, dtype=np.float64).reshape(x.shape)

    def _model(self, shape: tuple[int, ...]) -> Any:
        if shape not in self._models:
            cp = import_module("cvxpy")
            variable, point = cp.Variable(shape), cp.Parameter(shape)
            weight = cp.Parameter(nonneg=True)
            built = self.build(variable)
            expression, constraints = built if isinstance(built, tuple) else (built, [])
            if isinstance(expression, list):
                expression, constraints = None, expression
            if expression is not None and not expression.is_convex():
                raise InputError(f"the expression of {self!r} must be convex by cvxpy's rules")
            distance = cp.sum_squares(variable - point) / 2
            objective = distance if expression is None else distance + weight * expression
            problem = cp.Problem(cp.Minimize(objective), constraints)
            self._models[shape] = variable, expression, constraints, point, weight, problem
        return self._models[shape]
