"""Steps for a target accuracy ε, the iterations they need, and when ProxRR overtakes ProxSGD.

A complexity is the number K of single gradient steps. With u = 1/√ε and κ = L_max/μ,

    ProxRR:   K = (first + second·u)·log(2r_0/ε)     then E‖x - x*‖² ≤ 3ε/2,
    ProxSGD:  K = (first + second·u²)·log(2r_0/ε)    then E‖x - x*‖² ≤ ε,

provided that the step is the one for ε. ProxRR takes K/n prox evaluations, ProxSGD takes K.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Literal

from reshuffle.errors import InputError
from reshuffle.theory.bounds import strongly_convex
from reshuffle.theory.constants import Constants
from reshuffle.theory.radius import shuffling_radius_bound
from reshuffle.validation import check_positive

Formula = Callable[[Constants, float, float | None], float]
"""A function of the constants, of ε, and of σ_rad² if it is known."""


def proxrr_f_step(c: Constants, eps: float, radius: float | None = None) -> float:
    """f_i strongly convex: γ = min{1/L_max, √(εμ)/(√2·σ_rad)}."""
    mu, sigma = _checked("each f_i", c.mu_f, eps), _sigma_rad(c, radius)
    return min(1.0 / c.L_max, _ratio(sqrt(eps * mu), sqrt(2.0) * sigma))


def proxrr_psi_step(c: Constants, eps: float, radius: float | None = None) -> float:
    """ψ strongly convex: γ = min{1/L_max, √(εμ)/σ_rad}.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.1))
    >>> c = rs.theory.constants(problem)
    >>> rs.theory.proxrr_psi_step(c, 1e-2) > rs.theory.proxrr_psi_step(c, 1e-4)
    True
    """
    mu, sigma = _checked("ψ", c.mu_psi, eps), _sigma_rad(c, radius)
    return min(1.0 / c.L_max, _ratio(sqrt(eps * mu), sigma))


def proxsgd_step(c: Constants, eps: float) -> float:
    """f or ψ strongly convex: γ = min{1/(2L_max), εμ/(4σ*²)} (the paper has σ* for σ*²)."""
    mu = _checked("f or ψ", max(c.mu_f, c.mu_psi), eps)
    return min(0.5 / c.L_max, _ratio(eps * mu, 4.0 * c.sigma_star_sq))


def proxrr_f_complexity(c: Constants, eps: float, radius: float | None = None) -> float:
    """K = (κ + (√(κn)/(√ε·μ))·(√n‖∇f(x*)‖ + σ*))·log(2r_0/ε).

    With a known σ_rad² the second term is √2·σ_rad/(μ√(εμ)); the formula above is an upper bound of it.
    """
    _checked("each f_i", c.mu_f, eps)
    first, second = _f_terms(c, radius)
    return (first + second / sqrt(eps)) * _log(c, eps)


def proxrr_psi_complexity(c: Constants, eps: float, radius: float | None = None) -> float:
    """K = (κ + σ_rad/(μ√(εμ)) + n)·log(2r_0/ε).

    With ``constants(problem, importance=True)`` this is the complexity of importance resampling.
    """
    _checked("ψ", c.mu_psi, eps)
    first, second = _psi_terms(c, radius)
    return (first + second / sqrt(eps)) * _log(c, eps)


def proxsgd_complexity(c: Constants, eps: float) -> float:
    """f strongly convex: K = (2κ + 4σ*²/(εμ²))·log(2r_0/ε); ψ: (κ + 1 + 2σ*²/(εμ²))·log(2r_0/ε).

    The paper has κ + σ*²/(εμ²) for both. The factors stand in an exponent: with the paper's fewer steps the
    influence of the start is reduced to a root of ε only.
    """
    _checked("f or ψ", max(c.mu_f, c.mu_psi), eps)
    first, second = _sgd_terms(c)
    return (first + second / eps) * _log(c, eps)


@dataclass(frozen=True)
class Overtaking:
    """The accuracies at which ProxRR overtakes ProxSGD, by the leading terms of the complexities.

    In gradients ProxRR wins for ε ≤ ``gradients``; in prox evaluations for ε ≤ ``prox_small`` and
    for ε ≥ ``prox_large``, which is everywhere if ``prox_large ≤ prox_small``.
    """

    gradients: float
    prox_small: float
    prox_large: float


def overtaking(c: Constants) -> Overtaking:
    """With S = √n‖∇f(x*)‖ + σ*: σ*⁴/(L_max·μ·n·S²), n·σ*⁴/(L_max·μ·S²) and S²/(n·L_max·μ).

    The paper has n‖∇f(x*)‖² + σ*² for S² (at most a factor 2 less), and n where the last has 1/n.

    Examples
    --------
    >>> import reshuffle as rs
    >>> problem = rs.Problem(*rs.datasets.breast_cancer(), penalty=rs.penalties.L2(0.1))
    >>> type(rs.theory.overtaking(rs.theory.constants(problem))).__name__
    'Overtaking'
    """
    mu = strongly_convex("f or ψ", max(c.mu_f, c.mu_psi))
    scale, spread = c.L_max * mu, (sqrt(c.n) * c.grad_norm + sqrt(c.sigma_star_sq)) ** 2
    ratio = c.sigma_star_sq**2 / (scale * spread) if spread > 0 else 0.0
    return Overtaking(ratio / c.n, ratio * c.n, spread / (c.n * scale))


def proxsgd_cheaper(
    c: Constants, per: Literal["gradients", "prox"] = "gradients"
) -> tuple[float, float]:
    """The open interval of accuracies ε in which ProxSGD has the smaller complexity.

    It is computed from the functions of this module, constants included; (0, 0) if ProxRR always
    wins. With u = 1/√ε it is where a·u² - b·u + d < 0.
    """
    strongly_convex("f or ψ", max(c.mu_f, c.mu_psi))
    if per not in ("gradients", "prox"):
        raise InputError(f'per must be "gradients" or "prox", got {per!r}')
    visits = c.n if per == "prox" else 1
    rr = _f_terms(c, None) if c.mu_f >= c.mu_psi else _psi_terms(c, None)
    sgd = _sgd_terms(c)
    a, b, d = sgd[1], rr[1] / visits, sgd[0] - rr[0] / visits
    if a == 0.0:  # The inequality is linear: there is no noise, and ProxSGD converges linearly.
        start = d / b if b > 0 else (0.0 if d < 0 else inf)
        return (0.0, _accuracy(max(start, 0.0))) if start < inf else (0.0, 0.0)
    discriminant = b * b - 4.0 * a * d
    if discriminant <= 0:
        return 0.0, 0.0
    root = sqrt(discriminant)
    larger = (b + root) / (2.0 * a)
    smaller = 2.0 * d / (b + root)  # The other root, computed without cancellation.
    return _accuracy(larger), _accuracy(max(smaller, 0.0))


def rr_formulas(c: Constants) -> tuple[Formula, Formula]:
    """The step and the complexity of ProxRR by the theorem that is used: that for f where μ_f ≥ μ_ψ, else that for ψ."""
    if c.mu_f >= c.mu_psi:
        return proxrr_f_step, proxrr_f_complexity
    return proxrr_psi_step, proxrr_psi_complexity


def _ratio(numerator: float, noise: float) -> float:
    return numerator / noise if noise > 0 else inf


def _accuracy(u: float) -> float:
    return inf if u == 0.0 else u**-2


def _f_terms(c: Constants, radius: float | None) -> tuple[float, float]:
    kappa = c.L_max / c.mu_f
    if radius is not None:
        return kappa, sqrt(2.0 * radius / c.mu_f) / c.mu_f
    spread = sqrt(c.n) * c.grad_norm + sqrt(c.sigma_star_sq)
    return kappa, sqrt(kappa * c.n) / c.mu_f * spread


def _psi_terms(c: Constants, radius: float | None) -> tuple[float, float]:
    return c.L_max / c.mu_psi + c.n, _sigma_rad(c, radius) / (c.mu_psi * sqrt(c.mu_psi))


def _sgd_terms(c: Constants) -> tuple[float, float]:
    if c.mu_f >= c.mu_psi:
        return 2.0 * c.L_max / c.mu_f, 4.0 * c.sigma_star_sq / c.mu_f**2
    return c.L_max / c.mu_psi + 1.0, 2.0 * c.sigma_star_sq / c.mu_psi**2


def _sigma_rad(c: Constants, radius: float | None) -> float:
    return sqrt(shuffling_radius_bound(c) if radius is None else radius)


def _log(c: Constants, eps: float) -> float:
    """log(2r_0/ε), or 0 if the start is accurate enough."""
    return log(max(2.0 * c.r0 / eps, 1.0))


def _checked(what: str, mu: float, eps: float) -> float:
    check_positive("eps", eps)
    return strongly_convex(what, mu)
