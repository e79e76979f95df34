"""Problems twice: once as data for the kernels, once as plain numpy behind an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs

Array = NDArray[np.float64]

LOSSES: dict[str, rs.losses.Loss] = {
    "logistic": rs.losses.Logistic(),
    "squared": rs.losses.Squared(),
    "huber": rs.losses.Huber(0.7),
    "squared_hinge": rs.losses.SquaredHinge(),
    "multinomial": rs.losses.Multinomial(),
}
PENALTIES: dict[str, Any] = {
    "zero": rs.penalties.Zero(),
    "l1": rs.penalties.L1(0.02),
    "l2": rs.penalties.L2(0.1),
    "elastic_net": rs.penalties.ElasticNet(0.02, 0.1),
    "box": rs.penalties.Box(-0.05, 0.1),
    "non_negative": rs.penalties.NonNegative(0.01),
    "group_lasso": rs.penalties.GroupLasso(0.02, groups=[[0, 2], [1, 3, 4]]),
    "l1_ball": rs.penalties.L1Ball(0.3),
}


def random_data(
    loss: rs.losses.Loss, n: int = 23, d: int = 6, seed: int = 0
) -> tuple[Array, NDArray[Any]]:
    """Rows with many zeros, and targets that the loss takes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[0] = 0.0  # a row without a single value
    if loss.targets == "real":
        return X, rng.standard_normal(n)
    if loss.targets == "signs":
        return X, np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return X, np.arange(n) % 3


def sparse(X: Array) -> sp.csr_matrix:
    return sp.csr_matrix(X)


def oracle(problem: rs.Problem, X: Array, y: NDArray[Any]) -> rs.OracleProblem:
    """The same finite sum, sample by sample, in numpy; x is flat."""
    loss, shape = problem.loss, problem.shape
    weights = problem.weights if problem.weights.size else np.ones(problem.n)
    penalised = np.ones(shape)
    penalised[problem.penalised :] = 0.0
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
            return float(problem.penalty.value(x.reshape(shape)[: problem.penalised]))

        def prox(self, x: Array, step: float) -> Array:
            return problem.prox(np.ascontiguousarray(x.reshape(shape)), step).ravel()

    return rs.OracleProblem(
        n=problem.n,
        dim=int(np.prod(shape)),
        gradient=gradient,
        value=value,
        penalty=Flat(),
        smoothness=problem.smoothness.individual,
    )
