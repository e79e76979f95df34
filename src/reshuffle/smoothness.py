"""Smoothness constants: L_i of every f_i, L_max and L_mean of these, and L_f of the average f."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import cached_property
from reshuffle.errors import InputError

T = TypeVar("T")
OVERFLOW = (
    "the squares of X overflow (or underflow), so no step can be chosen: divide X (or its largest columns) "
    "by a power of ten, or multiply it if it is tiny"
)
ROUGH_STEPS = 8
"""This many steps of the power method come within a few per cent on the data sets of benchmarks/cases.py."""


@dataclass(frozen=True, eq=False)
class Smoothness:
    """L_i (``individual``), ``L_max``, ``L_mean`` = L̄ and ``L_f``.

    ``curvature_product(v)`` multiplies v by a matrix that bounds the Hessian of f; L_f is its
    largest eigenvalue. Without one (an oracle), L̄ is used instead, since L_f ≤ L̄.
    """

    measure: Callable[[], Array]
    """Computes every L_i; they are not kept, since they would take as much memory as the targets."""
    curvature_product: Callable[[Array], Array] | None = None
    dim: int = 0
    known: tuple[float, float] | None = None
    """L_max and L̄, if they are known without a pass over the data."""
    _kept: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    def require(self) -> Smoothness:
        """These constants; refused if no step can be derived from them."""
        if not np.isfinite(self.L_max):
            raise InputError(OVERFLOW)
        if not self.L_max > 0:
            raise InputError(
                f"the largest smoothness constant L_max is {self.L_max:g}: "
                "with all rows zero (or constants not positive) there is nothing to learn"
            )
        return self

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """A value that ``make`` derives from the constants, such as importance copies; kept as long as the key stays the same."""
        if key not in self._kept:
            found = make()
            self._kept.clear()
            self._kept[key] = found
        value: T = self._kept[key]
        return value

    @property
    def individual(self) -> Array:
        """Every L_i: a pass over the data each time."""
        return self.measure()

    @property
    def L_max(self) -> float:
        """max_i L_i."""
        return self._summary[0]

    @property
    def L_mean(self) -> float:
        """L̄ = (1/n) Σ_i L_i."""
        return self._summary[1]

    @cached_property
    def _summary(self) -> tuple[float, float]:
        if self.known is not None:
            return self.known
        constants = self.measure()
        return float(constants.max()), float(constants.mean())

    @property
    def L_f(self) -> float:
        """An upper bound of f's smoothness constant: the computed eigenvalue plus its error bound, but at most L̄."""
        eigenvalue, error = self.require()._largest_eigenvalue
        return min(eigenvalue + error, self.L_mean)

    @cached_property
    def rough_L_f(self) -> float:
        """A cheap lower bound of L_f, by eight steps of the power method."""
        product = self.curvature_product
        if product is None:
            return self.L_mean
        v = np.random.default_rng(0).standard_normal(self.dim)
        for _ in range(ROUGH_STEPS):
            v = product(v / np.linalg.norm(v))
        return float(np.linalg.norm(v))

    @property
    def L_f_error(self) -> float:
        """‖Hv - θv‖ of the computed eigenpair: an eigenvalue lies within this distance of θ."""
        return self._largest_eigenvalue[1]

    @cached_property
    def _largest_eigenvalue(self) -> tuple[float, float]:
        product = self.curvature_product
        if product is None:
            return self.L_mean, 0.0
        v = self._eigenvector(product)
        image = product(v)
        eigenvalue = float(v @ image)
        return eigenvalue, float(np.linalg.norm(image - eigenvalue * v))

    def _eigenvector(self, product: Callable[[Array], Array]) -> Array:
        if self.dim <= 3:  # ARPACK needs a larger matrix than this.
            matrix = np.column_stack([product(e) for e in np.eye(self.dim)])
            return np.ascontiguousarray(np.linalg.eigh(matrix)[1][:, -1])
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        operator = LinearOperator((self.dim, self.dim), matvec=product, dtype=np.float64)
        # A fixed start, so that the same problem always has the same step.
        start = np.random.default_rng(0).standard_normal(self.dim)
        try:
            vectors: object
            _, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-4, ncv=min(self.dim, 12))
        except ArpackNoConvergence as error:
            vectors = error.eigenvectors if error.eigenvectors.size else start[:, None]
        v = vectors[:, 0]
        return np.ascontiguousarray(v / np.linalg.norm(v))
