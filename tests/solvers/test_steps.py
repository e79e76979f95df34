"""Schedules: the formulas, their limits, and the theorem's requirement γ ≤ 1/L_max."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.steps import Constant, Decreasing, InverseTime, Setting


def setting(
    smoothness: float = 2.0, mu: float = 0.01, steps: int = 100, epochs: int = 50
) -> Setting:
    return Setting(smoothness, mu, 2 * mu, steps, epochs, default=1.0 / smoothness)


positive = st.floats(1e-6, 1e6)


@given(positive, positive, st.integers(1, 10_000), st.integers(1, 300))
@np.errstate(under="ignore")  # of steps next to nothing
def test_decreasing_is_clipped_and_decreases(L: float, mu: float, n: int, T: int) -> None:
    gamma = Decreasing().bind(setting(L, mu, n, T))
    values = [gamma(t) for t in range(T)]
    assert max(values) <= 1 / L * (1 + 1e-12)
    assert all(b <= a for a, b in pairwise(values))
    half = -(-T // 2)
    assert values[: half + 1] == [1 / L] * len(values[: half + 1])
    s, an = 7 * L / (4 * mu * n), 2 * mu * n
    if T > 7 * L / an and T > half + 1:
        assert np.isclose(values[-1], min(1 / L, 7 / (an * (s + T - 1 - half))), rtol=1e-12)
    elif T <= 7 * L / an * (1 - 1e-12):
        assert set(values) == {1 / L}


def test_the_schedule_of_the_text_would_exceed_the_bound() -> None:
    """7/(μn(s + t - t0)) with s = 7L/(4μn) starts near 4/L: four times what the theorem allows."""
    L, mu, n, T = 2.0, 0.01, 100, 5000
    s = 7 * L / (4 * mu * n)
    assert 7 / (mu * n * (s + 1)) > 3 / L
    gamma = Decreasing().bind(setting(L, mu, n, T))
    assert gamma(T // 2 + 1) == 1 / L


def test_inverse_time() -> None:
    gamma = InverseTime(initial=0.5, rate=2.0).bind(setting())
    assert [gamma(t) for t in (0, 1, 2)] == [0.5, 0.5 / 3, 0.1]
    limit = InverseTime().bind(setting())
    assert np.isclose(limit(10**9) * 10**9, 2 / (0.01 * 100), rtol=1e-6)
    assert InverseTime().bind(setting(mu=0.0))(1) == 0.25


def test_defaults_are_the_theory_s() -> None:
    X, y = np.array([[1.0], [4.0]]), np.array([1.0, -1.0])
    problem = rs.Problem(X, y, penalty=rs.penalties.L2(0.1))
    assert rs.ProxRR(epochs=1).solve(problem).trace["step"][-1] == 1 / 4  # L_max = ¼·16
    assert rs.ProxSGD(epochs=1).solve(problem).trace["step"][-1] == 1 / 8
    assert Constant().bind(setting())(7) == 0.5


def test_decreasing_without_strong_convexity_says_what_to_do() -> None:
    problem = rs.Problem(np.eye(2), np.array([1.0, -1.0]))
    with pytest.raises(rs.InputError, match=r"μ > 0.*strong_convexity=.*InverseTime"):
        rs.ProxRR(step=rs.steps.Decreasing()).solve(problem)
    rs.ProxRR(step=rs.steps.Decreasing(strong_convexity=0.1), epochs=2).solve(problem)


def test_a_user_s_schedule_sees_the_epoch() -> None:
    problem = rs.Problem(np.eye(2), np.array([1.0, -1.0]))
    result = rs.ProxRR(step=lambda t: 1.0 / (1 + t), epochs=3).solve(problem)
    assert result.trace["step"].tolist() == [1.0, 1.0, 0.5, 1 / 3]
    with pytest.raises(rs.InputError, match="step at epoch 2 must be a positive"):
        rs.ProxRR(step=lambda t: 1.0 if t < 2 else 0.0, epochs=5).solve(problem)
