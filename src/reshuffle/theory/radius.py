"""The shuffling radius σ_rad²(γ): exactly, by Monte Carlo, and its upper bound.

x*^i = x* - γ Σ_{j<i} ∇f_{π_j}(x*),
σ_rad²(γ) = max_{0<i<n} E_π[D_{f_{π_i}}(x*^i, x*)]/γ².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum
from reshuffle.orders import Reshuffle
from reshuffle.randomness import check_seed, generator
from reshuffle.theory.components import components
from reshuffle.theory.constants import Constants
from reshuffle.validation import check_positive, check_start

LARGEST = 12  # The largest n of an exact radius, which enumerates 2^n sets.


def shuffling_radius(problem: FiniteSum, x_star: object, step: float) -> float:
    """σ_rad²(γ) exactly, for at most 12 functions.

    The point x*^i depends on the set {π_0, …, π_{i-1}} alone, and given the set π_i is uniform on
    the rest: the mean over all n! permutations is one over 2^n sets.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> from reshuffle import theory
    >>> problem = rs.Problem(np.array([[1.0], [2.0]]), [1.0, 0.0], rs.losses.Squared())
    >>> x_star = np.array([0.2])  # ∇f_1 = -0.8, ∇f_2 = 0.8
    >>> round(theory.shuffling_radius(problem, x_star, 0.1), 12)  # mean of 4·0.8²/2 and 0.8²/2
    0.8
    """
    check_positive("step", step)
    n = problem.n
    if n > LARGEST:
        raise InputError(
            f"the exact shuffling radius enumerates 2^n sets and takes n ≤ {LARGEST}, "
            f"got n = {n}; use shuffling_radius_estimate"
        )
    x_star = check_start(x_star, problem.shape)
    functions = components(problem, x_star)
    gradients = functions.gradients()
    sums, sets = np.zeros(n + 1), np.zeros(n + 1)
    for mask in range(1, 2**n - 1):  # without the empty set (i = 0) and the whole set (i = n)
        inside = (mask >> np.arange(n)) & 1 == 1
        moved = x_star - step * gradients[inside].sum(axis=0).reshape(problem.shape)
        sums[inside.sum()] += functions.divergences(moved)[~inside].mean()
        sets[inside.sum()] += 1
    return float(np.max(sums[1:n] / sets[1:n], initial=0.0) / step**2)


@dataclass(frozen=True)
class RadiusEstimate:
    """σ_rad²(γ) by Monte Carlo; ``low ≤ σ_rad² ≤ high`` with about the stated confidence."""

    value: float
    low: float
    high: float
    confidence: float
    permutations: int
    position: int
    """The i at which the mean divergence is largest."""


def shuffling_radius_estimate(
    problem: FiniteSum,
    x_star: object,
    step: float,
    *,
    permutations: int = 64,
    confidence: float = 0.95,
    seed: int = 0,
) -> RadiusEstimate:
    """σ_rad²(γ) from walks along random permutations, with O(n + d) memory.

    The interval is simultaneous over the n-1 positions i (Student's t, Bonferroni), so that the
    choice of the largest does not bias it: max_i low_i ≤ max_i mean_i ≤ max_i high_i.
    """
    from scipy.stats import t

    check_positive("step", step)
    check_positive("permutations", permutations, integer=True)
    if permutations < 2 or not 0 < confidence < 1:
        raise InputError(
            "an interval needs permutations ≥ 2 and a confidence between 0 and 1, "
            f"got {permutations} and {confidence}"
        )
    seed = check_seed(seed)
    functions = components(problem, check_start(x_star, problem.shape))
    pool, order = np.arange(problem.n, dtype=np.uint32), Reshuffle()
    mean, squares = np.zeros(problem.n), np.zeros(problem.n)
    for k in range(permutations):  # Welford's running mean and sum of squares
        walked = functions.walk(order.visits(pool.copy(), generator(seed, k), k), step) / step**2
        change = walked - mean
        mean += change / (k + 1)
        squares += change * (walked - mean)
    if problem.n == 1:
        return RadiusEstimate(0.0, 0.0, 0.0, confidence, permutations, 0)
    tail = (1.0 - confidence) / (2.0 * (problem.n - 1))
    quantile = float(t.isf(tail, permutations - 1))
    error = quantile * np.sqrt(squares / (permutations - 1) / permutations)
    return RadiusEstimate(
        value=float(mean.max()),
        low=max(float((mean - error).max()), 0.0),
        high=float((mean + error).max()),
        confidence=confidence,
        permutations=permutations,
        position=int(mean.argmax()),
    )


def shuffling_radius_bound(c: Constants) -> float:
    """σ_rad² ≤ (L_max/2)·n·(n‖∇f(x*)‖² + σ*²/2), whatever the step."""
    if c.n == 1:
        return 0.0  # There is no position 0 < i < n, so the maximum is over an empty set.
    return c.L_max / 2.0 * c.n * (c.n * c.grad_norm**2 + c.sigma_star_sq / 2.0)
