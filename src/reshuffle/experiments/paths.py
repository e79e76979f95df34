"""Exact expectations: for a handful of functions the path of every permutation is computed.

The paths are made of the package's own sweep and prox, so that E‖x_t - x*‖² is that of the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np

from reshuffle.arrays import Array, Visits
from reshuffle.orders import copies
from reshuffle.problem import Problem

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
