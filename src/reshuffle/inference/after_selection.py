"""Intervals after an ℓ1 penalty, by the two methods with a proof: data splitting, and the debiased lasso.

**Splitting** (Cox, 1975; Wasserman and Roeder, 2009; Rinaldo, Wasserman and G'Sell, 2019). Half of the rows choose the features, the other
half estimates their coefficients without a penalty. The second half is independent of the choice, so the usual intervals are valid,
for the coefficients of the best model in these features, whether or not the true model has others.

**The debiased lasso** (Zhang and Zhang, 2014; van de Geer, Bühlmann, Ritov and Dezeure, 2014; Javanmard and Montanari, 2014). One Newton-like
step from the lasso x̂, with a matrix Θ that nearly inverts the Hessian A,

    b = x̂ - Θ∇f(x̂),    √n(b - x*) ≈ N(0, ΘBΘᵀ),

Row j of Θ comes from the lasso of column j on the others with strength λ_j: |(ΘA - I)_jk| ≤ λ_j/τ_j². The remaining bias is of order
λ_j‖x̂ - x*‖₁, small beside 1/√n if the true model has few features, of order less than √n/log d, and the rows of A⁻¹ have as few entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.core import native
from reshuffle.errors import InputError
from reshuffle.inference.sandwich import LARGEST, scores
from reshuffle.objective import Array
from reshuffle.penalties.forms import Coordinates
from reshuffle.problem import Problem
from reshuffle.randomness import generator
from reshuffle.solvers.newton_model import descend
from reshuffle.solvers.second_order import RowCurvature, SecondOrder

HALVINGS = 12
"""The most halvings of the strength of a lasso of columns: 1/4096 of it is as good as none."""
LARGER = 2.0
"""For less bias a standard error may grow by this factor over that at the first strength. With 1.25, the authors' choice, intervals of
correlated columns that matter covered in half of the draws of benchmarks/coverage.py; with 2 they cover nearly as often as they should."""
COLLINEAR = 1e-10
"""A column is a combination of the others if they leave less than this share of its square unexplained."""
SPLIT = 31  # This is the stream of random numbers that divides the rows.


def halves(n: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two halves of n rows, drawn by the seed."""
    order = generator(seed, SPLIT).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def debiased(problem: Problem, x: Array) -> tuple[Array, Array]:
    """b and its covariance for the features; an intercept is first made orthogonal to them."""
    fit = problem.datafit
    if fit.outputs:
        raise InputError("method='debiased' is for a loss of one output: take method='split'")
    if fit.features > LARGEST or fit.on_disk:
        raise InputError(
            f"method='debiased' writes out the Hessian of all features, at most {LARGEST} and in memory: take method='split'"
        )
    at = SecondOrder(fit).linearise(x)
    curves = SecondOrder(fit, origin=_weighted_means(problem, at.curvatures))
    every = np.arange(fit.features, dtype=np.uint32)
    features = slice(fit.features)
    A = curves.hessian(RowCurvature(at.curvatures), every)[features, features]
    mean, B = scores(curves, at)
    theta = approximate_inverse(A, problem.n)
    spread = theta @ B[features, features] @ theta.T / problem.n
    return x[features] - theta @ mean[features], np.asarray(spread)


def _weighted_means(problem: Problem, curvatures: Array) -> Array:
    """Means of the columns, rows weighed by their curvatures: columns less these are orthogonal to the intercept."""
    fit = problem.datafit
    if not fit.bias:
        return np.zeros(fit.features)
    zero = np.zeros(fit.shape)
    zero[-1] = 1.0
    along = fit.bent_product(fit.own_weights() * curvatures, zero)
    if not along[-1] > 0.0:
        raise InputError("method='debiased' needs curvature, and the loss has none at the model")
    return np.asarray(along[:-1] / along[-1])


def approximate_inverse(A: Array, n: int) -> Array:
    """Θ, row by row: (e_j - γ_j)/τ_j², γ_j the lasso of column j on the others, τ_j² = A_jj - A_j,-jᵀγ_j.

    With columns of curvature 1 the first strength is √(2 log d/n). It is halved as long as the standard error of the coefficient, ‖Θ_j‖_A/√n, is at
    most twice that with the first: a smaller strength leaves less bias (Zhang and Zhang, 2014, section 2.3).
    """
    d = len(A)
    lengths = np.sqrt(np.diag(A))
    if not np.all(lengths > 0.0):
        j = int(np.argmin(lengths))
        raise InputError(f"column {j} does not vary: leave it out")
    R, theta = A / np.outer(lengths, lengths), np.zeros((d, d))
    for j in range(d):
        theta[j] = _row(R, j, float(np.sqrt(2.0 * np.log(max(d, 2)) / n)))
    return np.asarray(theta / np.outer(lengths, lengths))


def _row(R: Array, j: int, strength: float) -> Array:
    """Row j of Θ for columns of curvature 1."""
    others = np.arange(len(R)) != j
    H, slope = np.ascontiguousarray(R[np.ix_(others, others)]), -R[j, others]
    count, row, most = len(slope), np.zeros(len(R)), np.inf
    row[j], start, unbounded = 1.0, np.zeros(count), np.full(count, np.inf)
    for _ in range(HALVINGS):
        form = Coordinates(np.full(count, strength), np.zeros(count), -unbounded, unbounded)
        gamma = start.copy()
        descend(form, H, slope, np.zeros(count), gamma, native.FINE, 0.0)
        tau = 1.0 + float(slope @ gamma)
        if not tau > COLLINEAR:
            break
        new = np.zeros(len(R))
        new[j], new[others] = 1.0 / tau, -gamma / tau
        error = float(np.sqrt(new @ R @ new))
        if error > most:
            break
        most = LARGER * error if most == np.inf else most
        row, start, strength = new, gamma, 0.5 * strength
    if most == np.inf:
        raise InputError(f"column {j} is a combination of the others: leave it out")
    return row
