"""Conjugates: Fenchel's inequality for every loss and penalty that has one, and where it is tight."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import LOSSES

import reshuffle as rs
from reshuffle.solvers.certificate import certificate_of

pytestmark = pytest.mark.usefixtures("vanishing")

numbers = st.floats(-20, 20)
SCALAR = {
    name: loss
    for name, loss in LOSSES.items()
    if not loss.vector and type(loss).conjugate is not None
}
DUAL: dict[str, Any] = {
    "l1": rs.penalties.L1(0.7),
    "l2": rs.penalties.L2(1.3),
    "elastic_net": rs.penalties.ElasticNet(0.7, np.array([1.0, 0.0, 2.0, 0.0])),
    "box": rs.penalties.Box(-1.0, np.array([0.5, 2.0, 3.0, -0.5])),
    "non_negative": rs.penalties.NonNegative(0.3, 0.1),
    "group_lasso": rs.penalties.GroupLasso(0.6, groups=[0, 1, 0, 1]),
    "l1_ball": rs.penalties.L1Ball(1.5),
}


def _with(function: Any, params: tuple[float, ...], z: float, y: float) -> float:
    return float(function(z, y, *params))


@pytest.mark.parametrize("name", SCALAR)
@given(z=numbers, other=numbers, scale=st.floats(0, 1), data=st.data())
def test_losses(name: str, z: float, other: float, scale: float, data: st.DataObject) -> None:
    """l(z) + l*(s) ≥ sz for slopes s (scaled too), with equality at s = l'(z)."""
    loss = SCALAR[name]
    y = data.draw(st.sampled_from([-1.0, 1.0]) if loss.targets == "signs" else numbers)
    value, derivative, conjugate = (
        partial(_with, f, loss.params)
        for f in (type(loss).value, type(loss).derivative, type(loss).conjugate)
    )
    slope = derivative(z, y)
    assert np.isclose(value(z, y) + conjugate(slope, y), slope * z, rtol=1e-9, atol=1e-7)
    s = scale * derivative(other, y)
    assert value(z, y) + conjugate(s, y) >= s * z - 1e-7


@given(z=arrays(float, 4, elements=numbers), other=arrays(float, 4, elements=numbers), y=st.integers(0, 3), scale=st.floats(0, 1))  # fmt: skip
def test_multinomial(z: Any, other: Any, y: int, scale: float) -> None:
    loss = rs.losses.Multinomial
    slope = loss.derivative(z.copy(), y)
    assert np.isclose(loss.value(z, y) + loss.conjugate(slope, y), slope @ z, atol=1e-7)
    s = scale * loss.derivative(other.copy(), y)
    assert loss.value(z, y) + loss.conjugate(s, y) >= s @ z - 1e-7


@pytest.mark.parametrize("name", DUAL)
@given(u=arrays(float, 4, elements=numbers), g=arrays(float, 4, elements=numbers))
def test_penalties(name: str, u: Any, g: Any) -> None:
    """ψ(x) + ψ*(αg) ≥ α⟨g, x⟩ for the scaled g, with equality at a subgradient."""
    penalty = DUAL[name]
    x = penalty.prox(u, 1.0)  # u - x is then a subgradient at x
    scale = penalty.dual_scale(g)
    assert 0 <= scale <= 1
    conjugate = penalty.conjugate(scale * g)
    assert np.isfinite(conjugate)
    assert penalty.value(x) + conjugate >= scale * (g @ x) - 1e-9 * (1 + abs(g @ x))
    subgradient = (u - x) * (1 - 1e-9)
    both = penalty.value(x) + penalty.conjugate(subgradient)
    assert np.isclose(both, subgradient @ x, rtol=1e-6, atol=1e-6)


def test_ridge_joins_the_conjugate() -> None:
    g = np.array([3.0, -0.5, 2.0])
    assert (
        rs.penalties.L1(1.0).conjugate(g, ridge=2.0)
        == rs.penalties.ElasticNet(1.0, 2.0).conjugate(g)
        == (4 + 1) / 4
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_a_gap_of_softmax_with_an_intercept(weighted: bool) -> None:
    """The balanced slopes are p - e_y with probabilities p and add up to zero; the gap bounds P - P*."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 4
    weights = rng.random(60) * (rng.random(60) < 0.8) + 0.01 if weighted else None
    problem = rs.Problem(
        X, y, rs.losses.Multinomial(), rs.penalties.ElasticNet(0.01, 0.02),
        sample_weight=weights, fit_intercept=True,
    )  # fmt: skip
    measure, fit = certificate_of(problem), problem.datafit
    assert measure.name == "gap"
    best = rs.ExactProxRR(tol=1e-13).solve(problem)
    least = problem.objective(best.x)
    for size in (0.0, 1e-6, 0.1, 10.0):
        x = best.x + size * rng.standard_normal(best.x.shape)
        slopes = rs.losses.Multinomial.balanced(fit.slopes(x)[0], fit.targets, fit.weights)
        p = slopes.copy()
        p[np.arange(60), y] += 1.0
        assert p.min() > -1e-15
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        w = fit.weights if weighted else np.ones(60)
        np.testing.assert_allclose(w @ slopes, 0.0, atol=1e-13)
        assert measure.at(x) * np.log(4.0) >= problem.objective(x) - least - 1e-12
    assert measure.at(best.x) < 1e-9
