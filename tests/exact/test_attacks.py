"""What a hostile test found, kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.solvers.exact import PHASES, Newton

both_ways = pytest.mark.parametrize("at_once", [True, False], ids=["one call", "steps"])


@both_ways
def test_intercepts_of_softmax_do_not_drift(at_once: bool) -> None:
    """f is flat along a common shift of all outputs: rounding carried x to 1e11 along it."""
    rng = np.random.default_rng(42)
    X = rng.standard_normal((40, 3))
    X[:, 2] = X[:, 0]
    y, weights = rng.integers(0, 4, 40), 10.0 ** rng.uniform(-6, 6, 40)
    problem = rs.Problem(X, y, rs.losses.Multinomial(), fit_intercept=True, sample_weight=weights)
    phases = [Newton(at_once), *PHASES[1:]]
    result = rs.ExactProxRR(tol=1e-9, phases=phases).solve(problem)
    assert np.abs(result.x).max() < 1e4
    shifted = result.x - result.x.mean(axis=1, keepdims=True)
    assert problem.objective(shifted) == pytest.approx(problem.objective(result.x), rel=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_several_outputs_on_raw_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 5)) * 10.0 ** rng.uniform(-3, 3, 5)
    Y = rng.standard_normal((30, 2)) + (X / np.abs(X).max(0)) @ rng.standard_normal((5, 2)) * 3
    weights = rng.uniform(0.1, 3, 30) if seed % 2 else None
    problem = rs.Problem(X, Y, rs.losses.Squared(), fit_intercept=True, sample_weight=weights)
    result = rs.ExactProxRR(tol=1e-9).solve(problem)
    assert result.converged
    root = np.sqrt(np.ones(30) if weights is None else weights)[:, None]
    A = np.c_[X, np.ones(30)]
    scales = np.abs(A).max(0)
    best = np.linalg.lstsq(root * A / scales, root * Y)[0] / scales[:, None]
    at_zero = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - problem.objective(best) <= 1e-9 * at_zero


def test_columns_and_starts_beyond_reason() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 5)), np.sign(rng.standard_normal(50))
    with pytest.raises(rs.InputError, match="underflow"):
        rs.ExactProxRR().solve(rs.Problem(X * 1e-170, y))
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.01))
    results = [
        rs.ExactProxRR(tol=1e-9).solve(problem, np.full(5, x0)) for x0 in (0.0, 1e155, 1e300)
    ]
    for result in results:
        assert result.converged
        np.testing.assert_allclose(result.x, results[0].x, atol=1e-4)


@pytest.mark.parametrize("start", [-800.0, 800.0])
def test_a_start_without_a_slope_is_left_for_zero(start: float) -> None:
    problem = rs.Problem(np.ones((20, 1)), np.arange(20.0), rs.losses.Poisson())
    result = rs.ExactProxRR().solve(problem, np.array([start]))
    assert result.converged
    assert result.x[0] == pytest.approx(np.log(9.5), abs=1e-4)


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch >= epoch


@pytest.mark.parametrize("eval_every", [None, 1])
@pytest.mark.parametrize("seed", range(4))
def test_runs_of_small_sets_resume_to_the_same_bits(
    seed: int, eval_every: int | None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 5)) + 3.0
    y = X[:, 0] + rng.standard_normal(60)
    problem = rs.Problem(X, y, rs.losses.Huber(0.5), rs.penalties.L1(2e-3), fit_intercept=True)
    solver = rs.ExactProxRR(tol=1e-9, eval_every=eval_every)
    ended = solver.solve(problem)

    for at in range(1, 5):
        solver.solve(problem, callbacks=[partial(stands_at, at)]).save(tmp_path / "part.npz")
        resumed = solver.solve(problem, resume=tmp_path / "part.npz")
        assert resumed.x.tobytes() == ended.x.tobytes()
        assert resumed.epoch == ended.epoch
    again = solver.solve(problem, resume=ended)
    assert again.x.tobytes() == ended.x.tobytes()


def test_an_intercept_that_rounding_takes_away_is_not_certified() -> None:
    """A column of 1e12 beside an intercept: b = b' - mᵀx keeps few digits, and P(x) with it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 5))
    y = X @ np.arange(5.0) + rng.standard_t(1.5, size=50)
    A = np.c_[X, 1e12 + 10 * X[:, 0]]
    problem = rs.Problem(A, y, rs.losses.Squared(), fit_intercept=True)
    result = rs.ExactProxRR().solve(problem)
    longer = np.longdouble
    margins = A.astype(longer) @ result.x[:-1].astype(longer) + longer(result.x[-1])
    true = float(np.mean((margins - y) ** 2) / 2)
    B = np.c_[X, np.ones(50)]
    least = float(np.mean((B @ np.linalg.lstsq(B, y)[0] - y) ** 2) / 2)
    at_zero = problem.value(np.zeros(problem.shape))
    assert not result.converged or true - least <= 1e-6 * at_zero
    assert true - least <= 0.01 * at_zero


@pytest.mark.parametrize("size", [1e-170, 1e-200])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_too_small_to_square_are_not_called_zero(size: float, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)) * size, np.where(rng.random(60) < 0.5, -1.0, 1.0)
    problem = rs.Problem(sp.csr_array(X) if sparse else X, y)
    with pytest.raises(rs.InputError, match="underflow"):
        rs.ExactProxRR().solve(problem)
