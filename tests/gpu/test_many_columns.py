"""Problems with more columns than a block has room for: passes, against the core, on the processor and on a card."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gpu_cases import LOSSES, devices

import reshuffle as rs
from reshuffle.device_problem import DeviceProblem
from reshuffle.gpu import transposed
from reshuffle.gpu.wide_samples import WideSamples


@pytest.fixture(scope="module", params=["host", "card"])
def device(request: pytest.FixtureRequest) -> Any:
    return devices(request.param)


@pytest.fixture(params=[8192, 3])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns in one piece, and in many."""
    from reshuffle.gpu import wide_samples

    monkeypatch.setattr(transposed, "PIECE", request.param)
    monkeypatch.setattr(wide_samples, "PIECE", request.param)


@cache
def words(n: int = 400, d: int = 4500, seed: int = 0) -> Any:
    """Rows as of texts: few words are frequent, and many are never seen."""
    rng = np.random.default_rng(seed)
    chance = 1.0 / np.arange(2, d + 2)
    X: Any = sp.lil_matrix((n, d))
    for i in range(n):
        own = np.unique(rng.choice(d, size=rng.integers(0, 25), p=chance / chance.sum()))
        X[i, own] = rng.normal(size=own.size)
    return sp.csr_matrix(X)


def signs(X: Any, seed: int = 1, strength: float = 2.0) -> Any:
    rng = np.random.default_rng(seed)
    z = np.asarray(X @ (rng.normal(size=X.shape[1]) * (np.arange(X.shape[1]) % 3 == 0))).ravel()
    return np.where(strength * z + rng.logistic(size=len(z)) > 0.0, 1.0, -1.0)


def ones(X: Any) -> Any:
    return sp.csr_matrix((X != 0.0).astype(float))


def single(X: Any) -> Any:
    return X.astype(np.float32)


def dense(X: Any) -> Any:
    return X.toarray()


def dense_single(X: Any) -> Any:
    return X.toarray().astype(np.float32)


@pytest.mark.parametrize("layout", [sp.csr_matrix, single, ones, dense, dense_single])
def test_a_pass_is_that_of_the_core(layout: Any, device: Any, pieces: None) -> None:
    X: Any = layout(words())
    n, d = X.shape
    weights, offset = np.random.default_rng(2).uniform(0.5, 2.0, n), np.linspace(-1.0, 1.0, n)
    problem = rs.Problem(
        X, signs(X), penalty=rs.penalties.L1(0.01), fit_intercept=True, sample_weight=weights, offset=offset, ridge=0.1
    )  # fmt: skip
    there, fit = DeviceProblem.of(problem, device), problem.datafit
    own = there.datafit
    assert isinstance(own, WideSamples)
    x = np.random.default_rng(3).normal(size=problem.shape)
    assert there.value(x) == pytest.approx(problem.value(x), rel=1e-13)
    slopes, mean = fit.slopes(x)
    found, other = own.slopes(x)

    def agree(found: Any, wanted: Any) -> None:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * max(1.0, np.abs(wanted).max()))  # fmt: skip

    agree(other, mean)
    agree(there.gradient(x), problem.gradient(x))
    agree(device.get(found), slopes)
    agree(own.combined(device.put(0.5 * slopes, None)), fit.combined(0.5 * slopes))
    assert own.conjugates(found, 0.7) == pytest.approx(fit.conjugates(slopes, 0.7))
    agree(own.column_squares, fit.column_squares)
    agree(device.get(own.margins(x)), fit.margins(x))
    assert there.gradient(x).tobytes() == there.gradient(x).tobytes()
    chosen = np.array([3, 7, 7, 350])
    some = own.take(chosen)
    assert some.at(x).value * some.n == pytest.approx(sum(fit.take(np.array([i], np.uint32)).value(x) for i in chosen))  # fmt: skip
    part, wanted = own.take(chosen[:3:2]), fit.take(chosen[:3:2].astype(np.uint32))
    agree(part.column_squares, wanted.column_squares)
    kept = np.array([0, 1, 5, 300, d - 1], dtype=np.uint32)
    rows = np.hstack([np.asarray(sp.csr_matrix(X)[:, kept].todense(), np.float64), np.ones((n, 1))])  # fmt: skip
    bend = fit.weights / (2.0 + 2.0 * np.cosh(fit.margins(x) + offset))
    agree(own.hessian_of(kept, x), rows.T @ (rows * bend[:, None]) / n)


# --- penalties that hold features at zero ---------------------------------------------------------


def check(problem: rs.Problem, device: Any, tol: float = 1e-9) -> Any:
    """The device's minimiser is certified, and that of the processor."""
    found = rs.ExactProxRR(tol=tol, device=device).solve(problem)
    wanted = rs.ExactProxRR(tol=1e-12).solve(problem)
    assert found.converged, found.message
    assert found.trace["gap"][-1] <= tol
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert -1e-11 <= above / problem.datafit.at_zero <= tol
    return found


def largest(X: Any, y: Any) -> float:
    """The ℓ1 strength that holds every feature at zero, of the logistic loss."""
    return float(np.abs(X.T @ y).max()) / 2.0 / len(y)


@pytest.mark.parametrize("layout", [sp.csr_matrix, single, ones, dense_single])
@pytest.mark.parametrize("strength", [0.5, 0.02])
def test_l1_on_words(layout: Any, strength: float, device: Any) -> None:
    X = layout(words())
    y = signs(X)
    check(rs.Problem(X, y, penalty=rs.penalties.L1(strength * largest(X, y))), device)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_elastic_nets_of_all_losses(loss: Any, device: Any) -> None:
    X = words(300)
    y = signs(X) if loss.targets == "signs" else np.random.default_rng(5).poisson(2.0, 300) * 1.0
    penalty = rs.penalties.ElasticNet(0.02, 0.01)
    problem = rs.Problem(X, y, loss=loss, penalty=penalty, fit_intercept=True)
    check(problem, device)


def test_groups_stay_together(device: Any) -> None:
    X = words(300)
    groups = [list(range(k, k + 9)) for k in range(0, 4500, 9)]
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 300)
    problem = rs.Problem(
        X, signs(X), penalty=rs.penalties.GroupLasso(0.02, groups=groups), sample_weight=weights, fit_intercept=True, ridge=1e-3
    )  # fmt: skip
    found = check(problem, device)
    used = np.any(found.x[:-1].reshape(-1, 9), axis=1)
    assert 0 < used.sum() < 100


# --- a ridge --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [sp.csr_matrix, ones, dense_single])
@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_a_ridge_on_words(layout: Any, ridge: float, device: Any) -> None:
    X = layout(words())
    check(rs.Problem(X, signs(X), ridge=ridge), device, 1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_ridges_of_all_losses_with_weights_and_an_intercept(loss: Any, device: Any) -> None:
    X = words(300)
    y = signs(X) if loss.targets == "signs" else np.random.default_rng(5).poisson(2.0, 300) * 1.0
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 300)
    penalty = rs.penalties.L2(0.02)
    check(rs.Problem(X, y, loss=loss, penalty=penalty, fit_intercept=True, sample_weight=weights), device, 1e-8)  # fmt: skip


# --- attacks --------------------------------------------------------------------------------------


def test_one_strength_holds_everything_and_an_intercept_is_left(device: Any) -> None:
    X = words()
    y = signs(X, strength=0.2)
    y[:50] = 1.0
    for bias in (False, True):
        problem = rs.Problem(X, y, penalty=rs.penalties.L1(10.0), fit_intercept=bias)
        found = check(problem, device, 1e-12)
        assert not found.x[: problem.features].any()
        if bias:
            p = np.mean(y > 0.0)
            assert found.x[-1] == pytest.approx(np.log(p / (1.0 - p)), abs=1e-7)


def test_all_features_want_to_leave_zero(device: Any) -> None:
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(60, 4300)), rng.normal(size=60)
    strength = 1e-3 * float(np.abs(X.T @ y).max()) / 60
    problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=rs.penalties.L1(strength))
    assert np.mean(np.abs(X.T @ y) / 60 > strength) > 0.99
    found = check(problem, device, 1e-8)
    assert np.count_nonzero(found.x) <= 60


def test_columns_that_are_the_same(device: Any) -> None:
    half = words(300, 2100)
    X = sp.csr_matrix(sp.hstack([half, half]))
    y = signs(half)
    check(rs.Problem(X, y, penalty=rs.penalties.L1(0.05 * largest(X, y)), fit_intercept=True), device)  # fmt: skip
    check(rs.Problem(X, y, penalty=rs.penalties.ElasticNet(1e-3, 1e-4)), device)


def test_more_features_matter_than_a_model_has(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reshuffle.solvers.exact import sparse_device_newton

    monkeypatch.setattr(sparse_device_newton, "MANY", 20)
    X = words()
    y = signs(X)
    weak = rs.Problem(X, y, penalty=rs.penalties.L1(0.02 * largest(X, y)))
    with pytest.raises(rs.InputError, match="at most 20 here"):
        rs.ExactProxRR(tol=1e-9, device=device).solve(weak)
    check(rs.Problem(X, y, penalty=rs.penalties.L1(0.7 * largest(X, y))), device)


@pytest.mark.parametrize("penalty", [rs.penalties.Zero(), rs.penalties.Box(-1.0, 1.0), rs.penalties.FusedLasso(0.1, 0.1)], ids=str)  # fmt: skip
def test_other_penalties_of_many_features_are_refused(penalty: Any, device: Any) -> None:
    X = words(60)
    problem = rs.Problem(X, signs(X), penalty=penalty)
    for given in (problem, DeviceProblem.of(problem, device)):
        with pytest.raises(rs.InputError, match="at most 4000 features"):
            rs.ExactProxRR(device=device).solve(given)


@pytest.mark.parametrize(
    "penalty", [rs.penalties.L1(1e-3), rs.penalties.L2(1e-3)], ids=["l1", "ridge"]
)
def test_runs_have_the_same_bits_and_go_on(penalty: Any, device: Any) -> None:
    X = words()
    problem = rs.Problem(X, signs(X), penalty=penalty, fit_intercept=True)
    solver = rs.ExactProxRR(tol=1e-12, device=device)
    whole = solver.solve(problem)
    assert whole.x.tobytes() == solver.solve(problem).x.tobytes()
    first = solver.solve(problem, callbacks=[lambda so_far: so_far.epoch >= 1])
    later = first if first.converged else solver.solve(problem, resume=first)
    assert later.x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("weak", [False, True])
def test_samples_lead_to_the_minimiser_of_all_rows(
    weak: bool, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples of 1,000 and 16,000 rows, which do not see most words."""
    from reshuffle.solvers.exact import device_newton, lbfgs_on_device, newton_on_device

    monkeypatch.setattr(newton_on_device, "SMALLEST", 500)
    monkeypatch.setattr(lbfgs_on_device, "SMALLEST", 500)
    monkeypatch.setattr(device_newton, "WORK_PER_BYTE", 0)
    rng, n, d = np.random.default_rng(7), 16_000, 5000
    chance = 1.0 / np.arange(2, d + 2)
    columns = rng.choice(d, size=(n, 8), p=chance / chance.sum())
    X: Any = sp.coo_matrix((rng.normal(size=8 * n), (np.repeat(np.arange(n), 8), columns.ravel())), shape=(n, d)).tocsr()  # fmt: skip
    y = signs(X)
    strength = (0.05 if weak else 0.2) * largest(X, y)
    found = check(rs.Problem(X, y, penalty=rs.penalties.L1(strength)), device)
    assert found.trace["hessian_rows"][0] < n
    check(rs.Problem(X, y, ridge=1e-3), device, 1e-8)


def test_scikit_learn_agrees(device: Any) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(80, 4100)), rng.normal(size=80)
    strength = 0.1 * float(np.abs(X.T @ y).max()) / 80
    problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=rs.penalties.L1(strength))
    found = rs.ExactProxRR(tol=1e-12, device=device).solve(problem)
    theirs = linear.Lasso(alpha=strength, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(found.x, theirs.coef_, atol=1e-6)
    problem = rs.Problem(X, y, loss=rs.losses.Squared(), ridge=0.1, fit_intercept=True)
    found = rs.ExactProxRR(tol=1e-12, device=device).solve(problem)
    theirs = linear.Ridge(alpha=0.1 * 80).fit(X, y)
    np.testing.assert_allclose(found.x, [*theirs.coef_, theirs.intercept_], atol=1e-5)
