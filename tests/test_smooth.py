"""Softmax with a ridge on more than a small set: quasi-Newton steps, and Newton's where these take too long."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reshuffle as rs
from reshuffle.solvers.smooth import is_smooth


@pytest.fixture(scope="module", params=["standardised", "raw"])
def digits(request: Any) -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    if request.param == "standardised":
        X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
    return np.ascontiguousarray(X[:600]), y[:600]


def test_the_minimiser_is_that_of_scikit_learn(digits: tuple[Any, Any]) -> None:
    X, y = digits
    problem = rs.Problem(X, y, rs.losses.Multinomial(), ridge=1 / 600, fit_intercept=True)
    assert is_smooth(problem)
    result = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert result.trace["gap"][-1] <= 1e-11
    peer = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(result.x[:-1].T, peer.coef_, atol=1e-5)
    for tol in (1e-3, 1e-6):
        loose = rs.ExactProxRR(tol=tol).solve(problem)
        assert loose.converged
        best, at_zero = problem.objective(result.x), problem.value(np.zeros(problem.shape))
        assert (problem.objective(loose.x) - best) / at_zero <= loose.trace["gap"][-1] + 1e-13


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def test_the_same_bits_after_a_resume(digits: tuple[Any, Any]) -> None:
    X, y = digits
    problem = rs.Problem(X, y, rs.losses.Multinomial(), ridge=1 / 600, fit_intercept=True)
    solver = rs.ExactProxRR(tol=1e-9, eval_every=1)
    whole = solver.solve(problem)
    for at in (3, 6, 7):
        part = solver.solve(problem, callbacks=[partial(stands_at, at)])
        assert solver.solve(problem, resume=part).x.tobytes() == whole.x.tobytes()


def test_who_is_smooth() -> None:
    X, y = load_digits(return_X_y=True)
    penalties = {rs.penalties.Zero(): True, rs.penalties.L2(0.1): True, rs.penalties.L1(0.1): False}
    for penalty, smooth in penalties.items():
        problem = rs.Problem(X, y, rs.losses.Multinomial(), penalty)
        assert is_smooth(problem) == smooth
    assert not is_smooth(rs.Problem(X, np.sign(y - 4.5), penalty=rs.penalties.L2(0.1)))
