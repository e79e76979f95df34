"""The nuclear norm: value and prox against its singular values, and a fit with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.penalties import NuclearNorm

pytestmark = pytest.mark.usefixtures("vanishing")

Array = NDArray[np.float64]
matrices = arrays(np.float64, (4, 3), elements=st.floats(-100.0, 100.0, allow_subnormal=False))


def test_value_of_known_singular_values() -> None:
    turned, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))
    x = np.vstack([turned @ np.diag([3.0, 0.0, 1.0]), np.zeros((2, 3))])
    assert NuclearNorm(0.5).value(x) == pytest.approx(2.0, rel=1e-14)
    assert NuclearNorm(0.5).value(x.T) == pytest.approx(2.0, rel=1e-14)


@given(x=matrices, step=st.floats(1e-2, 1e2))
def test_prox_is_optimal(x: Array, step: float) -> None:
    """g = (x - p)/step is in ∂ψ(p): of spectral norm at most the strength, and ⟨g, p⟩ = ψ(p)."""
    psi = NuclearNorm(0.8)
    p = psi.prox(x, step)
    g, size = (x - p) / step, 1.0 + float(np.linalg.norm(x))
    assert np.linalg.norm(g, 2) <= 0.8 + 1e-12 * size / step
    assert np.vdot(g, p) == pytest.approx(psi.value(p), abs=1e-12 * size * size / step)


def test_prox_lowers_the_rank() -> None:
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.standard_normal((k, 3)))[0] for k in (6, 4))
    p = NuclearNorm(1.0).prox(left @ np.diag([5.0, 2.0, 0.5]) @ right.T, 1.0)
    np.testing.assert_allclose(np.linalg.svd(p, compute_uv=False)[:3], [4.0, 1.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(p, left[:, :2] @ np.diag([4.0, 1.0]) @ right[:, :2].T, atol=1e-14)


@pytest.mark.parametrize("method", ["value", "prox"])
def test_vector_unknown_is_refused(method: str) -> None:
    with pytest.raises(rs.InputError, match=r"NuclearNorm is for a matrix unknown.*\(3,\)"):
        getattr(NuclearNorm(1.0), method)(np.ones(3), *[1.0] * (method == "prox"))


def test_vector_problem_is_refused() -> None:
    problem = rs.Problem(np.eye(3), np.array([1.0, -1.0, 1.0]), penalty=NuclearNorm(0.1))
    with pytest.raises(rs.InputError, match="NuclearNorm is for a matrix unknown"):
        rs.ExactProxRR().solve(problem)


@pytest.mark.parametrize("strength", [-1.0, np.nan, np.inf, "strong", np.array([0.5, 1.0])])
def test_bad_strength_is_named(strength: Any) -> None:
    with pytest.raises(rs.InputError, match="strength must be"):
        NuclearNorm(strength)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_exact_method_and_fista_agree(fit_intercept: bool) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 5))
    y = np.argmax(X @ rng.standard_normal((5, 4)), axis=1).astype(float)
    problem = rs.Problem(
        X, y, rs.losses.Multinomial(), NuclearNorm(0.2), fit_intercept=fit_intercept
    )
    exact = rs.ExactProxRR(tol=1e-10).solve(problem)
    fista = rs.FISTA(tol=1e-10).solve(problem)
    assert exact.converged
    assert fista.converged
    start = problem.objective(np.zeros(problem.shape))
    found, reference = problem.objective(exact.x), problem.objective(fista.x)
    assert abs(found - reference) <= 1e-8 * (start - reference)
    assert np.linalg.matrix_rank(exact.x[:5], tol=1e-7) == 2  # of 3 without a penalty


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (12, 12), (5, 1), (1, 5)])
@pytest.mark.parametrize("share", [1e-6, 0.9e-3, 1.1e-3, 0.01, 0.3, 0.99, 1.0, 2.0])
@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_the_gram_matrix_gives_the_same_prox(
    shape: tuple[int, int], share: float, spread: float
) -> None:
    """On both sides of the threshold from which on it is used, also where singular values differ by 1e6."""
    rng = np.random.default_rng(3)
    left, _, right = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    sigma = 10.0 ** -np.linspace(0.0, spread, min(shape))
    x, threshold = (left * sigma) @ right, share * float(np.linalg.norm(sigma))
    expected = (left * np.maximum(sigma - threshold, 0.0)) @ right
    p = NuclearNorm(2.0).prox(np.ascontiguousarray(x), 0.5 * threshold)
    np.testing.assert_allclose(p, expected, atol=1e-12)
    assert p.flags.c_contiguous
    assert not NuclearNorm(1.0).prox(np.zeros(shape), 1.0).any()
