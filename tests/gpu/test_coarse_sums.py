"""Steps by coarse sums end where steps by even sums do, and never with a false claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gpu_cases import devices

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem
from reshuffle.solvers.exact import newton_on_device


@pytest.fixture(scope="module", params=["host", "card"])
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return devices(request.param, tmp_path_factory)


@pytest.fixture
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton_on_device, "COARSE_SUMS", True)
    monkeypatch.setattr(newton_on_device, "COARSE_ROWS", 1)


def rows(n: int, d: int = 20, tailed: bool = False, ones: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(d)
    X: Any = sp.random(n, d, 0.25, "csr", random_state=1)
    X.data[:] = (
        rng.standard_cauchy(X.nnz) ** 3 if tailed else 1.0 if ones else rng.normal(size=X.nnz)
    )
    model = rng.normal(size=d)
    z = X.sign() @ model if tailed else X @ model
    return X, np.where(z + rng.logistic(size=n) > 0.0, 1.0, -1.0)


def runs(problem: rs.Problem, device: Any, tol: float) -> tuple[Any, Any]:
    """With coarse sums, and on the processor to the last digits."""
    found = rs.ExactProxRR(tol=tol, device=device).solve(problem)
    return found, rs.ExactProxRR(tol=1e-12).solve(problem)


@pytest.mark.usefixtures("_coarse")
@pytest.mark.parametrize("penalty", [rs.penalties.L1(1e-3), rs.penalties.L2(0.01)], ids=repr)
@pytest.mark.parametrize("ones", [False, True])
def test_the_minimiser_is_that_of_even_sums(ones: bool, penalty: Any, device: Any) -> None:
    X, y = rows(20_000, ones=ones)
    problem = rs.Problem(X, y, penalty=penalty)
    found, wanted = runs(problem, device, 1e-6)
    assert found.converged, found.message
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert -1e-12 <= above / problem.datafit.at_zero <= 1e-6


def test_terms_are_rounded_to_twenty_bits(device: Any) -> None:
    for ones in (False, True):
        X, y = rows(20_000, ones=ones)
        problem = rs.Problem(X, y, fit_intercept=True, sample_weight=np.linspace(1, 2, len(y)))
        even = DeviceProblem.of(problem, device).datafit
        coarse = even.coarsely()  # type: ignore[union-attr]
        x = np.random.default_rng(0).normal(size=problem.shape)
        wanted, found = even.at(x), coarse.at(x)
        assert found.value == wanted.value
        assert found.gradient[-1] == wanted.gradient[-1]
        bound = 2.0 ** (coarse.exponent + 1) * coarse.bound[0]  # of any term that there is room for
        assert 0.0 < np.abs(found.gradient - wanted.gradient).max() <= 2.0**-21 * bound
        assert coarse.at(x).gradient.tobytes() == found.gradient.tobytes()
        assert not coarse.sample(100, 1).coarse
        assert not coarse.finely().coarse


@pytest.mark.usefixtures("_coarse")
@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.SquaredHinge()], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_heavy_tails_are_never_called_converged_too_early(
    intercept: bool, loss: Any, device: Any
) -> None:
    """Columns whose largest entries hide all others from coarse sums: the run goes on with all digits."""
    X, y = rows(2000, tailed=True)
    for penalty in (rs.penalties.L1(1e-3), rs.penalties.L2(0.01), rs.penalties.Box(-1.0, 1.0)):
        problem = rs.Problem(X, y, loss=loss, penalty=penalty, fit_intercept=intercept)
        found, wanted = runs(problem, device, 1e-7)
        above = problem.objective(found.x) - problem.objective(wanted.x)
        assert found.converged, found.message
        assert above <= 1e-7 * problem.datafit.at_zero


@pytest.mark.usefixtures("_coarse")
def test_slopes_that_cancel_each_other(device: Any) -> None:
    """Each row comes with another that has nearly the opposite slope, so that the gradient is far below its terms."""
    rng = np.random.default_rng(4)
    half = rng.normal(size=(1000, 10)) * np.where(np.arange(10) % 2, 1e3, 1.0)
    X = np.vstack([half, half + 1e-6 * rng.normal(size=half.shape)])
    y = np.append(np.ones(1000), -np.ones(1000))
    problem = rs.Problem(sp.csr_matrix(X), y, penalty=rs.penalties.L2(1e-6))
    found, wanted = runs(problem, device, 1e-7)
    assert found.converged, found.message
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert above <= 1e-7 * problem.datafit.at_zero


def test_small_tolerances_and_few_rows_take_even_sums(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = DeviceProblem.of(rs.Problem(*rows(100)), device).datafit
    takes = newton_on_device.takes_coarse_sums
    monkeypatch.setattr(newton_on_device, "COARSE_SUMS", True)
    assert not takes(samples, 1e-6)
    monkeypatch.setattr(newton_on_device, "COARSE_ROWS", 100)
    assert takes(samples, 1e-6)
    assert not takes(samples, 1e-8)
    monkeypatch.setattr(newton_on_device, "COARSE_SUMS", False)
    assert not takes(samples, 1e-6)
