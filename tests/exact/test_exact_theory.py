"""The theorems of docs/exact-theory.md: every epoch of the package's own kernels contracts as they say."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.solvers.slope_table import slope_table_of

Array = NDArray[np.float64]
NONE = np.empty(0, dtype=np.uint32)


def rho(tau: float, L: float, mu_f: float, mu_psi: float) -> float:
    """Of Theorem 1."""
    first = (1 - tau * mu_f + 0.5 * tau**2 * L**2) ** 2 / (1 + 2 * tau * mu_psi)
    return float(np.sqrt(first + 0.25 * tau**2 * L**2))


def test_the_simplified_rates_follow_from_rho() -> None:
    for kappa in (1.0, 1.5, 4.0, 30.0, 1e3):
        mu = 1.0 / kappa
        for part in np.linspace(0.01, 1.0, 50):
            tau = part * 4 * mu / 9
            assert rho(tau, 1.0, mu, 0.0) ** 2 <= 1 - tau * mu + 1e-15
            assert rho(tau, 1.0, 0.0, mu) ** 2 <= 1 - tau * mu / 2 + 1e-15
            short = part * mu / 24
            for strong in ((mu, 0.0), (0.0, mu)):
                assert rho(short, 1.0, *strong) <= 1 - 0.85 * short * mu + 1e-15
                omega, s = short * mu / 16, short
                assert rho(short, 1.0, *strong) + 2.45 * omega <= 1 - 0.5 * short * mu + 1e-15
                assert s**2 + omega * (2 * s + s**2) <= (1 - 0.5 * short * mu) * omega
                assert np.hypot(1 + s, 1.0) <= 1.45


def problem(strong: str, loss: Any) -> tuple[rs.Problem, float, float, float]:
    """Rows of different directions; L, μ_f and μ_ψ as the exact method sees them."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((9, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(9) < 0.5, 1.0, -1.0)
    if strong == "f":  # least squares: μ_f is the smallest eigenvalue
        task = rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L1(0.05))
        return task, 1.0, float(np.linalg.eigvalsh(X.T @ X / 9)[0]), 0.0
    l2 = 0.8 * loss.curvature
    task = rs.Problem(X, y, loss, rs.penalties.ElasticNet(0.05, l2))
    return task, loss.curvature, 0.0, l2


CASES = [("f", rs.losses.Squared()), ("psi", rs.losses.Logistic()), ("psi", rs.losses.Huber())]


@pytest.mark.parametrize(("strong", "loss"), CASES)
@pytest.mark.parametrize("part", [1.0, 0.3])
def test_slopes_at_a_reference_point(strong: str, loss: Any, part: float) -> None:
    task, L, mu_f, mu_psi = problem(strong, loss)
    tau = part * 4 * max(mu_f, mu_psi) / (9 * L**2)
    slopes, x_star = slope_table_of(task, NONE, np.empty(0)), rs.theory.solve(task)
    target = x_star - tau * task.gradient(x_star)
    z, bound = np.full(3, 2.0), rho(tau, L, mu_f, mu_psi)
    distances = []
    for t in range(400):
        p = task.prox(z, tau)
        h, state = (p - z) / tau, slopes.start(p)
        y, visits = p.copy(), np.random.default_rng(t).permutation(9).astype(np.uint32)
        q = state.g - h
        slopes.block(state._replace(q=q), y, visits, 0, 9, tau / 9)
        z = y - tau * q - tau * h
        distances.append(float(np.linalg.norm(z - target)))
    for before, after in pairwise(distances):
        if before > 1e-9:
            assert after <= bound * before * (1 + 1e-9)
    assert distances[0] > 0.1


@pytest.mark.parametrize(("strong", "loss"), CASES)
@pytest.mark.parametrize("part", [1.0, 0.3])
def test_remembered_slopes(strong: str, loss: Any, part: float) -> None:
    """The kernel's own epoch; where each sample was seen is followed beside it."""
    task, L, mu_f, mu_psi = problem(strong, loss)
    mu = max(mu_f, mu_psi)
    tau = part * mu / (24 * L**2)
    gamma, slopes = tau / 9, slope_table_of(task, NONE, np.empty(0))
    x_star = rs.theory.solve(task)
    target = x_star - tau * task.gradient(x_star)
    state, seen = slopes.start(np.full(3, 2.0)), np.full((9, 3), 2.0)
    values = []
    for t in range(300):
        visits = np.random.default_rng(t).permutation(9).astype(np.uint32)
        x, q = state.x.copy(), state.q.copy()  # q = g - h
        for i in visits:
            new, old = (task.component(int(i), at) for at in (x, seen[i]))
            seen[i] = x
            x = x - gamma * (new - old + q)
        h = state.g - q
        z = x - tau * h
        state = slopes.epoch(state, visits, np.array([gamma]))
        np.testing.assert_allclose(state.x, task.prox(z, tau), atol=1e-12)
        spread = np.linalg.norm(state.x - seen, axis=1).max()
        values.append(float(np.linalg.norm(z - target) + tau * mu / 16 * spread))
    for before, after in pairwise(values):
        if before > 1e-9:
            assert after <= (1 - 0.5 * tau * mu) * before * (1 + 1e-9)
    assert values[0] > 0.1


@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.Squared()])
def test_a_fixed_point_of_remembered_slopes_is_a_minimiser(loss: Any) -> None:
    """And the minimiser is a fixed point, for every step and every number of blocks."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 4)), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    task = rs.Problem(X, y, loss, rs.penalties.ElasticNet(0.02, 0.1))
    slopes, x_star = slope_table_of(task, NONE, np.empty(0)), rs.theory.solve(task)
    for gamma in (0.01, 0.3):
        for blocks in (1, 3):
            after = slopes.epoch(
                slopes.start(x_star), np.arange(12, dtype=np.uint32), np.full(blocks, gamma)
            )
            for found, value in zip(after[:4], slopes.start(x_star)[:4], strict=True):
                np.testing.assert_allclose(found, value, atol=1e-10)
    away = slopes.start(x_star + 0.1)
    moved = slopes.epoch(away, np.arange(12, dtype=np.uint32), np.full(1, 0.01))
    assert np.linalg.norm(moved.x - away.x) > 1e-4
