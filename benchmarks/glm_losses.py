"""Losses of generalised linear models in numpy and scipy alone, with slopes and curvatures: nothing of the package is in them.

Each is half a deviance, and so at least 0, as in the package. The inverse Gaussian is not here: with a logarithmic link it is
not convex, and no lower bound on its minimum is known.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
GlmName = Literal["poisson", "gamma", "tweedie", "negative_binomial", "cloglog", "probit"]
GLMS: tuple[GlmName, ...] = get_args(GlmName)
CLASSES: tuple[GlmName, ...] = ("cloglog", "probit")
"""Those whose targets are -1 and 1; a positive number is the target of ``gamma``, and a number that is not negative that of the others."""
POWER = 1.5  # of Tweedie's variance in the corpus
DISPERSION = 0.5  # of the negative binomial counts of the corpus


def _log(y: Array) -> Array:
    """log y, and 0 where y is 0: it is multiplied by y there."""
    return np.asarray(np.log(np.where(y > 0, y, 1)))


def value(loss: GlmName, z: Array, y: Array) -> Array:
    """l(z, y) of each sample."""
    if loss == "poisson":
        return np.asarray(np.exp(z) - y * z + y * _log(y) - y)
    if loss == "gamma":
        return np.asarray(y * np.exp(-z) + z - np.log(y) - 1)
    if loss == "tweedie":
        a, b = 2 - POWER, POWER - 1
        own = np.where(y > 0, np.exp(a * _log(y)), 0)
        return np.asarray(np.exp(a * z) / a + y * np.exp(-b * z) / b - own / (a * b))
    if loss == "negative_binomial":
        c = 1 / DISPERSION
        rest = np.log1p(DISPERSION * y) - np.logaddexp(0 * z, z + np.log(DISPERSION))
        return np.asarray(y * (_log(y) - z) - (y + c) * rest)
    if loss == "probit":
        return np.asarray(-special.log_ndtr((y * z).astype(np.float64)))
    e = np.exp(z)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(y > 0, -np.log(-np.expm1(-e)), e))


def slope(loss: GlmName, z: Array, y: Array) -> Array:
    """l'(z, y) of each sample."""
    if loss == "poisson":
        return np.asarray(np.exp(z) - y)
    if loss == "gamma":
        return np.asarray(1 - y * np.exp(-z))
    if loss == "tweedie":
        return np.asarray(np.exp((2 - POWER) * z) - y * np.exp((1 - POWER) * z))
    if loss == "negative_binomial":
        mean = np.exp(z)
        return np.asarray((mean - y) / (1 + DISPERSION * mean))
    if loss == "probit":
        m = (y * z).astype(np.float64)
        return np.asarray(-y * np.exp(-m * m / 2 - special.log_ndtr(m)) / np.sqrt(2 * np.pi))
    e = np.exp(z)
    return np.asarray(np.where(y > 0, -_share(e), e))


def curvature(loss: GlmName, z: Array, y: Array) -> Array:
    """l''(z, y) of each sample."""
    if loss == "poisson":
        return np.asarray(np.exp(z))
    if loss == "gamma":
        return np.asarray(y * np.exp(-z))
    if loss == "tweedie":
        a, b = 2 - POWER, POWER - 1
        return np.asarray(a * np.exp(a * z) + b * y * np.exp(-b * z))
    if loss == "negative_binomial":
        mean = np.exp(z)
        return np.asarray((1 + DISPERSION * y) * mean / (1 + DISPERSION * mean) ** 2)
    if loss == "probit":
        r = -y * slope(loss, z, y)
        return np.clip(r * (r + y * z), 0.0, 1.0)
    e = np.exp(z)
    g = _share(e)
    return np.asarray(np.where(y > 0, np.maximum(g * (g + e - 1), 0.0), e))


def _share(e: Array) -> Array:
    """e/(exp(e) - 1)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.where(e > 0, e / np.expm1(e), 1.0))
