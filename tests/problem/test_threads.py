"""Passes on threads: the same bits on any number of them."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs


def large(layout: str, loss: Any) -> rs.Problem:
    rng = np.random.default_rng(0)
    X: Any = rng.standard_normal((30_000, 12)) * (rng.random((30_000, 12)) < 0.5)
    y = loss.kind.sample(30_000, rng)
    X = sp.csr_matrix(X) if layout == "csr" else X
    weights = rng.uniform(0.5, 2.0, 30_000)
    return rs.Problem(X, y, loss, rs.penalties.L1(1e-3), 1e-4, weights, fit_intercept=True)


@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.Multinomial()], ids=repr)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_bits_do_not_depend_on_their_number(layout: str, loss: Any) -> None:
    problem = large(layout, loss)
    one, two, five = (rs.ExactProxRR(tol=1e-8, threads=k).solve(problem) for k in (1, 2, 5))
    assert one.converged
    for other in (two, five):
        assert other.x.tobytes() == one.x.tobytes()
        assert other.trace["gap"].tobytes() == one.trace["gap"].tobytes()
    without = rs.ExactProxRR(tol=1e-8).solve(problem)
    np.testing.assert_allclose(one.x, without.x, atol=1e-3)
    assert one.trace["objective"][-1] == pytest.approx(without.trace["objective"][-1], abs=1e-7)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two"])
def test_threads_must_be_a_positive_integer(threads: Any) -> None:
    with pytest.raises(rs.InputError, match="threads must be"):
        rs.ExactProxRR(threads=threads)


def test_the_largest_strength_never_warns_whatever_other_threads_do() -> None:
    """BFGS of scipy hides a warning of its line search by the filters of the process, which other threads change."""
    rng = np.random.default_rng(0)
    sets = []
    for _ in range(12):
        n = int(rng.integers(60, 300))
        sets.append((rng.standard_normal((n, 3)), rng.integers(0, 4, n)))

    def largest(which: int) -> float:
        X, y = sets[which % len(sets)]
        loss = rs.losses.Multinomial()
        problem = rs.Problem(X, y, loss, rs.penalties.L1(1.0), fit_intercept=True)
        return problem.lambda_max()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(largest, range(48)))
    assert found[:12] * 4 == found
