"""The compiled steps with clipped gradients against the plain ones, and against rows made to break the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.datafit import Steps
from reshuffle.objective import FiniteSum, clipped

Array = NDArray[np.float64]


def steps_of(problem: FiniteSum, x: Array, sweep: Any, noise: Array, **settings: Any) -> Array:
    """x after a few batches of different lengths, one of them empty."""
    rows = iter(noise)

    def drawn(count: int) -> Array:
        return np.array([next(rows) for _ in range(count)])

    visits = np.random.default_rng(1).permutation(problem.n).astype(np.uint32)
    ends = np.array([3, 3, 7, problem.n])
    model = x.copy()
    sweep(problem, model, visits, ends, 0.3, average=0.2, noise=drawn, share=3.0, **settings)
    return model


def silence(problem: FiniteSum) -> Any:
    return lambda count: np.zeros((count, *problem.shape))


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, np.float32])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("prox_step", [0.0, 0.05])
@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.Squared(), rs.losses.Huber()])
def test_compiled_steps_are_the_plain_ones(
    layout: Any, intercept: bool, prox_step: float, loss: Any
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 4)), np.sign(rng.normal(size=12))
    problem = rs.Problem(
        layout(X), y, loss=loss, penalty=rs.penalties.L1(0.1), ridge=0.3, fit_intercept=intercept,
        sample_weight=rng.uniform(0.5, 3.0, size=12), offset=rng.normal(size=12),
    )  # fmt: skip
    x, noise = rng.normal(size=problem.shape), rng.normal(size=(4, *problem.shape))
    more: dict[str, Any] = {"clip": 0.7, "prox_step": prox_step}
    fast = steps_of(problem, x, type(problem).clipped_sweep, noise, **more)
    plain = steps_of(problem, x, FiniteSum.clipped_sweep, noise, **more)
    np.testing.assert_allclose(fast, plain, rtol=1e-6 if layout is np.float32 else 1e-12)


@pytest.mark.parametrize("intercept", [False, True])
def test_several_outputs_are_clipped_together(intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 4)), np.arange(12) % 3
    problem = rs.Problem(
        X, y, loss=rs.losses.Multinomial(), penalty=rs.penalties.L1(0.1), ridge=0.2,
        fit_intercept=intercept,
    )  # fmt: skip
    x, noise = rng.normal(size=problem.shape), rng.normal(size=(4, *problem.shape))
    fast = steps_of(problem, x, type(problem).clipped_sweep, noise, clip=0.3)
    plain = steps_of(problem, x, FiniteSum.clipped_sweep, noise, clip=0.3)
    np.testing.assert_allclose(fast, plain, rtol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-160, 1e-3, 1.0, 1e3, 1e160, 1e307])
@pytest.mark.parametrize("target", [1.0, 1e200, -1e300])
@pytest.mark.parametrize("weight", [1.0, 1e8])
def test_no_sample_moves_the_model_by_more_than_the_clip(
    intercept: bool, size: float, target: float, weight: float
) -> None:
    """Huge rows, zero rows, huge targets and weights; the intercept counts as a part of the gradient."""
    X, y = np.full((2, 3), size), np.array([target, 1.0])
    problem = rs.Problem(
        X, y, loss=rs.losses.Squared(), fit_intercept=intercept,
        sample_weight=np.array([weight, 1.0]),
    )  # fmt: skip
    x = np.zeros(problem.shape)
    visits, ends = np.zeros(1, dtype=np.uint32), np.array([1])
    with np.errstate(over="ignore"):
        problem.clipped_sweep(
            x, visits, ends, 1.0, average=1.0, clip=0.5, noise=silence(problem), share=1.0
        )
    assert np.isfinite(x).all()
    assert np.linalg.norm(x) <= 0.5 * (1 + 1e-12)


def test_a_gradient_that_is_no_number_counts_as_zero() -> None:
    """Poisson's slope overflows far out; were it kept, one sample could make the model NaN."""
    problem = rs.Problem(np.full((1, 2), 1e3), np.ones(1), loss=rs.losses.Poisson())
    x = np.full(2, 1e3)
    before = x.copy()
    one = np.zeros(1, dtype=np.uint32), np.array([1])
    problem.clipped_sweep(x, *one, 1.0, average=1.0, clip=0.5, noise=silence(problem), share=1.0)
    assert np.linalg.norm(x - before) <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize(
    "vector",
    [[0.0, 0.0], [3.0, 4.0], [1e300, 1e300], [np.inf, 1.0], [1e-300, 0.0], [-np.inf, np.inf]],
)
def test_clipped_vectors_are_no_longer_than_the_bound(vector: list[float]) -> None:
    found = clipped(np.array(vector), 2.0)
    assert np.linalg.norm(found) <= 2.0 * (1 + 1e-12)
    if np.abs(vector).max() <= 1.0:
        assert found.tolist() == vector


def test_the_core_refuses_batches_that_do_not_fit() -> None:
    problem = rs.Problem(np.eye(3), np.ones(3), loss=rs.losses.Squared())
    fit: Any = problem.datafit
    visits = np.arange(3, dtype=np.uint32)
    for ends, clip, noise in (
        ([2], 1.0, np.zeros((1, 3))),
        ([4], 1.0, np.zeros((1, 3))),
        ([2, 1, 3], 1.0, np.zeros((3, 3))),
        ([-1, 3], 1.0, np.zeros((2, 3))),
        ([3], 0.0, np.zeros((1, 3))),
        ([3], 1.0, np.zeros((1, 2))),
    ):
        with pytest.raises(ValueError, match=r"batch|bound|noise"):
            fit.clipped_sweep(
                np.zeros(3), visits, np.array(ends), Steps(0.1), clip, lambda _, found=noise: found
            )
