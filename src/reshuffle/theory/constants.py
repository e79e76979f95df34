"""The constants of a problem that appear in the theorems."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum
from reshuffle.orders import copies
from reshuffle.penalties.abilities import check_convex, strong_convexity
from reshuffle.solvers.fista import FISTA, stationary
from reshuffle.theory.components import components
from reshuffle.trace import Result
from reshuffle.validation import check_start


@dataclass(frozen=True, eq=False)
class Constants:
    """n, L_i, μ, σ*² and ∇f(x*), in the words of the paper.

    With importance resampling they are those of the resampled problem. If you know a better bound than
    can be read off the problem, put it in with ``dataclasses.replace(constants, mu_f=...)``.
    """

    n: int
    L_min: float
    L_mean: float
    """L̄ = (1/n) Σ L_i."""
    L_max: float
    L_f: float
    """Smoothness of the average f."""
    mu_f: float
    """Strong convexity of every f_i."""
    mu_psi: float
    """Strong convexity of ψ."""
    sigma_star_sq: float
    """σ*² = (1/n) Σ ‖∇f_i(x*) - ∇f(x*)‖²."""
    grad_norm: float
    """‖∇f(x*)‖."""
    r0: float
    """‖x_0 - x*‖²."""
    x_star: Array = field(repr=False)


def constants(
    problem: FiniteSum, solution: object = None, *, x0: object = None, importance: bool = False
) -> Constants:
    """The constants of a problem, or of its importance resampling with corrected weights.

    Parameters
    ----------
    solution : x*, an array or a ``Result``; found by FISTA if not given.
    x0 : the start that r0 is measured from; zeros if not given.
    importance : those of the problem with N = Σ⌈L_i/L̄⌉ functions, each N/(n·n_i) times a loss.

    Notes
    -----
    An intercept is seen neither by the ridge nor by ψ: with one, mu_f and mu_psi are 0.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> from reshuffle import theory
    >>> problem = rs.Problem(np.eye(2), [1.0, 3.0], rs.losses.Squared(), rs.penalties.L2(0.5))
    >>> c = theory.constants(problem)
    >>> c.x_star  # minimises (x_j - y_j)²/4 + x_j²/4
    array([0.5, 1.5])
    >>> c.L_max, c.mu_psi, c.sigma_star_sq, c.r0
    (1.0, 0.5, 0.625, 2.5)
    """
    check_convex(problem.penalty, "the theory")
    x_star = solve(problem) if solution is None else _point(solution, problem)
    smoothness, ridge = problem.smoothness, problem.ridge
    gradient_sq = float(np.sum(problem.gradient(x_star) ** 2))
    individual, counts, weights = smoothness.individual, np.ones(problem.n), None
    if importance:
        pool, weights = copies(individual - ridge)
        counts = np.bincount(pool, minlength=problem.n).astype(np.float64)
        individual = weights * (individual - ridge) + ridge
    norms = components(problem, x_star).squared_norms(weights)
    mean = counts / counts.sum()
    whole = problem.features == problem.shape[0]
    return Constants(
        n=int(counts.sum()),
        L_min=float(individual.min()),
        L_mean=float(mean @ individual),
        L_max=float(individual.max()),
        L_f=smoothness.L_f,
        mu_f=ridge if whole else 0.0,
        mu_psi=strong_convexity(problem.penalty) if whole else 0.0,
        sigma_star_sq=max(float(mean @ norms) - gradient_sq, 0.0),
        grad_norm=float(np.sqrt(gradient_sq)),
        r0=float(np.sum((check_start(x0, problem.shape) - x_star) ** 2)),
        x_star=x_star,
    )


def solve(problem: FiniteSum) -> Array:
    """x* by FISTA, to 1e-12 in the gradient mapping (relative to that of the start)."""
    check_convex(problem.penalty, "the theory")
    there = stationary(problem)
    result = FISTA(tol=0.0).solve(problem, callbacks=[there])
    if not there(result):
        raise InputError(
            f"FISTA did not find x* in {result.epoch} iterations ({result.message}); "
            "give solution=..., or make the problem strongly convex"
        )
    return result.x


def _point(solution: object, problem: FiniteSum) -> Array:
    return check_start(solution.x if isinstance(solution, Result) else solution, problem.shape)
