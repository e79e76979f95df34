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

numbers = st.floats(-20, 20)
SCALAR = {name: loss for name, loss in LOSSES.items() if not loss.vector}
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
    value, derivative, conjugate = (partial(_with, f, loss.params) for f in loss.functions)
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
