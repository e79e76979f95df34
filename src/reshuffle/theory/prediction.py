"""Predictions of the theorems for a target accuracy, method by method."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from reshuffle.errors import InputError
from reshuffle.objective import FiniteSum
from reshuffle.theory.bounds import decreasing_bound
from reshuffle.theory.complexity import proxsgd_complexity, proxsgd_step, rr_formulas
from reshuffle.theory.constants import Constants, constants
from reshuffle.theory.radius import RadiusEstimate, shuffling_radius_estimate

LONGEST = 2**62  # The search for the least sufficient number of epochs goes up to this many.


@dataclass(frozen=True)
class Prediction:
    """A method with the step for ε, and the work after which E‖x - x*‖² ≤ ``reached``."""

    method: str
    step: float
    """γ; the first one, if it decreases."""
    gradients: int
    prox_evals: int
    epochs: int
    reached: float


def predictions(
    problem: FiniteSum, c: Constants, eps: float, *, permutations: int = 32
) -> tuple[list[Prediction], RadiusEstimate]:
    """The paper's methods for the accuracy ε, and the shuffling radius as measured.

    The theorem for strongly convex f_i is used where μ_f ≥ μ_ψ, else the one for ψ. ProxRR appears
    with the bound on σ_rad² and with the upper end of a 95% interval for it, measured by walking
    along random permutations; with importance copies; and with decreasing steps (ψ only).
    """
    if not c.r0 > eps:
        raise InputError(
            f"the start already has ‖x_0 - x*‖² = {c.r0:.3g} ≤ ε = {eps:.3g}: give a smaller ε (--accuracy)"
        )
    measured = _measure(problem, c, eps, permutations)
    found = [
        _proxrr("ProxRR", c, eps, None),
        _proxrr("ProxRR, measured σ_rad", c, eps, measured.high),
        _proxrr("ProxRR, copies", constants(problem, c.x_star, importance=True), eps, None),
    ]
    if c.mu_psi > 0:
        found.append(_decreasing(c, eps))
    steps = ceil(proxsgd_complexity(c, eps))
    found.append(Prediction("ProxSGD", proxsgd_step(c, eps), steps, steps, ceil(steps / c.n), eps))
    return found, measured


def _proxrr(method: str, c: Constants, eps: float, radius: float | None) -> Prediction:
    step, complexity = rr_formulas(c)
    epochs = ceil(complexity(c, eps, radius) / c.n)
    return Prediction(method, step(c, eps, radius), epochs * c.n, epochs, epochs, 1.5 * eps)


def _decreasing(c: Constants, eps: float) -> Prediction:
    """The fewest epochs T for which the bound, which falls with T, is at most ε."""
    low, high = 0, 1
    while decreasing_bound(c, high) > eps:
        low, high = high, 2 * high
        if high > LONGEST:
            raise InputError(f"ε = {eps:.3g} is out of reach")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if decreasing_bound(c, middle) > eps else (low, middle)
    return Prediction("ProxRR, decreasing", 1.0 / c.L_max, high * c.n, high, high, eps)


def _measure(problem: FiniteSum, c: Constants, eps: float, permutations: int) -> RadiusEstimate:
    """σ_rad² at the step that it implies or at the step that its bound implies, whichever is larger."""
    tuned, _ = rr_formulas(c)

    def at(radius: float | None) -> RadiusEstimate:
        step = tuned(c, eps, radius)
        return shuffling_radius_estimate(problem, c.x_star, step, permutations=permutations)

    by_bound = at(None)
    return max(by_bound, at(by_bound.high), key=lambda estimate: estimate.high)
