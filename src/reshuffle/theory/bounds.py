"""Every theorem's bound on E‖x_T - x*‖², as a function of the epoch T.

``radius`` is σ_rad²; its upper bound is used if it is not given. A step that a theorem does not cover is
refused, since its bound would say nothing.
"""

from __future__ import annotations

from math import isnan

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.steps import Decreasing, Setting
from reshuffle.theory.clients import ClientConstants
from reshuffle.theory.constants import Constants
from reshuffle.theory.radius import shuffling_radius_bound
from reshuffle.validation import check_positive


def proxrr_f_bound(c: Constants, T: ArrayLike, step: float, radius: float | None = None) -> Array:
    """f_i strongly convex: (1 - γμ)^{nT} r_0 + 2γ²σ_rad²/μ, for ProxRR and ProxSO."""
    mu = strongly_convex("each f_i", c.mu_f)
    _check_step(step, c.L_max)
    return (1.0 - step * mu) ** (c.n * _epochs(T)) * c.r0 + 2.0 * step**2 * _radius(c, radius) / mu


def proxrr_psi_bound(c: Constants, T: ArrayLike, step: float, radius: float | None = None) -> Array:
    """ψ strongly convex: (1 + 2γμn)^{-T} r_0 + γ²σ_rad²/μ, for ProxRR and ProxSO.

    With ``constants(problem, importance=True)`` this is the theorem on importance resampling.
    """
    mu = strongly_convex("ψ", c.mu_psi)
    _check_step(step, c.L_max)
    shrink = 1.0 + 2.0 * step * mu * c.n
    with np.errstate(under="ignore"):
        return shrink ** -_epochs(T) * c.r0 + step**2 * _radius(c, radius) / mu


def proxsgd_bound(c: Constants, T: ArrayLike, step: float) -> Array:
    """Proximal SGD after K = nT steps, f or ψ strongly convex, or both; γ ≤ 1/(2 L_max):

        ((1 - γμ_f)/(1 + 2γμ_ψ))^K r_0 + 2γσ*²/(μ_f + 2μ_ψ).

    With μ_ψ = 0 it is the paper's (1 - γμ)^K r_0 + 2γσ*²/μ. With μ_f = 0 the paper weakens it to
    the same formula, which is true for γμ ≤ 1/2 only; this one is what its proof shows.
    """
    total = strongly_convex("f or ψ", c.mu_f + 2.0 * c.mu_psi)
    _check_step(step, 2.0 * c.L_max)
    shrink = (1.0 - step * c.mu_f) / (1.0 + 2.0 * step * c.mu_psi)
    with np.errstate(under="ignore"):
        return shrink ** (c.n * _epochs(T)) * c.r0 + 2.0 * step * c.sigma_star_sq / total


def recursion_bound(c: Constants, steps: ArrayLike, radius: float | None = None) -> Array:
    """r_0, …, r_T of ProxRR for any steps γ_0, …, γ_{T-1} ≤ 1/L_max, f or ψ strongly convex:

        (1 + 2γ_tμ_ψn) r_{t+1} = (1 - γ_tμ_f)^n r_t + 2γ_t³σ_rad² Σ_{j<n} (1 - γ_tμ_f)^j.

    All theorems about ProxRR are simpler upper bounds of this recursion.
    """
    sigma, r = _radius(c, radius), [c.r0]
    for step in np.atleast_1d(np.asarray(steps, dtype=np.float64)):
        _check_step(float(step), c.L_max)
        keep = (1.0 - step * c.mu_f) ** c.n
        sweeps = (1.0 - keep) / (step * c.mu_f) if c.mu_f > 0 else c.n
        after = keep * r[-1] + 2.0 * step**3 * sigma * sweeps
        r.append(float(after / (1.0 + 2.0 * step * c.mu_psi * c.n)))
    return np.array(r)


def decreasing_steps(c: Constants, T: int) -> Array:
    """γ_0, …, γ_{T-1} of the decreasing schedule for ψ strongly convex."""
    check_positive("T", T, integer=True)
    mu = strongly_convex("ψ", c.mu_psi)
    schedule = Decreasing(mu).bind(Setting(c.L_max, mu, 2.0 * mu, c.n, T, default=1.0 / c.L_max))
    return np.array([schedule(t) for t in range(T)])


def decreasing_bound(c: Constants, T: ArrayLike, radius: float | None = None) -> Array:
    """ψ strongly convex, the clipped decreasing steps for the horizon T, κ = L_max/μ:

        exp(-nT/(κ + 2n)) r_0 + max{343/(μ³n²), 28/(μL_max²)}·σ_rad²/T².

    The lemma with a = 2μ, b = L_max, c = 2nσ_rad², proved again for the clipped steps: the paper
    has 356/(μ³n²) for the maximum, which its lemma does not give where n exceeds about 6κ.
    """
    mu = strongly_convex("ψ", c.mu_psi)
    epochs = _epochs(T)
    noise = max(343.0 / (mu**3 * c.n**2), 28.0 / (mu * c.L_max**2)) * _radius(c, radius)
    with np.errstate(divide="ignore", under="ignore"):
        return np.exp(-c.n * epochs / (c.L_max / mu + 2.0 * c.n)) * c.r0 + noise / epochs**2


def fed_heterogeneous_bound(
    c: ClientConstants, T: ArrayLike, step: float, radius: float | None = None
) -> Array:
    """R strongly convex, clients of any sizes:

        (1 + 2γμN/M)^{-T} r_0 + γ²(n/(Nμ))·σ_rad²,  σ_rad² ≤ L_max Σ(‖∇F_m(x*)‖² + (n/4)σ_{m,*}²).

    ψ = (N/n)(R + consensus) has μ_ψ = (N/n)(μ/M). The paper states it for equal clients, n = N/M.
    """
    mu = strongly_convex("R", c.mu_R)
    _check_step(step, c.L_max)
    sigma = c.radius_bound if radius is None else radius
    shrink = 1.0 + 2.0 * step * mu * c.N / c.M
    return shrink ** -_epochs(T) * c.r0 + step**2 * c.n / (c.N * mu) * sigma


def fed_bound(c: ClientConstants, T: ArrayLike, step: float, radius: float | None = None) -> Array:
    """f_mj strongly convex, equal clients, any R: (1 - γμ)^{nT} r_0 + 2γ²σ_rad²/(Mμ).

    Unequal clients are padded with zero functions, which are not strongly convex.
    """
    mu = strongly_convex("each f_mj", c.mu_f)
    _check_step(step, c.L_max)
    if c.sizes.min() < c.n:
        raise InputError(
            f"this bound is for clients of one size, got {c.sizes.min()} to {c.n} samples"
        )
    sigma = c.radius_bound if radius is None else radius
    return (1.0 - step * mu) ** (c.n * _epochs(T)) * c.r0 + 2.0 * step**2 * sigma / (c.M * mu)


def fed_homogeneous_bound(c: ClientConstants, T: ArrayLike, step: float) -> Array:
    """∇F_m(x*) = 0 for all m, no R: (1 - γμ)^{nT} r_0 + γ²L_max·N·σ*²/(Mμ), as the paper has it.

    ``fed_bound`` gives half of the last term.
    """
    scale = np.sqrt(c.N * c.sizes * c.sigma_star_sq)
    if np.any(c.grad_norms > 1e-6 * scale):
        raise InputError(
            "this bound is for clients that all have ∇F_m(x*) = 0, "
            f"got norms up to {c.grad_norms.max():.3g}; use fed_bound"
        )
    mean = fed_bound(c, T, step, radius=0.0)
    return mean + step**2 * c.L_max * c.N * c.sigma_star_sq / (c.M * c.mu_f)


def strongly_convex(what: str, mu: float) -> float:
    """Return μ, or refuse a problem that is not strongly convex."""
    if not mu > 0:
        raise InputError(
            f"this theorem needs {what} strongly convex, got μ = {mu:g} "
            "(a ridge makes the f_i strongly convex, an L2 part makes ψ so; with an intercept neither is)"
        )
    return mu


def _check_step(step: float, inverse: float) -> None:
    check_positive("step", step)
    if isnan(inverse) or step * inverse > 1.0 + 1e-9:
        raise InputError(f"the theorem covers steps up to {1.0 / inverse:.6g}, got {step:.6g}")


def _epochs(T: ArrayLike) -> Array:
    epochs = np.asarray(T, dtype=np.float64)
    if not np.all(epochs >= 0):
        raise InputError(f"T must not be negative, got {T!r}")
    return epochs


def _radius(c: Constants, radius: float | None) -> float:
    return shuffling_radius_bound(c) if radius is None else float(radius)
