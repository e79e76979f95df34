"""Every loss: derivative, curvature, convexity, large margins; a user's own; no stale code."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from math import exp, log, log1p, tanh
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.code_identity import code_parts
from reshuffle.losses import Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge

Array = NDArray[np.float64]

CLASSES = 3
BUILT_IN: list[Loss] = [example for kind in rs.losses.LOSSES for example in kind.examples()]
LOSSES = [*BUILT_IN, Huber(0.05), Huber(20.0)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
BOUNDED = [loss for loss in LOSSES if loss.curvature < np.inf]
bounded = pytest.mark.parametrize("loss", BOUNDED, ids=repr)
FARTHEST = 50.0
"""Margins at which a loss without a bound is still finite."""


def value(loss: Loss, z: Array, y: Any) -> float:
    return float(type(loss).value(z if loss.vector else z[0], y, *loss.params))


def derivative(loss: Loss, z: Array, y: Any) -> Array:
    """l'(z, y) as an array: one entry, or one per output (where it overwrites its argument)."""
    return np.atleast_1d(type(loss).derivative(z.copy() if loss.vector else z[0], y, *loss.params))


def margins(loss: Loss, bound: float = 50.0) -> st.SearchStrategy[Array]:
    size = CLASSES if loss.vector else 1
    numbers = st.floats(-bound, bound, allow_subnormal=False)
    return st.lists(numbers, min_size=size, max_size=size).map(np.array)


def targets(loss: Loss) -> st.SearchStrategy[Any]:
    if loss.targets == "classes":
        return st.integers(0, CLASSES - 1)
    if loss.targets == "counts":
        return st.floats(0.0, 50.0)
    if loss.targets == "positive":
        return st.floats(0.01, 50.0)
    return st.sampled_from([-1.0, 1.0]) if loss.targets == "signs" else st.floats(-50.0, 50.0)


def steepest(loss: Loss, z: float, y: float, h: float) -> float:
    """A bound on |l''| near z for a loss without one: of such a loss it changes by a factor of at most e^(3h) there."""
    slopes = [float(derivative(loss, np.array([z + s]), y)[0]) for s in (-h, h)]
    return 2.0 * (abs(slopes[1] - slopes[0]) / (2.0 * h) + abs(slopes[0]) + 1.0)


@every_loss
@given(data=st.data())
@np.errstate(under="ignore")  # 0 is right
def test_derivative_is_that_of_the_value(loss: Loss, data: st.DataObject) -> None:
    """|(l(z + hd) - l(z - hd))/2h - ⟨l'(z), d⟩| ≤ curvature·h/2, at a kink of l' too."""
    z, y = data.draw(margins(loss)), data.draw(targets(loss))
    direction = np.random.default_rng(0).standard_normal(z.size)
    direction /= np.linalg.norm(direction)
    h = 1e-5
    up, down = value(loss, z + h * direction, y), value(loss, z - h * direction, y)
    rounding = 1e-15 * (1.0 + abs(up) + abs(down)) / h
    slope = derivative(loss, z, y) @ direction
    bend = loss.curvature if loss.curvature < np.inf else steepest(loss, float(z[0]), y, h)
    assert abs((up - down) / (2 * h) - slope) <= bend * h / 2 + rounding


@every_loss
@given(data=st.data())
@np.errstate(under="ignore")  # 0 is right
def test_convex_with_the_stated_curvature(loss: Loss, data: st.DataObject) -> None:
    """0 ≤ ⟨l'(z1) - l'(z2), z1 - z2⟩, ‖l'(z1) - l'(z2)‖ ≤ curvature·‖z1 - z2‖, and l convex."""
    if not loss.convex:
        return
    z1, z2, y = data.draw(margins(loss)), data.draw(margins(loss)), data.draw(targets(loss))
    apart, change = z1 - z2, derivative(loss, z1, y) - derivative(loss, z2, y)
    values = abs(value(loss, z1, y)) + abs(value(loss, z2, y))
    rounding = 1e-13 * (1.0 + values + np.linalg.norm(derivative(loss, z2, y) * apart))
    assert change @ apart >= -rounding
    if loss.curvature < np.inf:
        assert np.linalg.norm(change) <= loss.curvature * np.linalg.norm(apart) + 1e-13
    ends = value(loss, z1, y) + value(loss, z2, y)
    assert value(loss, (z1 + z2) / 2, y) <= ends / 2 + rounding
    # the tangent at z2 lies below
    assert value(loss, z1, y) >= value(loss, z2, y) + derivative(loss, z2, y) @ apart - rounding


@bounded
def test_curvature_is_reached(loss: Loss) -> None:
    """A bound that no margin reaches would make every step needlessly short."""
    direction = np.array([1.0, -1.0]) / np.sqrt(2) if loss.vector else np.ones(1)
    found = 0.0
    for t in np.linspace(-60.0, 3.0, 631):
        near, far = (t - 1e-4) * direction, (t + 1e-4) * direction
        change = (derivative(loss, far, 1) - derivative(loss, near, 1)) @ direction
        found = max(found, float(change) / 2e-4)
    assert found == pytest.approx(loss.curvature, rel=1e-3)


FAR = 1e4
LIMITS: list[tuple[Loss, list[float], Any, float, list[float]]] = [
    (Logistic(), [FAR], 1.0, 0.0, [0.0]),
    (Logistic(), [-FAR], 1.0, FAR, [-1.0]),
    (Logistic(), [FAR], -1.0, FAR, [1.0]),
    (Squared(), [FAR], 0.0, FAR**2 / 2, [FAR]),
    (Squared(), [-FAR], 0.0, FAR**2 / 2, [-FAR]),
    (SquaredHinge(), [FAR], 1.0, 0.0, [0.0]),
    (SquaredHinge(), [-FAR], 1.0, (FAR + 1) ** 2 / 2, [-FAR - 1]),
    (Huber(2.0), [FAR], 0.0, 2 * (FAR - 1), [2.0]),
    (Huber(2.0), [-FAR], 0.0, 2 * (FAR - 1), [-2.0]),
    (Multinomial(), [FAR, 0.0, -FAR], 0, 0.0, [0.0, 0.0, 0.0]),
    (Multinomial(), [FAR, 0.0, -FAR], 2, 2 * FAR, [1.0, 0.0, -1.0]),
    (Multinomial(), [-FAR, -FAR, -FAR], 1, float(np.log(3)), [1 / 3, -2 / 3, 1 / 3]),
]


@pytest.mark.parametrize(("loss", "z", "y", "limit", "slope"), LIMITS)
def test_exact_limits_at_large_margins(
    loss: Loss, z: list[float], y: Any, limit: float, slope: list[float]
) -> None:
    assert value(loss, np.array(z), y) == pytest.approx(limit, rel=1e-15, abs=0.0)
    np.testing.assert_allclose(derivative(loss, np.array(z), y), slope, rtol=1e-15, atol=0.0)


def by_margins(loss: Loss, Z: Array, y: Any) -> rs.Problem:
    """The problem whose margins are the rows of the unknown: f(Z) = (1/n) Σ l(z_i, y_i)."""
    return rs.Problem(np.eye(len(Z)), y, loss=loss)


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
def test_compiled_loss_is_the_python_loss(loss: Loss) -> None:
    """Also at margins of ±1e4: fast arithmetic may reorder sums, not lose infinities."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((24, CLASSES if loss.vector else 1)) * 10.0 ** rng.integers(
        -3, 5, (24, 1)
    )
    if not loss.curvature < np.inf:
        Z = np.clip(Z, -FARTHEST, FARTHEST)
    y = loss.kind.sample(24, rng)
    problem = by_margins(loss, Z, y)
    x = Z if loss.vector else Z.ravel()
    expected = np.array([derivative(loss, z, t) for z, t in zip(Z, y, strict=True)])
    gradient = problem.gradient(x).reshape(expected.shape)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient * 24, expected, rtol=1e-13, atol=1e-300)
    mean = np.mean([value(loss, z, t) for z, t in zip(Z, y, strict=True)])
    assert problem.value(x) == pytest.approx(mean, rel=1e-14)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, None, "wide"])
def test_huber_refuses_a_bad_delta(delta: Any) -> None:
    with pytest.raises(rs.InputError, match="delta must be"):
        Huber(delta)


# --- a user's own loss -------------------------------------------------------------------------


class LogCosh(Loss):
    curvature = 1.0

    @staticmethod
    def value(z: float, y: float) -> float:
        r = abs(z - y)
        return r + log1p(exp(-2.0 * r)) - log(2.0)

    @staticmethod
    def derivative(z: float, y: float) -> float:
        return tanh(z - y)


@dataclass(frozen=True, repr=False)
class Expectile(Loss):
    """tau/2·r² above the target, (1 - tau)/2·r² below it."""

    tau: float
    curvature = 1.0

    @staticmethod
    def value(z: float, y: float, tau: float) -> float:
        return 0.5 * (tau if z > y else 1.0 - tau) * (z - y) * (z - y)

    @staticmethod
    def derivative(z: float, y: float, tau: float) -> float:
        return (tau if z > y else 1.0 - tau) * (z - y)


@pytest.mark.parametrize("loss", [LogCosh(), Expectile(0.2), Expectile(0.9)], ids=repr)
def test_a_users_loss_is_solved_like_any_other(loss: Loss) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    oracle = rs.OracleProblem(
        n=20,
        dim=4,
        gradient=lambda i, x: X[i] * derivative(loss, X[i : i + 1] @ x, y[i]),
        value=lambda x: float(np.mean([value(loss, X[i : i + 1] @ x, y[i]) for i in range(20)])),
        penalty=rs.penalties.L1(0.01),
    )
    problem = rs.Problem(X, y, loss=loss, penalty=rs.penalties.L1(0.01))
    x = rng.standard_normal(4)
    assert problem.objective(x) == pytest.approx(oracle.objective(x), rel=1e-13)
    np.testing.assert_allclose(problem.gradient(x), oracle.gradient(x), rtol=1e-12)
    solver = rs.ProxRR(step=0.05, epochs=5, seed=0)
    np.testing.assert_allclose(solver.solve(problem).x, solver.solve(oracle).x, rtol=1e-11)


# --- never stale code --------------------------------------------------------------------------

LOSS = """
import numba
from reshuffle.losses import Loss

SCALE = 3.0

@numba.njit
def stretch(r):
    return 5.0 * r

class Mine(Loss):
    curvature = 1.0

    @staticmethod
    def value(z, y):
        return 0.0

    @staticmethod
    def derivative(z, y):
        return 1.0 + SCALE * 10.0 + stretch(100.0)
"""
RUN = """
import numpy as np
import reshuffle as rs
from mine import Mine

problem, x = rs.Problem(np.eye(1), [0.0], loss=Mine()), np.zeros(1)
problem.sweep(x, np.zeros(1, dtype=np.uint32), -1.0)
print(x[0])
"""


def run_in_new_process(folder: Path, loss: str) -> float:
    """x after one step of size -1: the slope of the loss."""
    (folder / "mine.py").write_text(loss)
    # -B: no bytecode files, whose check for edits is no finer than a second
    command = [sys.executable, "-B", "-c", RUN]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_an_edit_of_a_loss_is_seen(tmp_path: Path) -> None:
    assert run_in_new_process(tmp_path, LOSS) == 531.0
    for old, new, slope in (
        ("return 1.0 +", "return 2.0 +", 532.0),  # the loss itself
        ("SCALE = 3.0", "SCALE = 4.0", 541.0),  # a constant that it reads
        ("5.0 * r", "6.0 * r", 631.0),  # a function that it calls
    ):
        assert run_in_new_process(tmp_path, LOSS.replace(old, new)) == slope


STAMPED = """
import math, types
import numpy as np

other = types.ModuleType("other")
other.SHIFT = 1.0
other.lift = lambda r: 7.0 * r
PAIR = (1.0, 2.0)
SHORT = np.array([1.0, 2.0])
LONG = np.arange(5000.0)
LONG[2500] = 1.0
INNER = 8.0

def base(r):
    return 9.0 * r

def helper(r):
    return base(r)

def derivative(z, y, factor=10.0):
    inner = lambda r: INNER * r
    first = math.exp(z) + other.SHIFT + other.lift(y) + inner(z) + helper(z)
    return first + factor + PAIR[1] + SHORT[0] + LONG[2500]
"""


def identity(source: str) -> list[str]:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return list(code_parts(namespace["derivative"]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("math.exp(z)", "math.exp(y)", id="code"),
        pytest.param("math.exp(z)", "math.log(z)", id="builtin"),
        pytest.param("9.0 * r", "9.5 * r", id="function of a function"),
        pytest.param("factor=10.0", "factor=11.0", id="default"),
        pytest.param("(1.0, 2.0)", "(1.0, 2.5)", id="tuple"),
        pytest.param("INNER = 8.0", "INNER = 8.5", id="constant of an inner function"),
        pytest.param("SHIFT = 1.0", "SHIFT = 1.5", id="constant of another module"),
        pytest.param("7.0 * r", "7.5 * r", id="function of another module"),
        pytest.param("[1.0, 2.0]", "[1.0 + 1e-12, 2.0]", id="last digits of an array"),
        pytest.param("LONG[2500] = 1.0", "LONG[2500] = 2.0", id="middle of a long array"),
    ],
)
def test_the_identity_of_a_function_sees_every_edit(old: str, new: str) -> None:
    assert identity(STAMPED) == identity(STAMPED)
    edited = STAMPED.replace(old, new)
    assert edited != STAMPED
    assert identity(edited) != identity(STAMPED)


def test_a_loss_redefined_in_one_process_is_compiled_anew() -> None:
    """As in a notebook: the same name, other code."""
    source = """
class Mine(Loss):
    curvature = 1.0
    value = staticmethod(lambda z, y: 0.0)
    derivative = staticmethod(lambda z, y: 2.0)
"""
    for slope in (2.0, 3.0):
        namespace: dict[str, Any] = {"Loss": Loss}
        exec(source.replace("2.0", str(slope)), namespace)
        problem = rs.Problem(np.eye(1), [0.0], loss=namespace["Mine"]())
        assert problem.gradient(np.zeros(1))[0] == slope
