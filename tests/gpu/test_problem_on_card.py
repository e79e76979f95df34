"""``ExactProxRR(device="cuda")`` on a graphics card, against the processor. The command for a computer that has one and CuPy:

pytest -n 0 tests/gpu
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gpu_cases import missing_card

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import CudaDevice

pytestmark = pytest.mark.skipif(bool(missing_card()), reason=missing_card() or "there is a card")


def problem_of(
    n: int = 30_000, d: int = 200, stored: int = 20, number: str = "float64", loss: Any = None, uneven: bool = False,
    **more: Any,
) -> rs.Problem:  # fmt: skip
    rng = np.random.default_rng(d + stored)
    X: Any = sp.random(n, d, density=min(stored / d, 1.0), format="csr", rng=rng)
    X.data[:] = rng.normal(size=X.nnz)
    if uneven:
        X = sp.csr_matrix(X @ sp.diags(10.0 ** rng.uniform(-4, 4, d)))
    z = X @ (rng.normal(size=d) / np.maximum(np.sqrt(np.asarray(X.power(2).mean(0)).ravel()), 1e-9))
    y = np.where(z / np.std(z) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    if loss is not None and loss.targets == "counts":
        y = rng.poisson(2.0, n).astype(float)
    if stored == d:
        X = X.toarray()
    more = {"penalty": rs.penalties.L1(1e-3)} | more
    return rs.Problem(X.astype(number), y, loss=loss, **more)


def check_solution(problem: rs.Problem, tol: float = 1e-9) -> None:
    found = rs.ExactProxRR(tol=tol, device="cuda").solve(problem)
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert found.converged, found.message
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert -1e-11 <= above / problem.datafit.at_zero <= tol


@pytest.mark.parametrize("number", ["float32", "float64"])
@pytest.mark.parametrize(
    ("d", "stored"), [(5, 5), (64, 64), (65, 65), (256, 256), (333, 333), (1500, 1500), (200, 20), (1000, 20), (500, 100), (4000, 40)],
)  # fmt: skip
def test_a_pass_is_that_of_the_core(d: int, stored: int, number: str) -> None:
    problem = problem_of(3000, d, stored, number, fit_intercept=True, offset=np.linspace(-1, 1, 3000), sample_weight=np.linspace(1, 2, 3000))  # fmt: skip
    there, fit = DeviceProblem.of(problem, CudaDevice()), problem.datafit
    x = np.random.default_rng(0).normal(size=problem.shape) / np.sqrt(stored)
    assert there.value(x) == pytest.approx(problem.value(x), rel=1e-12)
    np.testing.assert_allclose(there.gradient(x), problem.gradient(x), rtol=0, atol=1e-11)
    slopes, _ = fit.slopes(x)
    found, _ = there.datafit.slopes(x)
    np.testing.assert_allclose(there.datafit.device.get(found), slopes, rtol=0, atol=1e-12)
    assert there.datafit.conjugates(found, 0.7) == pytest.approx(fit.conjugates(slopes, 0.7))
    np.testing.assert_allclose(there.datafit.column_squares, fit.column_squares, rtol=1e-9)
    assert there.gradient(x).tobytes() == there.gradient(x).tobytes()
    chosen = np.arange(0, 3000, 7)
    part, wanted = there.datafit.take(chosen), fit.take(chosen.astype(np.uint32))
    assert part.at(x).value * part.n == pytest.approx(wanted.value(x), rel=1e-12)
    if d <= 1500:
        dense = problem.rows.values if problem.rows.dense else sp.csr_matrix(tuple(problem.rows), shape=(3000, d)).toarray()  # fmt: skip
        rows = np.hstack([dense.astype(np.float64), np.ones((3000, 1))])
        z = rows @ x + fit.offsets
        bend = fit.weights / (2.0 + 2.0 * np.cosh(z))
        np.testing.assert_allclose(
            there.datafit.hessian(x), rows.T @ (rows * bend[:, None]) / 3000, rtol=0, atol=1e-11
        )


@pytest.mark.parametrize(
    "loss",
    [rs.losses.Logistic(), rs.losses.Squared(), rs.losses.Huber(0.7), rs.losses.SquaredHinge(), rs.losses.Quantile(0.3, 0.5), rs.losses.Poisson()],
    ids=str,
)  # fmt: skip
def test_every_loss_of_one_output(loss: Any) -> None:
    check_solution(problem_of(loss=loss, n=4000, d=50, penalty=rs.penalties.ElasticNet(1e-2, 1e-3)))


@pytest.mark.parametrize("penalty", [rs.penalties.L1(1e-3), rs.penalties.L2(1e-2), rs.penalties.GroupLasso(0.01, groups=[[0, 1, 2], *[[j] for j in range(3, 200)]])], ids=str)  # fmt: skip
def test_penalties_with_an_intercept_and_weights(penalty: Any) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 30_000)
    check_solution(
        problem_of(penalty=penalty, fit_intercept=True, ridge=1e-3, sample_weight=weights)
    )


def test_columns_of_different_sizes() -> None:
    check_solution(problem_of(uneven=True, penalty=rs.penalties.ElasticNet(1e-3, 1e-3)), 1e-6)


@pytest.mark.parametrize("stored", [20, 200])
def test_tall_sets_begin_with_samples(stored: int) -> None:
    problem = problem_of(400_000 if stored == 20 else 150_000, 200, stored, "float32")
    check_solution(problem, 1e-6)
    check_solution(problem, 1e-9)


def test_arrays_of_the_card_are_used_where_they_lie() -> None:
    import cupy
    import cupyx.scipy.sparse
    import torch

    problem = problem_of(5000, 30, 30, "float32")
    X, y = problem.rows.values, problem.targets
    wanted = rs.ExactProxRR(tol=1e-10).solve(problem).x
    here = cupy.asarray(X)
    tensor = torch.from_numpy(np.array(X)).cuda()
    for given, pointer in ((here, here.data.ptr), (tensor, tensor.data_ptr())):
        there = DeviceProblem(given, cupy.asarray(y), penalty=rs.penalties.L1(1e-3))
        assert there.datafit.rows[0].data.ptr == pointer
        found = rs.ExactProxRR(tol=1e-10, device="cuda").solve(there)
        assert isinstance(found.x, np.ndarray)
        np.testing.assert_allclose(found.x, wanted, atol=1e-5)
    matrix = cupyx.scipy.sparse.csr_matrix(here)
    there = DeviceProblem(matrix, torch.from_numpy(np.array(y)).cuda(), penalty=rs.penalties.L1(1e-3))  # fmt: skip
    assert there.datafit.rows[0].data.ptr == matrix.data.data.ptr
    assert there.datafit.rows[1].data.ptr == matrix.indices.data.ptr
    np.testing.assert_allclose(rs.ExactProxRR(tol=1e-10).solve(there).x, wanted, atol=1e-5)


def test_runs_have_the_same_bits() -> None:
    problem = problem_of(fit_intercept=True)
    solver = rs.ExactProxRR(tol=1e-9, device="cuda")
    assert len({solver.solve(problem).x.tobytes() for _ in range(3)}) == 1
