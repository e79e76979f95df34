"""Losses that stand for a distribution: their dispersion and their expected curvature."""

from __future__ import annotations

import numpy as np

from reshuffle.errors import InputError
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.problem import Problem

KNOWN = frozenset(
    ("logistic", "multinomial", "poisson", "probit", "complementary_log_log", "negative_binomial")
)
"""Losses, by their names in the core, that are minus a log-likelihood up to a constant: their dispersion is 1."""
ESTIMATED = frozenset(("squared", "gamma", "inverse_gaussian", "tweedie"))
"""Losses that are minus a log-likelihood times an unknown dispersion φ, which is estimated."""


def is_likelihood(loss: Loss) -> bool:
    """Whether the loss stands for a distribution."""
    return getattr(loss, "core", "") in KNOWN | ESTIMATED


def expected_curvatures(loss: Loss, margins: Array) -> Array | None:
    """E[l''(z, Y)] for losses of targets with mean exp(z), whose l'' is affine in y: l''(z, exp(z)). ``None`` for others."""
    second = type(loss).second
    if not getattr(loss, "log_link", False) or second is None or loss.core == "poisson":
        return None
    with np.errstate(over="ignore"):
        found = np.vectorize(second, otypes=[np.float64])(margins, np.exp(margins), *loss.params)
    return np.asarray(found)


def curvatures(loss: Loss, margins: Array, targets: Array) -> Array | None:
    """l''(z, y) of losses that are not convex, for which ``second`` differs from l'' in places. ``None`` for others.

    Their targets have mean μ = exp(z), and l'' is affine in y, so it follows from its values at μ and 2μ, where l is convex.
    """
    second = type(loss).second
    if loss.convex or not loss.log_link or second is None:
        return None
    at = np.vectorize(second, otypes=[np.float64])
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.exp(margins)
        low, high = at(margins, means, *loss.params), at(margins, 2.0 * means, *loss.params)
        return np.asarray(low + (high - low) * (targets / means - 1.0))


def dispersion(problem: Problem, x: Array) -> tuple[float, float]:
    """φ over the mean sample weight, and its degrees of freedom.

    With known dispersion weights count rows, and Σ_i sample_weight_i l''_i a_i a_iᵀ is the information. An estimated one is
    Pearson's, φ = Σ_i w_i l'_i²/E[l''_i]/(n - p): there weights are inverse variances, and their scale cancels. n counts the
    rows of positive weight, since others say nothing about φ.
    """
    fit, core = problem.datafit, getattr(problem.loss, "core", "")
    if core in KNOWN:
        return 1.0 / problem.weight, np.inf
    if core not in ESTIMATED:
        raise InputError(
            f"covariance='model' needs a loss that stands for a distribution, and {problem.loss!r} does not: take covariance='robust'"
        )
    weights = fit.own_weights()
    rows = int(np.count_nonzero(weights))
    df = rows - fit.shape[0]
    if df <= 0:
        raise InputError(
            f"the dispersion cannot be estimated from {rows} rows with {fit.shape[0]} coefficients: there must be more rows"
        )
    slopes, _ = fit.slopes(x)
    expected = expected_curvatures(problem.loss, fit.predictors(x))
    squares = slopes**2 if expected is None else slopes**2 / expected
    return float(weights @ squares) / df, float(df)
