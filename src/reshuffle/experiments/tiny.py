"""Problems of a handful of functions in the plane, for which every permutation can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reshuffle.arrays import Array
from reshuffle.losses import Logistic, Loss, Squared
from reshuffle.penalties import ElasticNet
from reshuffle.problem import Problem

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "squared": Squared()}


def make(
    loss: str, n: int, ridge: float, l1: float, l2: float, *, d: int = 2, seed: int = 0
) -> Problem:
    """n standard normal rows with alternating labels, a ridge inside f_i, an elastic net."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return Problem(X, y, LOSSES[loss], ElasticNet(l1, l2), ridge)


def f_strongly_convex(loss: str = "logistic", n: int = 3, **more: Any) -> Problem:
    """μ_f = 0.2, ψ an ℓ1 norm."""
    return make(loss, n, ridge=0.2, l1=0.05, l2=0.0, **more)


def psi_strongly_convex(loss: str = "logistic", n: int = 3, **more: Any) -> Problem:
    """μ_ψ = 0.2, f only convex."""
    return make(loss, n, ridge=0.0, l1=0.05, l2=0.2, **more)


def unequal() -> Problem:
    """Two short rows and a long one: L_i = 1, 1, 4 (squared loss), so N = 4 copies."""
    X = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -2.0]])
    return Problem(X, [1.0, -1.0, 0.5], Squared(), ElasticNet(0.05, 0.2))


def split(problem: Problem, sizes: Sequence[int]) -> list[Problem]:
    """Clients of these sizes, the samples in their order."""
    ends = np.cumsum([0, *sizes])
    return [
        problem.take(np.arange(end - size, end, dtype=np.uint32))
        for size, end in zip(sizes, ends[1:], strict=True)
    ]


def homogeneous() -> tuple[list[Problem], Array]:
    """Two clients with different samples and the same minimiser: Σ_j (a_jᵀx - y_j)a_j + 3·ridge·x = 0."""
    rng, x_star, ridge, clients = np.random.default_rng(5), np.array([1.0, -0.5]), 0.2, []
    for _ in range(2):
        X = rng.standard_normal((3, 2))
        residual = np.linalg.lstsq(X.T, -3 * ridge * x_star)[0]
        kernel = np.linalg.svd(X.T)[2][2]  # Xᵀ·kernel = 0
        y = X @ x_star - residual - 1.5 * kernel
        clients.append(Problem(X, y, Squared(), ridge=ridge))
    return clients, x_star


def starts(x_star: Array) -> list[Array]:
    """A point far away, which shows the contraction, and the solution, which shows the noise."""
    return [x_star + np.array([2.0, -1.0]), x_star]
