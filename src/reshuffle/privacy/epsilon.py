"""Computes ε by other projects' libraries: dp-accounting for Gaussian releases, PLD_accounting for allocations.

E releases of a sum of sensitivity C with noise z·C are as private as one with noise z·C/√E (Dong, Roth and Su 2022),
whose ε is known exactly (Balle and Wang 2018). That holds for every order of the samples and every adaptive choice of
what is summed. Sampling by coins (Poisson) would have a much smaller ε, which no shuffled pass may claim.
"""

from __future__ import annotations

from functools import cache
from math import sqrt

import numpy as np

from reshuffle.errors import InputError, extra


def require_accountant() -> None:
    """Refuse to begin if no accountant is installed."""
    with extra("privacy", "dp_accounting", "an account of ε"):
        import dp_accounting  # noqa: F401


@cache
def epsilon_of_releases(noise: float, releases: int, delta: float) -> float:
    """ε(δ) of ``releases`` Gaussian releases with noise multiplier z, in any order; 0 for none.

    Examples
    --------
    >>> import pytest; _ = pytest.importorskip("dp_accounting")
    >>> round(epsilon_of_releases(noise=1.0, releases=10, delta=1e-5), 1)
    17.9
    """
    if releases == 0:
        return 0.0
    require_accountant()
    from dp_accounting import get_epsilon_gaussian

    with np.errstate(divide="ignore"):  # If the noise is nearly zero, log(0) occurs.
        return float(get_epsilon_gaussian(noise / sqrt(releases), delta))


@cache
def noise_for_releases(epsilon: float, delta: float, releases: int) -> float:
    """The smallest noise multiplier z with which ``releases`` releases have this ε."""
    require_accountant()
    from dp_accounting import get_sigma_gaussian

    noise = float(get_sigma_gaussian(epsilon, delta)) * sqrt(releases)
    # The search may end on either side of the solution.
    while epsilon_of_releases(noise, releases, delta) > epsilon:
        noise *= 1.0 + 1e-9
    return noise


@cache
def epsilon_of_allocations(noise: float, steps: int, epochs: int, delta: float) -> float:
    """ε(δ) if each sample draws one of ``steps`` steps in each epoch, and nobody learns which (balls and bins).

    It is an upper bound by PLD_accounting, which takes seconds; it never exceeds the ε for any order.
    """
    if epochs == 0:
        return 0.0
    any_order = epsilon_of_releases(noise, epochs, delta)
    if steps == 1:
        return any_order
    with extra("privacy", "PLD_accounting", "the account of order Allocation()"):
        from PLD_accounting import gaussian_allocation_epsilon_range
    upper, _ = gaussian_allocation_epsilon_range(
        delta=delta, sigma=noise, num_steps=steps, num_selected=1, num_epochs=epochs
    )
    if not 0 <= upper < float("inf"):
        raise InputError(f"PLD_accounting has no bound for noise={noise:g} and {steps} steps")
    return min(float(upper), any_order)
