"""Losses that stand for a distribution: the dispersion, and the curvature that is expected of them."""

from __future__ import annotations

import numpy as np

from reshuffle.errors import InputError
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.problem import Problem

KNOWN = frozenset(
    ("logistic", "multinomial", "poisson", "probit", "complementary_log_log", "negative_binomial")
)
"""Losses, by their names in the core, that are minus a log-likelihood but for a constant: their dispersion is 1."""
ESTIMATED = frozenset(("squared", "gamma", "inverse_gaussian", "tweedie"))
"""Those that are one over an unknown dispersion φ, which is estimated."""


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


def dispersion(problem: Problem, x: Array) -> tuple[float, float]:
    """φ over the mean sample weight, and its degrees of freedom.

    With known dispersion weights count rows, and Σ_i sample_weight_i l''_i a_i a_iᵀ is the information. An estimated one is
    Pearson's, φ = Σ_i w_i l'_i²/E[l''_i]/(n - p): there weights are inverse variances, and their scale cancels.
    """
    fit, core = problem.datafit, getattr(problem.loss, "core", "")
    if core in KNOWN:
        return 1.0 / problem.weight, np.inf
    if core not in ESTIMATED:
        raise InputError(
            f"covariance='model' needs a loss that stands for a distribution, and {problem.loss!r} does not: take covariance='robust'"
        )
    df = problem.n - fit.shape[0]
    if df <= 0:
        raise InputError(
            f"the dispersion cannot be estimated from {problem.n} rows with {fit.shape[0]} coefficients: there must be more rows"
        )
    slopes, _ = fit.slopes(x)
    expected = expected_curvatures(problem.loss, fit.predictors(x))
    squares = slopes**2 if expected is None else slopes**2 / expected
    weights = fit.weights if fit.weights.size else np.ones(fit.n)
    return float(weights @ squares) / df, float(df)
