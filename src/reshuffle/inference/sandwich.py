"""The covariance of a minimiser: of an M-estimator, and of a maximum likelihood estimator.

x̂ minimises (1/n) Σ_i w_i l_i(x) + ½xᵀΛx, Λ a ridge that was chosen without looking at the data. With s_i = w_i l'_i a_i, the mean s̄ of
these, A = (1/n) Σ_i w_i l''_i a_i a_iᵀ and B = (1/n) Σ_i (s_i - s̄)(s_i - s̄)ᵀ, the rows being independent,

    √n(x̂ - x*) → N(0, (A + Λ)⁻¹ B (A + Λ)⁻¹),    x* = argmin E[w l(aᵀx, y)] + ½xᵀΛx

(Huber, 1967; White, 1982; van der Vaart, Asymptotic Statistics, 1998, theorem 5.23). Nothing is assumed about the distribution of y given a.
Without a ridge s̄ = 0, and this is HC0. Where l is minus a log-likelihood up to a dispersion φ and the model is true, B = φA, and the
covariance is φA⁻¹/n.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.errors import InputError
from reshuffle.inference.likelihoods import curvatures, dispersion, expected_curvatures
from reshuffle.objective import Array
from reshuffle.problem import Problem
from reshuffle.solvers.second_order import Linearisation, RowCurvature, SecondOrder

SINGULAR = 1e-12
"""Columns scaled to length 1 count as linearly dependent if an eigenvalue of their Gram matrix is below this share of the largest."""
LARGEST = 5000
"""The largest number of coefficients whose covariance is computed: a matrix of 200 MB, whose inverse takes some seconds."""


ENOUGH = 0.5
"""Intervals are refused if there are more coefficients than this share of the rows (or events): they would cover far less often than they claim."""


class Pieces(NamedTuple):
    """The matrices from which covariances are computed, in coordinates in which the columns are centred if there is an intercept."""

    bread: Array
    """A + Λ."""
    spread: Array
    """B."""
    information: Array
    """A, with the expected curvature if the loss has one."""
    back: Array
    """The matrix that takes the coordinates to those of the problem."""


def pieces_of(problem: Problem, x: Array, l2: Array) -> Pieces:
    """A + Λ, B and A at x; ``l2`` is the diagonal of Λ, one number per feature."""
    fit = problem.datafit
    count = prod(fit.shape)
    if count > LARGEST:
        raise InputError(
            f"inference writes out the covariance of all coefficients, at most {LARGEST}, and there are {count}"
        )
    if fit.on_disk:
        raise InputError("inference needs the rows in memory, and X lies on disk")
    curves = SecondOrder(fit)
    at = curves.linearise(x)
    every = np.arange(fit.features, dtype=np.uint32)
    if fit.outputs:
        A = information = curves.hessian(RowCurvature(at.curvatures), every)
        B = _spread_of_outputs(curves, at)
    else:
        margins = at.margins + fit.own_offsets()
        own = curvatures(fit.loss, margins, fit.targets)
        if own is None:
            A = curves.hessian(RowCurvature(at.curvatures), every)
        else:  # The core takes curvatures that are not negative.
            up, down = (RowCurvature(np.maximum(sign * own, 0.0)) for sign in (1.0, -1.0))
            A = curves.hessian(up, every) - curves.hessian(down, every)
        expected = expected_curvatures(fit.loss, margins)
        information = A if expected is None else curves.hessian(RowCurvature(expected), every)
        _, B = scores(curves, at)
    ridge = np.repeat(np.append(l2, np.zeros(int(fit.bias))), prod(fit.outputs))
    back = _uncentred(curves.centre, fit)
    return Pieces(A + np.diag(ridge), B, information, back)


def scores(curves: SecondOrder, at: Linearisation) -> tuple[Array, Array]:
    """s̄ and B of a loss of one output, in coordinates in which the columns are less ``curves.centre``."""
    every = np.arange(curves.fit.features, dtype=np.uint32)
    B = curves.hessian(RowCurvature(curves.weights * at.slopes**2), every)
    mean = at.gradient.copy()
    if curves.fit.bias:
        mean[:-1] -= curves.centre * mean[-1]
    return mean, B - np.outer(mean, mean)


def _uncentred(centre: Array, fit: Datafit) -> Array:
    """(x, b') -> (x, b) with b' = b + centreᵀx, flat over outputs."""
    size = fit.features + int(fit.bias)
    back = np.eye(size)
    if fit.bias:
        back[-1, :-1] = -centre
    return np.asarray(np.kron(back, np.eye(prod(fit.outputs))), dtype=np.float64)


def _spread_of_outputs(curves: SecondOrder, at: Linearisation) -> Array:
    """B for several outputs, each with a slope in every row."""
    fit = curves.fit
    rows = np.zeros((fit.n, fit.features), order="F")
    fit.rows.add_to(rows)
    if fit.bias:
        rows = np.column_stack([rows - curves.centre, np.ones(fit.n)])
    scores = (rows[:, :, None] * (curves.weights[:, None] * at.slopes)[:, None, :]).reshape(
        fit.n, -1
    )
    scores -= scores.mean(axis=0)
    return np.asarray(scores.T @ scores / fit.n)


def inverse(matrix: Array, names: list[str]) -> Array:
    """The inverse of a matrix of second derivatives; refused if columns depend on each other."""
    lengths = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not np.all(lengths > 0.0):
        flat = [name for name, length in zip(names, lengths, strict=True) if not length > 0.0]
        raise InputError(
            f"the coefficient of {flat[0]!r} is not determined by the data: its column does not vary; leave it out, or give a ridge"
        )
    sizes, vectors = np.linalg.eigh(matrix / np.outer(lengths, lengths))
    if not sizes[0] > SINGULAR * sizes[-1]:
        heavy = np.argsort(-np.abs(vectors[:, 0]), kind="stable")[:2]
        raise InputError(
            "the coefficients are not determined by the data: columns depend linearly on each other, or a group of rows is fitted "
            "the better the larger its coefficient (a group with one class alone); "
            f"{' and '.join(repr(names[j]) for j in heavy)} are among them; leave one out, or give a ridge"
        )
    scaled = vectors / lengths[:, None]
    return np.asarray((scaled / sizes) @ scaled.T)


def effective(bread: Array, l2: Array) -> float:
    """tr((A + Λ)⁻¹A), the number of coefficients that the data determine; Λ has zeros beyond the entries of ``l2``."""
    return float(len(bread) - np.diag(np.linalg.inv(bread))[: l2.size] @ l2)


def check_enough(coefficients: float, count: int, what: str) -> None:
    """Refuse asymptotic intervals if the sample is too small for the model."""
    if coefficients > ENOUGH * count:
        raise InputError(
            f"the intervals would not be valid: their theory needs many more {what} than coefficients, and there are {count} {what} "
            f"for {coefficients:.3g} coefficients that the data determine; leave features out, or give a stronger ridge"
        )


def counted_rows(problem: Problem) -> int:
    """Rows of positive weight."""
    return int(np.count_nonzero(problem.datafit.own_weights()))


def robust(problem: Problem, x: Array, l2: Array, names: list[str]) -> Array:
    """(A + Λ)⁻¹ B (A + Λ)⁻¹/n."""
    bread, spread, _, back = pieces_of(problem, x, l2)
    half = back @ inverse(bread, names)
    check_enough(effective(bread, l2), counted_rows(problem), "rows")
    return np.asarray(half @ spread @ half.T / problem.n)


def model_based(problem: Problem, x: Array, names: list[str]) -> tuple[Array, float]:
    """φA⁻¹/n, and the degrees of freedom of φ: infinite if it is known."""
    _, _, information, back = pieces_of(problem, x, np.zeros(problem.features))
    phi, df = dispersion(problem, x)
    if not problem.loss.quadratic:  # least squares has exact intervals for normal errors
        check_enough(len(information), counted_rows(problem), "rows")
    half = back @ inverse(information, names)
    return np.asarray(phi * half @ back.T / problem.n), df
