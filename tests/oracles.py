"""Problems twice: once as data for the kernels, once as plain numpy behind an oracle."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.penalties import ability
from reshuffle.penalties.inexact import Approximate

Array = NDArray[np.float64]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# Whatever is registered is tested: a new loss or penalty need not be named here.
LOSSES: dict[str, rs.losses.Loss] = {
    (f"{_snake(kind.__name__)}_{k}" if k else _snake(kind.__name__)): loss
    for kind in rs.losses.LOSSES
    for k, loss in enumerate(kind.examples())
    if loss.curvature < np.inf  # others are for Newton steps alone: tests/losses/test_poisson.py
}
PENALTIES: dict[str, tuple[type, int]] = {
    (f"{_snake(kind.__name__)}_{k}" if k else _snake(kind.__name__)): (kind, k)
    for kind in rs.penalties.PENALTIES
    for k in range(max(len(kind.examples(shape)) for shape in ((6,), (6, 3))))
    if not any(rs.penalties.weak_convexity(psi) for psi in kind.examples((6,)))
}
"""The convex ones; what else there is has tests of its own, since most methods refuse it."""


def penalty(name: str, shape: tuple[int, ...] = (6,)) -> Any:
    """The example of this name for an unknown of the given shape."""
    kind, k = PENALTIES[name]
    return kind.examples(shape)[k]  # type: ignore[attr-defined]


def unknown(loss: str) -> tuple[int, ...]:
    """The shape of x in the tests, without an intercept."""
    return (6, 3) if LOSSES[loss].vector else (6,)


def fits(name: str, shape: tuple[int, ...]) -> bool:
    kind, k = PENALTIES[name]
    return k < len(kind.examples(shape))  # type: ignore[attr-defined]


def _meet(loss: str, name: str) -> bool:
    """Whether a pair is tested: a penalty outside the kernels never meets the loss, and one loss of
    each shape is enough for its first example."""
    _, k = PENALTIES[name]
    if not fits(name, unknown(loss)):
        return False
    in_kernels = rs.penalties.ability(penalty(name, unknown(loss)), "compiled") is not None
    return in_kernels or (k == 0 and loss in ("logistic", "multinomial"))


PAIRS = [(loss, name) for loss in LOSSES for name in PENALTIES if _meet(loss, name)]
"""Every loss with every penalty that goes with it."""
every_pair = pytest.mark.parametrize(("loss", "psi"), PAIRS)


def random_data(
    loss: rs.losses.Loss, n: int = 23, d: int = 6, seed: int = 0
) -> tuple[Array, NDArray[Any]]:
    """Rows with many zeros, and targets that the loss takes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[0] = 0.0  # a row without a single value
    return X, loss.kind.sample(n, rng)


def sparse(X: Array) -> sp.csr_matrix:
    return sp.csr_matrix(X)


def oracle(problem: rs.Problem, X: Array, y: NDArray[Any]) -> rs.OracleProblem:
    """The same finite sum, sample by sample, in numpy; x is flat."""
    loss, shape = problem.loss, problem.shape
    weights = problem.weights if problem.weights.size else np.ones(problem.n)
    penalised = np.ones(shape)
    penalised[problem.features :] = 0.0
    A = np.hstack([X, np.ones((len(X), 1))]) if problem.fit_intercept else X

    def gradient(i: int, x: Array) -> Array:
        W = x.reshape(shape)
        slope = type(loss).derivative(A[i] @ W, y[i], *loss.params)
        whole: Array = weights[i] * np.multiply.outer(A[i], slope) + problem.ridge * penalised * W
        return whole.ravel()

    def value(x: Array) -> float:
        W = x.reshape(shape)
        losses = [type(loss).value(A[i] @ W, y[i], *loss.params) for i in range(len(y))]
        return float(weights @ losses / len(y) + 0.5 * problem.ridge * np.sum(penalised * W * W))

    class Flat:
        """The penalty of the original, on the flat unknown."""

        strong_convexity = problem.strong_convexity

        def value(self, x: Array) -> float:
            return float(problem.penalty.value(x.reshape(shape)[: problem.features]))

        def prox(self, x: Array, step: float) -> Array:
            return problem.prox(np.ascontiguousarray(x.reshape(shape)), step).ravel()

        @property
        def prox_from(self) -> Any:
            """By iterations where the original's is, and as exact."""
            return None if ability(problem.penalty, "prox_from") is None else self._from

        def _from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
            at = np.ascontiguousarray(x.reshape(shape))
            found = problem.prox_from(at, step, start, gap, with_ridge=False)
            return found._replace(point=found.point.ravel())

    return rs.OracleProblem(
        n=problem.n,
        dim=int(np.prod(shape)),
        gradient=gradient,
        value=value,
        penalty=Flat(),
        smoothness=problem.smoothness.individual,
    )
