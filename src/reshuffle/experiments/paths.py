"""Exact expectations: for a handful of functions the path of every permutation is computed.

The paths are made of the package's own sweep and prox, so that E‖x_t - x*‖² is that of the code. The functions are in the
plane, so few that every permutation can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np

from reshuffle.arrays import Array, Visits
from reshuffle.losses import Logistic, Loss, Squared
from reshuffle.orders import copies
from reshuffle.penalties import ElasticNet
from reshuffle.problem import Problem

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "squared": Squared()}
Epoch = Callable[[Array, Any], Array]
"""A function of x and of an epoch's random choice, which returns x after the epoch."""


def all_orders(n: int) -> list[Visits]:
    """All n! permutations."""
    return [np.array(order, dtype=np.uint32) for order in permutations(range(n))]


def all_rounds(sizes: Sequence[int]) -> list[tuple[Visits, ...]]:
    """An order for each client, independently."""
    return list(product(*(all_orders(size) for size in sizes)))


def reshuffled(epoch: Epoch, orders: Sequence[object], x0: Array, x_star: Array, T: int) -> Array:
    """E‖x_t - x*‖² for t = 0, …, T, with a fresh order in each epoch: all len(orders)^T paths."""
    points, errors = [x0], [np.sum((x0 - x_star) ** 2)]
    for _ in range(T):
        points = [epoch(x, order) for x in points for order in orders]
        errors.append(np.mean(np.sum((np.array(points) - x_star) ** 2, axis=1)))
    return np.array(errors)


def shuffled_once(
    epoch: Epoch, orders: Sequence[object], x0: Array, x_star: Array, T: int
) -> Array:
    """E‖x_t - x*‖² for t = 0, …, T, one order for all epochs."""
    return shuffled_once_by([epoch] * T, orders, x0, x_star)


def shuffled_once_by(
    epochs: Sequence[Epoch], orders: Sequence[object], x0: Array, x_star: Array
) -> Array:
    """``shuffled_once`` with a step for each epoch."""
    points, errors = [x0] * len(orders), [np.sum((x0 - x_star) ** 2)]
    for epoch in epochs:
        points = [epoch(x, order) for x, order in zip(points, orders, strict=True)]
        errors.append(np.mean(np.sum((np.array(points) - x_star) ** 2, axis=1)))
    return np.array(errors)


def below(errors: Array | float, bound: Array | float) -> bool:
    """Whether a bound holds, up to rounding."""
    return bool(np.all(np.asarray(errors) <= np.asarray(bound) * (1 + 1e-9) + 1e-20))


# --- epochs ----------------------------------------------------------------------------------


def proxrr(problem: Problem, step: float, prox_step: float | None = None) -> Epoch:
    """One epoch of ProxRR; the prox has parameter γn unless another is given."""

    def epoch(x: Array, order: Visits) -> Array:
        moved = x.copy()
        problem.sweep(moved, order, step)
        return problem.prox(moved, step * problem.n if prox_step is None else prox_step)

    return epoch


def sgd_step(problem: Problem, step: float) -> Epoch:
    """One step of ProxSGD with sample i."""

    def one(x: Array, i: int) -> Array:
        moved = x.copy()
        problem.sweep(moved, np.array([i], dtype=np.uint32), step, prox_step=step)
        return moved

    return one


def resampled(problem: Problem, step: float, correct: bool = True) -> tuple[Epoch, Visits]:
    """An epoch over importance copies, and the copies; ``correct=False`` has the paper's 1/n_i."""
    pool, weights = copies(problem.smoothness.individual)
    if not correct:
        weights = weights * problem.n / pool.size

    def epoch(x: Array, order: Visits) -> Array:
        moved = x.copy()
        problem.sweep(moved, pool[order], step, weights=weights)
        return problem.prox(moved, step * pool.size)

    return epoch, pool


def fedrr(clients: Sequence[Problem], step: float, prox_step: float | None = None) -> Epoch:
    """A round: every client's epoch from the same x, the mean, prox_{γ(N/M)R}."""
    M, N = len(clients), sum(client.n for client in clients)

    def epoch(x: Array, orders: Sequence[Visits]) -> Array:
        local = [x.copy() for _ in clients]
        for client, own, order in zip(clients, local, orders, strict=True):
            client.sweep(own, order, step)
        return clients[0].prox(
            np.mean(local, axis=0), step * N / M if prox_step is None else prox_step
        )

    return epoch


# --- problems ----------------------------------------------------------------------------------


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
