"""exp, log and log1p of the kernels against those of extended precision; what rests on how fast a loss bends."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.core import native
from reshuffle.losses import LOSSES

RNG = np.random.default_rng(0)
MANY = 20_000
NAMES = ("exp", "exp alone", "log", "log1p")
INPUTS = {
    "exp alone": (3.0 * RNG.standard_normal(MANY), RNG.uniform(-745.0, 709.78, MANY)),
    "exp": (3.0 * RNG.standard_normal(MANY), RNG.uniform(-707.0, 709.78, MANY)),
    "log": (RNG.random(MANY), np.exp(RNG.uniform(-708.0, 709.0, MANY)), 1.0 + RNG.uniform(-1e-3, 1e-3, MANY)),
    "log1p": (RNG.random(MANY), 10.0 ** RNG.uniform(-300.0, 0.0, MANY), RNG.uniform(0.414, 0.4145, MANY)),
}  # fmt: skip
CURVED = [loss for loss in LOSSES if loss.self_concordance < np.inf]


def in_a_loop(name: str) -> Any:
    """As a pass has it: several at a time."""

    def loop(x: Any) -> Any:
        out = np.empty_like(x)
        native.elementary(name, x, out)
        return out

    return loop


@pytest.mark.parametrize("name", NAMES)
def test_two_units_in_the_last_place(name: str) -> None:
    own = in_a_loop(name)
    for x in INPUTS[name]:
        true = getattr(np, name.split()[0])(x.astype(np.longdouble))
        off = np.abs(own(x) - true) / np.spacing(np.abs(true.astype(np.float64)))
        assert off.max() <= 2.0


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_stays_so(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, -2.0, 710.0, -800.0, 1e308])
    if name == "log1p":  # it is asked between 0 and 1 alone
        x = np.array([np.nan, 0.0, 5e-324, 1.0])
    with np.errstate(all="ignore"):
        expected = getattr(np, name.split()[0])(x)
    np.testing.assert_allclose(in_a_loop(name)(x), expected, rtol=1e-15)


def test_below_the_smallest_normal_number() -> None:
    tiny, x = np.finfo(float).tiny, np.array([-707.5, -745.0])
    assert (in_a_loop("exp")(x) == 0.0).all()
    assert in_a_loop("log")(np.array([tiny / 1024]))[0] == pytest.approx(math.log(tiny))


@given(st.floats(1e-12, 1e12), st.floats(1e-30, 1e6), st.floats(1e-3, 1e3))
def test_a_share_of_the_curvature_is_left(curvature: float, cap: float, bend: float) -> None:
    """2(e^-t + t - 1)/t² ≥ share at t = M·radius, and the radius is more than the model's reach."""
    share, radius = native.kept_within(curvature, cap, bend)
    if share == 0.0:
        assert radius == np.inf
        return
    assert radius >= 2.0 * math.sqrt(2.0 * cap / (share * curvature))
    t = np.longdouble(bend * radius)
    left = (
        2.0 * (np.expm1(-t) + t) / t**2 if t > 1e-3 else 1.0 - t / 3.0 + t**2 / 12.0 - t**3 / 60.0
    )
    assert share <= left * (1.0 + 1e-9)


@pytest.mark.parametrize("loss", CURVED, ids=lambda loss: loss.__name__)
def test_how_fast_a_loss_bends(loss: Any) -> None:
    """|l'''| ≤ M·l''; along a direction with range r, |l'''| ≤ M·r·l'' of a vector loss."""
    h, z = 1e-4, RNG.uniform(-8.0, 8.0, 400)
    if not loss.vector:
        y = np.where(RNG.random(400) < 0.5, -1.0, 1.0) if loss.targets == "signs" else np.ones(400)
        own = loss().params
        low, here, high = (
            [loss.second(a + s, b, *own) for a, b in zip(z, y, strict=True)] for s in (-h, 0.0, h)
        )
        third = (np.array(high) - low) / (2.0 * h)
        assert (np.abs(third) <= loss.self_concordance * np.array(here) * (1.0 + 1e-6)).all()
        return
    for _ in range(50):
        at, v = RNG.uniform(-4.0, 4.0, 5), RNG.standard_normal(5)
        v /= np.ptp(v)

        def along(t: float, at: Any = at, v: Any = v) -> float:
            p = loss.second(at + t * v, 0)
            return float(p @ v**2 - (p @ v) ** 2)

        third = (along(h) - along(-h)) / (2.0 * h)
        assert abs(third) <= loss.self_concordance * along(0.0) * (1.0 + 1e-6)


@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.Poisson()], ids=repr)
@pytest.mark.parametrize("n", [3, 9, 17, 33, 70])
def test_bits_do_not_depend_on_where_arrays_lie(loss: Any, n: int) -> None:
    """A loop that is compiled in two ways, and looks at addresses to choose, must round alike in both."""
    problem = rs.Problem(RNG.standard_normal((n, 3)), 1.0 + (np.arange(n) % 2), rs.losses.Squared())
    fit, x = replace(problem.datafit, loss=loss), RNG.standard_normal(3)

    def run(apart: int) -> list[Any]:
        room = np.zeros(7 * (n + apart))
        places = [room[k * (n + apart) :][:n] for k in range(7)]
        margins, slopes, curvatures, low, factors, radius, shares = places
        g = np.zeros(3)
        value = native.linearise(fit.core, x, 0, n, 1.0 / n, margins, slopes, curvatures, g, 0.0)
        native.lower(fit.core, 1.0, margins, slopes, curvatures, 1e-6, low, factors, radius, shares)
        return [value, g, *places]

    far = run(5000)
    for apart in range(0, 80, 3):
        for found, expected in zip(run(apart), far, strict=True):
            np.testing.assert_array_equal(found, expected)
