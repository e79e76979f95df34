"""``ExactProxRR(device=...)``: its kernels compiled for the processor, against the core."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import runner
from gpu_cases import LOSSES
from host_device import COMPILER, HostDevice
from oracles import random_data, sparse

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.device_problem import DeviceProblem
from reshuffle.rows import Rows
from reshuffle.solvers.exact import device_newton

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not there")


@pytest.fixture(scope="module")
def device() -> HostDevice:
    return HostDevice()


def problem_of(
    loss: Any = None, layout: Any = sparse, n: int = 300, penalty: Any = None, **settings: Any
) -> rs.Problem:
    loss = loss or rs.losses.Logistic()
    X, y = random_data(loss, n=n)
    return rs.Problem(layout(X), y, loss=loss, penalty=penalty or rs.penalties.L1(0.01), **settings)


WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, 300)


def ones(X: Any) -> Any:
    return sparse((X > 0.5).astype(float))


def single(X: Any) -> Any:
    return np.asarray(X, dtype=np.float32)


def uneven(X: Any) -> Any:
    """Columns of very different sizes."""
    return sparse(X * 10.0 ** np.arange(-6, X.shape[1] - 6))


def wide(X: Any) -> Any:
    """Dense rows that all threads of a block share."""
    return np.hstack([X, np.random.default_rng(2).normal(size=(len(X), 70))])


@pytest.mark.parametrize("layout", [sparse, single, ones, uneven, wide])
def test_a_pass_is_that_of_the_core(layout: Any, device: HostDevice) -> None:
    offset = np.linspace(-1.0, 1.0, 300)
    problem = problem_of(
        layout=layout, fit_intercept=True, sample_weight=WEIGHTS, offset=offset, ridge=0.1
    )
    there, fit = DeviceProblem.of(problem, device), problem.datafit
    x = np.random.default_rng(1).normal(size=problem.shape) / np.maximum(
        1.0, np.append(np.sqrt(fit.column_squares), 1.0)
    )
    assert there.value(x) == pytest.approx(problem.value(x), rel=1e-13)
    sizes = np.append(np.sqrt(fit.column_squares), 1.0)

    def agree(found: Any, wanted: Any, scale: Any = sizes) -> None:
        np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=2e-11)

    agree(there.gradient(x), problem.gradient(x))
    slopes, mean = fit.slopes(x)
    found, other = there.datafit.slopes(x)
    agree(found, slopes, 1.0)
    agree(other, mean)
    agree(there.datafit.combined(0.5 * slopes), fit.combined(0.5 * slopes))
    assert there.datafit.conjugates(found, 0.7) == pytest.approx(fit.conjugates(slopes, 0.7))
    agree(there.datafit.column_squares, fit.column_squares, sizes[:-1] ** 2)
    agree(there.datafit.margins(x), fit.margins(x), 1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_minimiser_is_that_of_the_processor(loss: Any, device: HostDevice) -> None:
    problem = problem_of(loss, penalty=rs.penalties.ElasticNet(0.02, 0.01))
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    found = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert found.converged
    assert found.trace["gap"][-1] <= 1e-9
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert -1e-12 <= above / problem.datafit.at_zero <= 1e-9


@pytest.mark.parametrize(
    "penalty",
    [
        rs.penalties.L1(0.02),
        rs.penalties.L2(0.1),
        rs.penalties.GroupLasso(0.05, groups=[[0, 1, 2], [3, 4], [5]]),
        rs.penalties.Box(-0.1, 0.2),
        rs.penalties.FusedLasso(0.01, 0.01),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_penalties_and_an_intercept(penalty: Any, device: HostDevice) -> None:
    problem = problem_of(penalty=penalty, fit_intercept=True, ridge=0.01, sample_weight=WEIGHTS)
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    found = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert found.converged
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert -1e-11 <= above / problem.datafit.at_zero <= 1e-9


def tall() -> rs.Problem:
    """Enough rows for samples of two sizes, and a column with five entries, which they do not see."""
    rng = np.random.default_rng(3)
    n, d = 170_000, 8
    X = np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0.0)
    X[:, -1] = 0.0
    X[rng.integers(0, n, 5), -1] = 30.0
    y = np.where(X @ rng.normal(size=d) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return rs.Problem(sp.csr_matrix(X), y, penalty=rs.penalties.L1(1e-4))


def test_hessians_of_samples_lead_to_the_minimiser_of_all_rows(
    device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_newton, "WORK_PER_BYTE", 0)  # no more rows than columns ask for
    problem = tall()
    found = rs.ExactProxRR(tol=1e-10, device=device).solve(problem)
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert found.converged
    assert abs(problem.objective(found.x) - problem.objective(wanted.x)) <= 1e-10
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-4)
    assert found.trace["hessian_rows"][0] < problem.n


def test_the_same_seed_gives_the_same_bits_and_a_run_goes_on(device: HostDevice) -> None:
    problem = problem_of(ridge=0.01)
    solver = rs.ExactProxRR(tol=1e-13, device=device)
    whole = solver.solve(problem)
    first = solver.solve(problem, callbacks=[lambda so_far: so_far.epoch >= 1])
    assert not first.converged
    later = solver.solve(problem, resume=first)
    assert later.x.tobytes() == whole.x.tobytes() == solver.solve(problem).x.tobytes()


def test_without_a_dual_the_run_ends_as_stationary(device: HostDevice) -> None:
    problem = problem_of(penalty=rs.penalties.Zero())
    found = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert not found.converged
    assert "gradient mapping" in found.message
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-6)


def test_large_systems_are_solved_on_the_device(
    device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(penalty=rs.penalties.L2(0.1), fit_intercept=True)
    here = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    monkeypatch.setattr(device_newton, "SMALL", 0)
    there = rs.ExactProxRR(tol=1e-9, device=device).solve(problem)
    assert there.converged
    np.testing.assert_allclose(there.x, here.x, rtol=1e-9)


def test_a_start_far_out_is_left(device: HostDevice) -> None:
    problem = problem_of(rs.losses.Poisson(), ridge=0.1)
    found = rs.ExactProxRR(tol=1e-9, device=device).solve(problem, np.full(problem.shape, 30.0))
    assert found.converged


def test_rows_of_the_device_are_used_where_they_lie(device: HostDevice) -> None:
    X, y = random_data(rs.losses.Logistic(), n=300)
    A = sparse(X)
    rows = Rows(A.data, A.indices.astype(np.uint16), A.indptr.astype(np.uint32))
    given = DeviceProblem(
        rows, (y > 0) * 1.0, penalty=rs.penalties.L1(0.01), sample_weight=7.0 * WEIGHTS, features=A.shape[1], device=device
    )  # fmt: skip
    assert np.shares_memory(given.datafit.rows[0], A.data)
    problem = problem_of(sample_weight=WEIGHTS)
    found = rs.ExactProxRR(tol=1e-10).solve(given)
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-6)
    dense = DeviceProblem(X, y, penalty=rs.penalties.L1(0.01), device=device)
    matrix = DeviceProblem(A, y, penalty=rs.penalties.L1(0.01), device=device)
    assert dense.value(found.x) == pytest.approx(matrix.value(found.x), rel=1e-13)
    assert np.shares_memory(dense.datafit.rows[0], X)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "gpu"}, 'device must be None or "cuda"'),
        ({"device": 0}, 'device must be None or "cuda"'),
        ({"device": np.zeros(2)}, 'device must be None or "cuda"'),
        ({"device": "cuda", "step": 0.1}, "step: on a device"),
        ({"device": "cuda", "phases": ["shuffled"]}, "phases: on a device"),
        ({"device": "cuda", "finish": False}, "finish: on a device"),
        ({"device": "cuda", "threads": 2, "importance": True}, "importance, threads: on a device"),
    ],
    ids=str,
)
def test_settings_that_a_device_does_not_have_are_refused(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(rs.InputError, match=said):
        rs.ExactProxRR(**settings)


@pytest.mark.parametrize("wrong", ["cuda", 0, np.zeros(2)], ids=str)
def test_devices_that_are_none_are_refused(wrong: Any) -> None:
    X, y = random_data(rs.losses.Squared(), n=6)
    with pytest.raises(rs.InputError, match="device must be None"):
        DeviceProblem(X, y, loss=rs.losses.Squared(), device=wrong)


def test_problems_that_a_device_cannot_take_are_refused(device: HostDevice) -> None:
    X, y = random_data(rs.losses.Squared(), n=60)
    solver = rs.ExactProxRR(device=device)
    for problem, said in (
        (rs.Problem(X, np.abs(y) + 1.0, loss=rs.losses.Gamma()), "has no kernel"),
        (rs.Problem(sp.csr_matrix((60, 5000)), y, loss=rs.losses.Squared()), "at most 4000 features"),
        (rs.OracleProblem(n=2, dim=2, gradient=lambda i, x: x, value=lambda x: 0.0), "takes a Problem"),
    ):  # fmt: skip
        with pytest.raises(rs.InputError, match=said):
            solver.solve(problem)
    on_device = DeviceProblem(X, y, loss=rs.losses.Squared(), device=device)
    with pytest.raises(rs.InputError, match="use ExactProxRR"):
        rs.ProxRR().solve(on_device)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": np.ones(3)}, "X must be an array of 2 dimensions"),
        ({"X": np.ones((3, 2), dtype=int)}, "X must be float32 or float64"),
        ({"X": np.full((3, 2), np.nan)}, "X must be finite"),
        ({"y": np.ones(2)}, "y must have 3 numbers"),
        ({"y": np.array([1.0, 2.0, 1.0])}, "y must be -1 and"),
        ({"sample_weight": -np.ones(3)}, "must not be negative"),
        ({"ridge": -1.0}, "ridge must be finite"),
        ({"X": Rows(np.ones(3), np.zeros(3, np.uint16), np.arange(4))}, "features must be given"),
        ({"X": Rows(np.ones(3), np.array([0, 2**16 + 1, 0], np.uint32), np.arange(4)), "features": 2}, "column indices must lie"),
        ({"X": Rows(np.ones(3), np.array([0, -(2**16), 0], np.int32), np.arange(4)), "features": 2}, "column indices must lie"),
        ({"X": Rows(np.ones(3), np.array([0, 2**32, 0], np.uint64), np.arange(4)), "features": 2}, "column indices must lie"),
        ({"X": Rows(np.ones(3), np.array([0.0, 1.5, 0.0]), np.arange(4)), "features": 2}, "indices must be integers"),
        ({"X": Rows(np.ones(3), np.zeros(3, np.uint16), np.array([0, 1, 2, 2**32 + 3])), "features": 2}, "indptr must lie in 0 … 3"),
        ({"X": Rows(np.ones(2), np.zeros(3, np.uint16), np.arange(4)), "features": 2}, "as many values as indices"),
        ({"X": Rows(np.ones(3), np.zeros(3, np.uint16), np.arange(4)), "features": 2.5}, "features must be"),
        ({"X": Rows(np.ones(3), np.zeros(3, np.uint16), np.arange(4)), "features": 2**40}, "features must be fewer"),
        ({"features": 5}, "features must be the 2 columns"),
        ({"X": sp.csc_matrix(np.ones((3, 2)))}, "X must be a CSR matrix where it is sparse, got csc"),
        ({"X": sp.csr_matrix((3, 2))}, "X must have at least one entry"),
        ({"X": Rows(np.ones(3), np.array([0, 9, 0], np.uint16), np.arange(4)), "features": 2}, "column indices must lie"),
    ],
    ids=lambda change: str(change)[:40],
)  # fmt: skip
def test_arrays_that_kernels_would_misread_are_refused(
    change: dict[str, Any], said: str, device: HostDevice
) -> None:
    given: dict[str, Any] = {"X": np.ones((3, 2)), "y": np.array([1.0, -1.0, 1.0])}
    with pytest.raises(rs.InputError, match=said):
        DeviceProblem(**given | change, device=device)


def test_without_cupy_a_sentence_comes_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(rs.InputError, match=r'device="cuda" needs cupy: pip install'):
        rs.ExactProxRR(device="cuda").solve(problem_of())
    with pytest.raises(rs.InputError, match="DeviceProblem needs cupy"):
        DeviceProblem(np.ones((2, 2)), np.array([1.0, -1.0]))


# --- estimators and the command ------------------------------------------------------------------


def test_estimators_take_a_device(device: HostDevice) -> None:
    X, y = random_data(rs.losses.Logistic(), n=300)
    wanted = rs.RRClassifier(penalty="l1", l1=0.01).fit(X, y)
    found = rs.RRClassifier(penalty="l1", l1=0.01, device=device).fit(X, y)
    assert found.converged_
    assert found.certificate_.tol == 1e-8
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-4)
    line = rs.RRRegressor(l2=0.01, device=device).fit(X, X[:, 0])
    np.testing.assert_allclose(line.coef_, rs.RRRegressor(l2=0.01).fit(X, X[:, 0]).coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"solver": "proxrr"}, 'device needs solver="exact"'),
        ({"solver": rs.ExactProxRR()}, "give it to the solver"),
    ],
    ids=str,
)
def test_estimators_refuse_what_a_device_does_not_do(
    settings: dict[str, Any], said: str, device: HostDevice
) -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    with pytest.raises((rs.InputError, ValueError), match=said):
        rs.RRClassifier(device=device, **settings).fit(X, y)


def test_the_command_asks_for_a_card_before_it_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    missing = str(tmp_path / "nothing.csv")
    for more, said in (([], "--device cuda needs cupy"), (["--cv"], "--device is for one fit")):
        ended = runner().invoke(main, ["fit", missing, "--device", "cuda", *more])
        assert ended.exit_code == 1
        assert said in " ".join(ended.stderr.split())
