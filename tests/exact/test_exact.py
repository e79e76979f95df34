"""The exact method: the true minimiser from anywhere, certified, and safe."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from oracles import LOSSES, PAIRS, every_pair, oracle, penalty, random_data, sparse, unknown
from scipy.sparse import csr_matrix
from sparse_cases import shuffled

import reshuffle as rs
from reshuffle.penalties import ability
from reshuffle.solvers.certificate import certificate_of
from reshuffle.solvers.exact.movement_monitor import MovementMonitor
from reshuffle.solvers.sampling import resampled


class Opaque:
    """A penalty that says no more of itself than value and prox."""

    def __init__(self, penalty: Any) -> None:
        self.value, self.prox = penalty.value, penalty.prox
        self.strong_convexity = getattr(penalty, "strong_convexity", 0.0)


def minimum(problem: rs.Problem) -> float:
    return problem.objective(rs.theory.solve(problem))


# --- the solution ------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.array, sparse])
@every_pair
def test_finds_the_minimiser(loss: str, psi: str, layout: Any) -> None:
    X, y = random_data(LOSSES[loss], n=60)
    weights = np.linspace(0.5, 2.0, 60)
    problem = rs.Problem(
        layout(X), y, LOSSES[loss], penalty(psi, unknown(loss)), 0.02, weights, fit_intercept=True
    )
    best, scale = minimum(problem), problem.value(np.zeros(problem.shape))
    finish = layout is np.array  # with Newton steps on one layout, without them on the other
    result = shuffled(tol=1e-10, epochs=5000, finish=finish).solve(problem)
    assert result.reached, result.message
    assert problem.objective(result.x) - best <= 1e-10 * scale


@every_pair
@pytest.mark.parametrize("importance", [False, True])
def test_dense_csr_and_oracle_agree(loss: str, psi: str, importance: bool) -> None:
    X, y = random_data(LOSSES[loss])
    X[3] *= 4.0
    chosen = penalty(psi, unknown(loss))
    dense = rs.Problem(X, y, LOSSES[loss], chosen)
    solver = shuffled(epochs=4, tol=0.0, importance=importance, steps_per_prox=5)
    problems = (
        dense,
        rs.Problem(sparse(X), y, LOSSES[loss], chosen),
        oracle(dense, X, y),
    )
    first, *others = (solver.solve(p) for p in problems)
    assert np.abs(first.x).max() > 1e-3
    for other in others:
        np.testing.assert_allclose(other.x.reshape(first.x.shape), first.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_the_compiled_epoch_is_the_plain_one(loss: str) -> None:
    """The kernel that takes the prox itself, against the loop that calls it block by block."""
    X, y = random_data(LOSSES[loss])
    kwargs: Any = {"loss": LOSSES[loss], "ridge": 0.1, "fit_intercept": True}
    penalty = rs.penalties.ElasticNet(0.02, 0.05)
    solver = shuffled(epochs=5, tol=0.0, steps_per_prox=4)
    compiled = solver.solve(rs.Problem(X, y, penalty=penalty, **kwargs))
    plain = solver.solve(rs.Problem(X, y, penalty=Opaque(penalty), **kwargs))
    np.testing.assert_allclose(compiled.x, plain.x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("steps_per_prox", [1, 7, 60])
def test_nothing_moves_at_the_solution(steps_per_prox: int) -> None:
    """Whatever γ and m: at x*, with q = 0, an epoch leaves x where it is."""
    X, y = random_data(rs.losses.Logistic(), n=60)
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.02, 0.05))
    x = rs.theory.solve(problem)
    solver = shuffled(epochs=1, tol=0.0, steps_per_prox=steps_per_prox)
    np.testing.assert_allclose(solver.solve(problem, x0=x).x, x, atol=1e-11)


def test_one_prox_per_epoch_still_reaches_the_solution() -> None:
    X, y = rs.datasets.breast_cancer()
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.004, 0.006))
    result = shuffled(tol=1e-9, steps_per_prox=10**9).solve(problem)
    assert result.converged
    assert result.trace["prox_evals"][-1] == result.epoch


# --- the certificate ---------------------------------------------------------------------------


def held(loss: str, psi: str, ridge: float) -> bool:
    """Whether the penalty holds every coordinate."""
    if not LOSSES[loss].vector and type(LOSSES[loss]).conjugate is None:
        return False  # A loss without a conjugate has no duality gap.
    has_dual = ability(penalty(psi, unknown(loss)), "has_dual")
    return has_dual is not None and has_dual(unknown(loss), ridge)


@pytest.mark.parametrize(
    ("loss", "psi", "ridge"),
    [(*pair, ridge) for pair in PAIRS for ridge in (0.0, 0.05) if held(*pair, ridge)],
)
def test_the_gap_is_never_smaller_than_the_true_one(loss: str, psi: str, ridge: float) -> None:
    X, y = random_data(LOSSES[loss], n=60)
    problem = rs.Problem(X, y, LOSSES[loss], penalty(psi, unknown(loss)), ridge)
    assert certificate_of(problem).name == "gap"
    best, scale = minimum(problem), problem.value(np.zeros(problem.shape))
    checked = 0
    for epochs in (1, 2, 4, 8, 16, 64):
        result = shuffled(epochs=epochs, tol=1e-300, importance=False).solve(problem)
        gap = result.trace["gap"][-1]
        true = (problem.objective(result.x) - best) / scale
        assert gap >= true - 1e-14
        checked += true > 1e-10
    assert checked >= 2  # the comparison was not empty
    assert gap < 1e-3  # and the bound is of use


def test_certificate_with_copies_and_weights_is_still_a_bound() -> None:
    X, y = random_data(rs.losses.Logistic(), n=60)
    X *= np.geomspace(0.1, 5, 60)[:, None]
    problem = rs.Problem(X, y, penalty=rs.penalties.L1(0.02), sample_weight=np.arange(1.0, 61.0))
    best, scale = minimum(problem), problem.value(np.zeros(6))
    for epochs in (1, 3, 9):
        result = shuffled(epochs=epochs, tol=1e-300, importance=True).solve(problem)
        assert result.trace["gap"][-1] >= (problem.objective(result.x) - best) / scale - 1e-14


def test_tolerance_is_kept() -> None:
    X, y = rs.datasets.breast_cancer()
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.004, 0.006))
    best, scale = minimum(problem), problem.value(np.zeros(30))
    for tol in (1e-2, 1e-5, 1e-10):
        result = shuffled(tol=tol).solve(problem)
        assert result.converged
        assert (problem.objective(result.x) - best) / scale <= tol


# --- safety ------------------------------------------------------------------------------------


def hard(name: str) -> rs.Problem:
    rng = np.random.default_rng(0)
    X, y = random_data(rs.losses.Logistic(), n=60)
    penalty: Any = rs.penalties.ElasticNet(0.01, 0.01)
    if name == "wild norms":
        X *= np.exp(rng.normal(0, 4, 60))[:, None]
    elif name == "duplicates":
        X, y = np.repeat(X[:6], 10, axis=0), np.repeat(y[:6], 10)
    elif name == "separable":
        X[:, 0], penalty = 10 * y, rs.penalties.L1(1e-4)
    elif name == "d > n":
        X = rng.standard_normal((60, 300))
    elif name == "constant columns":
        X[:, 1], X[:, 2] = 1.0, 0.0
    return rs.Problem(X, y, penalty=penalty)


HARD = ["wild norms", "duplicates", "separable", "d > n", "constant columns"]


@pytest.mark.parametrize("start", [0.0, 30.0])
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_from_any_start(name: str, start: float) -> None:
    if name == "wild norms":  # L_f/μ is 4e6: a start far away costs any first-order method dearly
        start /= 1000.0
    problem = hard(name)
    x0 = start * np.random.default_rng(1).standard_normal(problem.shape)
    result = shuffled(tol=1e-7, epochs=20_000, eval_every=100).solve(problem, x0)
    assert result.converged, result.message
    scale = problem.value(np.zeros(problem.shape))
    assert (problem.objective(result.x) - minimum(problem)) / scale <= 1e-7


def test_no_penalty_at_all() -> None:
    X, y = random_data(rs.losses.Squared(), n=60)
    result = shuffled(tol=1e-10).solve(rs.Problem(X, y, rs.losses.Squared()))
    assert result.reached
    np.testing.assert_allclose(result.x, np.linalg.lstsq(X, y)[0], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_beyond_the_largest_useful_penalty_the_answer_is_zero_at_once(loss: str) -> None:
    X, y = random_data(LOSSES[loss], n=60)
    plain = rs.Problem(X, y, LOSSES[loss])
    strongest = np.abs(plain.gradient(np.zeros(plain.shape))).max()
    problem = rs.Problem(X, y, LOSSES[loss], rs.penalties.L1(1.001 * strongest))
    result = shuffled().solve(problem)
    dual = LOSSES[loss].vector or type(LOSSES[loss]).conjugate is not None
    assert result.converged if dual else result.stationary  # without a conjugate nothing is proved
    assert result.epoch == 0
    assert not result.x.any()


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("factor", [4.0, 100.0, 1e6])
def test_a_step_that_is_too_large_is_noticed_and_mended(loss: str, factor: float) -> None:
    X, y = random_data(LOSSES[loss], n=200)
    problem = rs.Problem(X, y, LOSSES[loss], rs.penalties.ElasticNet(0.01, 0.01))
    step = factor / problem.smoothness.L_max
    result = shuffled(step=step, tol=1e-8).solve(problem)
    assert result.converged, result.message
    assert result.trace["step"][-1] < step
    assert result.trace["objective"].max() <= result.trace["objective"][0] * 1.02
    first = shuffled(step=step, tol=1e-8, epochs=1).solve(problem)
    assert first.trace["objective"][-1] <= first.trace["objective"][0]


@pytest.mark.parametrize("name", HARD)
def test_never_worse_than_its_start(name: str) -> None:
    """From nearly optimal starts an epoch may end higher; then the start is the answer."""
    problem, fell_back = hard(name), 0
    for seed in range(5):
        x0 = rs.FISTA(epochs=300, tol=0.0).solve(problem).x
        result = shuffled(epochs=1, tol=0.0, seed=seed).solve(problem, x0)
        assert problem.objective(result.x) <= problem.objective(x0)
        assert result.trace["objective"][-1] == problem.objective(result.x)
        fell_back += np.array_equal(result.x, x0)
    if name in ("duplicates", "d > n"):
        assert fell_back > 0  # so the fallback was seen at work


# --- choices -----------------------------------------------------------------------------------


def test_importance_is_used_where_it_pays_and_the_header_says_so() -> None:
    even = rs.Problem(*random_data(rs.losses.Logistic(), n=60), penalty=rs.penalties.L2(0.001))
    X, y = random_data(rs.losses.Logistic(), n=60)
    X[5] *= 100
    uneven = rs.Problem(X, y, penalty=rs.penalties.L2(0.001))
    assert resampled(uneven, None)[0].size > 60
    assert resampled(uneven, False)[0].size == 0
    assert resampled(even, True)[0].size >= 60
    header = shuffled(epochs=1).solve(uneven).trace.header
    assert "visits of 60 samples" in header["importance"]
    assert header["certificate"] == "duality gap"
    plain = shuffled(epochs=1, importance=False).solve(uneven).trace.header
    assert plain["importance"] == "off"
    fast = shuffled(tol=1e-8).solve(uneven)
    slow = shuffled(tol=1e-8, importance=False).solve(uneven)
    assert fast.trace["gradients"][-1] < 0.5 * slow.trace["gradients"][-1]


def _stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def test_the_same_bits_after_a_resume() -> None:
    X, y = random_data(rs.losses.Logistic(), n=2000, d=160)  # more than a small set
    penalty = rs.penalties.ElasticNet(0.004, 0.006)
    dense, sparse = rs.Problem(X, y, penalty=penalty), rs.Problem(csr_matrix(X), y, penalty=penalty)
    cases = (
        (dense, False, 3),
        (dense, True, 1),
        (sparse, True, 1),
        (sparse, True, 2),
        (sparse, True, 3),
    )
    for problem, finish, at in cases:
        solver = shuffled(tol=1e-8, seed=3, finish=finish, eval_every=1)
        whole = solver.solve(problem)
        part = solver.solve(problem, callbacks=[partial(_stands_at, at)])
        assert part.epoch == at < whole.epoch
        resumed = solver.solve(problem, resume=part)
        assert resumed.x.tobytes() == whole.x.tobytes()
        assert resumed.trace["gradients"].tolist() == whole.trace["gradients"].tolist()
        assert resumed.trace.header == whole.trace.header


def test_float32_data_gives_the_float64_model() -> None:
    X, y = rs.datasets.breast_cancer()
    X = X.astype(np.float32)
    penalty = rs.penalties.ElasticNet(0.004, 0.006)
    single, double = (
        shuffled(tol=1e-12).solve(rs.Problem(A, y, penalty=penalty)).x
        for A in (X, X.astype(np.float64))
    )
    np.testing.assert_allclose(single, double, atol=1e-7)


def test_newton_steps_square_the_accuracy() -> None:
    """The movement is √1000 times that of the goal, so that the accuracy is 1e-3: one squaring from 1e-6."""
    monitor = MovementMonitor(goal=1e-3, moves=(np.inf, np.inf, np.inf, np.sqrt(1e3) * 1e-3))
    assert monitor.squarings(1e-6) == pytest.approx(1.0)
    assert monitor._replace(moves=(1e-3,) * 4).squarings(1e-6) == 0.0
    assert monitor._replace(goal=np.inf).squarings(1e-6) == np.inf
    assert monitor.squarings(0.0) == np.inf
    assert monitor._replace(moves=(10.0,) * 4).squarings(1e-6) == np.inf
