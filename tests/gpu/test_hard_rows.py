"""Rows and losses that were found by random search: each was once a false claim, an error of another place, or a run without an end."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gpu_cases import devices
from host_device import HostDevice

import reshuffle as rs
from reshuffle.datasets import Conversion, convert, open_shards
from reshuffle.gpu import CudaDevice


@pytest.fixture(scope="module", params=["host", "card"])
def device(request: pytest.FixtureRequest) -> Any:
    return devices(request.param)


def outlier(size: float = 1e12, n: int = 100) -> tuple[Any, Any]:
    """Rows of which one has a very large entry, and lies far on its side: it adds nothing to slopes, but decides how they are rounded."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, 5)) < 0.5, rng.normal(size=(n, 5)), 0.0)
    X[3, 1] = size
    y = np.where(X @ [1.0, 2.0, -1.0, 0.5, 0.0] + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X, y


def is_no_false_claim(problem: rs.Problem, found: Any, tol: float) -> bool:
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    above = problem.objective(found.x) - problem.objective(wanted.x)
    return bool(not found.converged or above <= tol * problem.datafit.at_zero)


@pytest.mark.parametrize("size", [1e7, 1e9, 1e12])
@pytest.mark.parametrize("layout", [sp.csr_matrix, np.asarray], ids=["sparse", "dense"])
@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.SquaredHinge()], ids=str)
def test_large_entries_hide_no_small_ones(loss: Any, layout: Any, size: float, device: Any) -> None:
    X, y = outlier(size)
    for penalty in (rs.penalties.L1(1e-3), rs.penalties.L2(0.01), rs.penalties.Box(-1.0, 1.0)):
        problem = rs.Problem(layout(X), y, loss=loss, penalty=penalty, fit_intercept=size < 1e9)
        found = rs.ExactProxRR(tol=1e-8, device=device).solve(problem)
        assert is_no_false_claim(problem, found, 1e-8)
        assert found.converged or size > 1e10


def test_large_entries_hide_no_small_ones_in_a_stream(tmp_path: Path, device: Any) -> None:
    X, y = outlier(1e10, 2000)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    convert(tmp_path / "rows.npz", tmp_path / "shards", Conversion(shard_rows=100))
    rows, targets = open_shards(tmp_path / "shards", memory=2000)
    small = HostDevice(memory=30_000) if isinstance(device, HostDevice) else CudaDevice(memory=30_000)  # fmt: skip
    penalty = rs.penalties.L1(1e-3)
    found = rs.ExactProxRR(tol=1e-8, device=small).solve(rs.Problem(rows, targets, penalty=penalty))
    assert found.trace["disk_passes"][-1] > 1.0
    assert found.converged
    assert is_no_false_claim(rs.Problem(X, y, penalty=penalty), found, 1e-8)


def has_made(epochs: int, so_far: Any) -> bool:
    return bool(so_far.epoch >= epochs)


def test_a_run_that_needs_all_digits_goes_on(device: Any) -> None:
    X, y = outlier(1e9)
    problem = rs.Problem(sp.csr_matrix(X), y, penalty=rs.penalties.L1(1e-3))
    solver = rs.ExactProxRR(tol=1e-9, device=device)
    whole = solver.solve(problem)
    epochs = len(whole.trace["epoch"]) - 1
    for stop in range(1, epochs):
        first = solver.solve(problem, callbacks=[partial(has_made, stop)])
        assert solver.solve(problem, resume=first).x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("loss", [rs.losses.Huber(0.02), rs.losses.Quantile(0.3, 0.05)], ids=str)
@pytest.mark.parametrize("d", [5, 4100])
def test_a_start_where_the_loss_is_flat(d: int, loss: Any, device: Any) -> None:
    """All targets are far from zero, where these losses have no curvature."""
    rng = np.random.default_rng(1)
    X: Any = rng.normal(size=(60, d)) if d < 100 else sp.random(60, d, 0.02, "csr", random_state=2)
    y = X @ np.append(rng.normal(size=5), np.zeros(d - 5)) + 1e4
    strength = 0.3 * float(np.abs(X.T @ np.sign(y)).max()) / 60
    penalties = [rs.penalties.L1(strength), rs.penalties.L2(0.1), *([rs.penalties.FusedLasso(0.1, 0.1)] if d < 100 else [])]  # fmt: skip
    for penalty in penalties:
        problem = rs.Problem(X, y, loss=loss, penalty=penalty, fit_intercept=True)
        found = rs.ExactProxRR(tol=1e-6, device=device).solve(problem)
        assert found.converged, (penalty, found.message)
        assert is_no_false_claim(problem, found, 1e-6)


@pytest.mark.parametrize(
    "penalty", [rs.penalties.Simplex(1.0), rs.penalties.L2Ball(1.0), rs.penalties.FusedLasso(0.1, 0.1)], ids=lambda p: type(p).__name__
)  # fmt: skip
def test_columns_of_zeros_and_twice_the_same(penalty: Any, device: Any) -> None:
    rng = np.random.default_rng(2)
    column = rng.normal(size=30)
    y = np.where(column + 0.5 > rng.logistic(size=30), 1.0, -1.0)
    for X in (np.zeros((30, 1)), np.column_stack([column, column, np.zeros(30), np.full(30, 7.0)])):
        problem = rs.Problem(X, y, penalty=penalty, fit_intercept=True)
        found = rs.ExactProxRR(tol=1e-6, device=device).solve(problem)
        assert found.converged, found.message
        assert is_no_false_claim(problem, found, 1e-6)


def test_rows_of_zeros_without_a_dual(device: Any) -> None:
    problem = rs.Problem(np.zeros((3, 2)), np.array([1.0, -1.0, 1.0]))
    assert not rs.ExactProxRR(device=device).solve(problem).x.any()


def test_a_run_whose_slopes_change_their_size_goes_on(device: Any) -> None:
    """The rounding of a pass depends on the sizes of slopes in earlier ones, which a state remembers."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((40, 30)) < 0.3, rng.normal(size=(40, 30)), 0.0)
    X[7, 3] = 3e5
    y = np.where(X @ rng.normal(size=30) + rng.logistic(size=40) > 0.0, 1.0, -1.0)
    y[7] = -1.0
    problem = rs.Problem(sp.csr_matrix(X), y, rs.losses.SquaredHinge(), rs.penalties.L2(0.01))
    solver = rs.ExactProxRR(tol=1e-12, device=device)
    whole = solver.solve(problem)
    for stop in range(1, len(whole.trace["epoch"]) - 1):
        first = solver.solve(problem, callbacks=[partial(has_made, stop)])
        assert solver.solve(problem, resume=first).x.tobytes() == whole.x.tobytes()


def test_partial_fit_refuses_a_device(device: Any) -> None:
    X, y = outlier()
    with pytest.raises(rs.InputError, match="device must be None for partial_fit"):
        rs.RRClassifier(device=device).partial_fit(X, y, classes=[-1.0, 1.0])
