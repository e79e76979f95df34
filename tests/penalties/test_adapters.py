"""Penalties of other libraries: a stand-in for a pyproximal operator, the real ones where they are installed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.penalties import L1, FromCvxpy, FromPyproximal

cp: Any = pytest.importorskip("cvxpy")
X, Y = rs.datasets.breast_cancer()
FEW = np.ascontiguousarray(X[:, :5])


class Operator:
    """What a pyproximal operator looks like; it works in place, as some do."""

    def __init__(self, l1: float) -> None:
        self.l1 = l1

    def __call__(self, x: Any) -> float:
        return float(self.l1 * np.abs(x).sum())

    def prox(self, x: Any, tau: float) -> Any:
        x[:] = np.sign(x) * np.maximum(np.abs(x) - tau * self.l1, 0.0)
        return x


class Orthant:
    def __call__(self, x: Any) -> bool:
        return bool(np.all(x >= 0))

    def prox(self, x: Any, tau: float) -> Any:
        return np.maximum(x, 0.0)


def with_bound(x: Any) -> Any:
    return 0.3 * cp.norm1(x), [x >= -1]


@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_an_operator_is_the_penalty_it_stands_for(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    before, penalty = x.copy(), FromPyproximal(Operator(0.2))
    np.testing.assert_array_equal(penalty.prox(x, 2.0), L1(0.2).prox(x, 2.0))
    np.testing.assert_array_equal(x, before)
    assert penalty.value(x) == pytest.approx(L1(0.2).value(x), rel=1e-15)


def test_an_indicator_answers_zero_or_infinity() -> None:
    penalty = FromPyproximal(Orthant())
    assert penalty.value(np.array([0.0, 1.0])) == 0.0
    assert penalty.value(np.array([0.0, -1.0])) == np.inf


def test_a_fit_with_an_operator() -> None:
    theirs = rs.ExactProxRR(tol=1e-9).solve(
        rs.Problem(X, Y, penalty=FromPyproximal(Operator(0.01)))
    )
    ours = rs.ExactProxRR(tol=1e-10).solve(rs.Problem(X, Y, penalty=L1(0.01)))
    assert theirs.reached
    np.testing.assert_allclose(theirs.x, ours.x, atol=1e-4)


def test_pyproximal_itself() -> None:
    pyproximal: Any = pytest.importorskip("pyproximal")
    x = np.random.default_rng(0).standard_normal((4, 3))
    np.testing.assert_allclose(
        FromPyproximal(pyproximal.L1(sigma=0.3)).prox(x, 2.0), L1(0.3).prox(x, 2.0), atol=1e-15
    )
    ball = FromPyproximal(pyproximal.EuclideanBall(0.0, 1.0))
    assert ball.value(x) == np.inf
    assert ball.value(ball.prox(x, 1.0) * (1 - 1e-12)) == 0.0


@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_a_cvxpy_expression(shape: tuple[int, ...]) -> None:
    x = 2.0 * np.random.default_rng(0).standard_normal(shape)
    exact, penalty = L1(0.3) + rs.penalties.Box(-1.0, np.inf), FromCvxpy(with_bound)
    p = penalty.prox(x, 1.5)
    np.testing.assert_allclose(p, exact.prox(x, 1.5), atol=1e-6)
    assert penalty.value(p) == pytest.approx(exact.value(exact.prox(x, 1.5)), abs=1e-6)
    assert penalty.value(np.full(shape, -2.0)) == np.inf
    np.testing.assert_array_equal(p, penalty.prox(x, 1.5))  # no warm start
    np.testing.assert_array_equal(p, pickle.loads(pickle.dumps(penalty)).prox(x, 1.5))


def test_constraints_alone_and_a_fit() -> None:
    penalty = FromCvxpy(lambda x: [cp.norm(x) <= 0.5])
    result = rs.FISTA(tol=1e-5).solve(rs.Problem(FEW, Y, penalty=penalty))
    assert result.reached
    same = rs.FISTA(tol=1e-5, epochs=5).solve(rs.Problem(FEW, Y, penalty=penalty))
    more = rs.FISTA(tol=1e-5).solve(rs.Problem(FEW, Y, penalty=penalty), resume=same)
    np.testing.assert_array_equal(more.x, result.x)  # what was compiled is no part of the problem
    ball = rs.FISTA(tol=1e-9).solve(rs.Problem(FEW, Y, penalty=rs.penalties.L2Ball(0.5)))
    np.testing.assert_allclose(result.x, ball.x, atol=1e-3)


def test_bad_parts_are_named() -> None:
    for operator in (None, lambda x: 0.0, L1(0.1)):
        with pytest.raises(rs.InputError, match="operator must be callable and have prox"):
            FromPyproximal(operator)  # type: ignore[arg-type]
    with pytest.raises(rs.InputError, match="build must be a function"):
        FromCvxpy("norm1")  # type: ignore[arg-type]
    with pytest.raises(rs.InputError, match="must be convex"):
        FromCvxpy(lambda x: -cp.norm1(x)).prox(np.ones(2), 1.0)
    with pytest.raises(rs.InputError, match="cvxpy found no prox"):
        FromCvxpy(lambda x: [x >= 1, x <= 0]).prox(np.ones(2), 1.0)
