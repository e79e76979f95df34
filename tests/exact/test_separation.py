"""A P without a minimiser is told as such: separated classes and no penalty. Others are not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs
from reshuffle.penalties import Box, FusedLasso, L2Ball, NonNegative, Zero

Array = NDArray[np.float64]
ENDLESS = "P has no minimiser"


def solved(X: Array, y: Any, penalty: Any = None, loss: Any = None, **more: Any) -> rs.Result:
    problem = rs.Problem(X, y, loss or rs.losses.Logistic(), penalty or Zero(), **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return rs.ExactProxRR(tol=1e-6, epochs=100).solve(problem)


def separated(X: Array, y: Array) -> bool:
    """Whether some w, b have y(Xw + b) ≥ 1, by a linear program."""
    rows = -y[:, None] * np.column_stack([X, np.ones(len(X))])
    free = [(None, None)] * rows.shape[1]
    return bool(linprog(np.zeros(rows.shape[1]), rows, -np.ones(len(X)), bounds=free).success)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), n=st.integers(2, 14), whole=st.booleans())
def test_told_where_and_only_where_classes_are_separated(seed: int, n: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (n, 2)).astype(float) if whole else rng.standard_normal((n, 2))
    y = np.append([-1.0, 1.0], rng.choice([-1.0, 1.0], n - 2))
    told = ENDLESS in solved(X, y, fit_intercept=True).message
    assert told == separated(X, y)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_never_told_of_several_classes_that_overlap(seed: int) -> None:
    """With one row in two classes no coefficients fit both."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((9, 2)), np.arange(9) % 3
    loss = rs.losses.Multinomial()
    X[1] = X[0]
    assert ENDLESS not in solved(X, y, loss=loss, fit_intercept=True).message
    X = np.eye(3)[y] + 0.01 * X[:, :1]
    assert ENDLESS in solved(X, y, loss=loss, fit_intercept=True).message


SIDES = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("penalty", "told"),
    [
        (Zero(), True),
        (NonNegative(), True),  # the cone holds the ray
        (Box(-np.inf, np.inf), True),
        (rs.penalties.L1(0.0), True),
        (rs.penalties.L2(1e-9), False),
        (rs.penalties.L1(1e-9), False),
        (Box(-1e6, 1e6), False),
        (Box(-1.0, 1.0), False),
        (L2Ball(1e9), False),
        (FusedLasso(0.0, 1e-9), False),
    ],
    ids=repr,
)
def test_a_penalty_that_holds_the_coefficients(penalty: Any, told: bool) -> None:
    assert (ENDLESS in solved(*SIDES, penalty).message) == told


def test_a_ridge_a_hinge_and_weights_of_zero() -> None:
    X, y = SIDES
    assert ENDLESS not in solved(X, y, ridge=1e-9).message
    assert ENDLESS not in solved(X, y, loss=rs.losses.SquaredHinge()).message
    assert ENDLESS not in solved(X, np.array([-1.0, 1.0, -1.0, 1.0])).message
    weights = np.array([1.0, 0.0, 1.0, 1.0])
    assert ENDLESS in solved(X, np.array([-1.0, 1.0, 1.0, 1.0]), sample_weight=weights).message
    counts = solved(np.ones((3, 1)), np.zeros(3), loss=rs.losses.Poisson())
    assert ENDLESS in counts.message
    assert ENDLESS not in solved(np.ones((3, 1)), np.arange(3.0), loss=rs.losses.Poisson()).message


def test_estimators_say_it_once_and_in_their_summary() -> None:
    X, y = SIDES
    with pytest.warns(ConvergenceWarning, match=ENDLESS) as seen:
        model = rs.RRClassifier(penalty=None).fit(X, y)
    assert len(seen) == 1
    assert "give a penalty" in str(seen[0].message)
    assert ENDLESS in model.summary()
    assert model.converged_  # P is within tol of its infimum
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weak = rs.RRClassifier(l2=1e-9).fit(X, y)
        rs.ProxRR(epochs=3).solve(rs.Problem(X, y))  # no accuracy was asked for
    assert ENDLESS not in weak.summary()
