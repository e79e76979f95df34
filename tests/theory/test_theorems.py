"""The paper's theorems and lemmas, as inequalities between exact numbers.

For a handful of functions the expectation over permutations is a finite sum: every path is walked
with the package's own sweep and prox, and E‖x_T - x*‖² is compared with the theorem's bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import PENALTIES, fits, penalty
from scipy.optimize import minimize

import reshuffle as rs
from reshuffle import theory
from reshuffle.experiments.paths import (
    all_orders,
    all_rounds,
    below,
    f_strongly_convex,
    fedrr,
    homogeneous,
    make,
    proxrr,
    psi_strongly_convex,
    resampled,
    reshuffled,
    sgd_step,
    shuffled_once,
    shuffled_once_by,
    split,
    starts,
    unequal,
)
from reshuffle.experiments.theorems import rates, slope

Array = NDArray[np.float64]
Visits = NDArray[np.uint32]

STEPS = (1.0, 0.3, 0.03)  # in units of the largest that a theorem allows


# --- ProxRR and ProxSO -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f", "psi"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("n", "T"), [(3, 3), (4, 2)])
def test_theorems_for_strongly_convex_f_and_psi(kind: str, loss: str, n: int, T: int) -> None:
    problem = (f_strongly_convex if kind == "f" else psi_strongly_convex)(loss, n)
    bound = theory.proxrr_f_bound if kind == "f" else theory.proxrr_psi_bound
    x_star = theory.solve(problem)
    orders = all_orders(n)
    for x0 in starts(x_star):
        c = theory.constants(problem, x_star, x0=x0)
        for fraction in STEPS:
            step = fraction / c.L_max
            radius = theory.shuffling_radius(problem, x_star, step)
            rr = reshuffled(proxrr(problem, step), orders, x0, x_star, T)
            so = shuffled_once(proxrr(problem, step), orders, x0, x_star, 40)
            assert below(rr, bound(c, np.arange(T + 1), step, radius))
            assert below(so, bound(c, np.arange(41), step, radius))
            assert below(rr, theory.recursion_bound(c, [step] * T, radius))
            assert below(so, theory.recursion_bound(c, [step] * 40, radius))


def test_three_epochs_of_four_functions() -> None:
    """All 24³ = 13,824 paths."""
    problem = f_strongly_convex(n=4, seed=1)
    x_star = theory.solve(problem)
    c = theory.constants(problem, x_star)
    step = 1.0 / c.L_max
    errors = reshuffled(proxrr(problem, step), all_orders(4), np.zeros(2), x_star, 3)
    radius = theory.shuffling_radius(problem, x_star, step)
    assert below(errors, theory.proxrr_f_bound(c, np.arange(4), step, radius))


@dataclass(frozen=True)
class Given:
    """The order of epoch t is the t-th of a list."""

    orders: tuple[tuple[int, ...], ...]
    fixed: ClassVar[bool] = False

    def visits(self, pool: Visits, rng: np.random.Generator, epoch: int) -> Visits:
        return np.array(self.orders[epoch], dtype=np.uint32)


@pytest.mark.parametrize("kind", ["f", "psi"])
def test_the_solver_itself_over_all_paths(kind: str) -> None:
    """ProxRR().solve along all 6² paths has the expectation that the sweeps have."""
    problem = (f_strongly_convex if kind == "f" else psi_strongly_convex)()
    bound = theory.proxrr_f_bound if kind == "f" else theory.proxrr_psi_bound
    x_star = theory.solve(problem)
    c = theory.constants(problem, x_star)
    step = 0.3 / c.L_max
    paths = product(permutations(range(3)), repeat=2)
    ends = [
        rs.ProxRR(step=step, epochs=2, eval_every=2, order=Given(path)).solve(problem).x
        for path in paths
    ]
    error = np.mean(np.sum((np.array(ends) - x_star) ** 2, axis=1))
    expected = reshuffled(proxrr(problem, step), all_orders(3), np.zeros(2), x_star, 2)
    np.testing.assert_allclose(error, expected[-1], rtol=1e-12)
    assert error <= bound(c, 2, step, theory.shuffling_radius(problem, x_star, step))


@pytest.mark.parametrize("kind", ["f", "psi"])
def test_a_wrong_step_breaks_the_theorem(kind: str) -> None:
    """A solver that took 3/L_max where it was asked for 1/L_max would be found out."""
    problem = (f_strongly_convex if kind == "f" else psi_strongly_convex)("squared")
    bound = theory.proxrr_f_bound if kind == "f" else theory.proxrr_psi_bound
    x_star = theory.solve(problem)
    c = theory.constants(problem, x_star)
    step = 1.0 / c.L_max
    epoch = proxrr(problem, 3 * step)
    radius = theory.shuffling_radius(problem, x_star, step)
    right = shuffled_once(proxrr(problem, step), all_orders(3), np.zeros(2), x_star, 20)
    wrong = shuffled_once(epoch, all_orders(3), np.zeros(2), x_star, 20)
    assert below(right, bound(c, np.arange(21), step, radius))
    assert not below(wrong, bound(c, np.arange(21), step, radius))


@pytest.mark.parametrize("kind", ["f", "psi"])
def test_a_prox_with_the_parameter_of_one_step_breaks_the_theorem(kind: str) -> None:
    """γ where γn is meant: from x* the iterates go to the solution of another problem."""
    problem = (f_strongly_convex if kind == "f" else psi_strongly_convex)("squared")
    bound = theory.proxrr_f_bound if kind == "f" else theory.proxrr_psi_bound
    x_star = theory.solve(problem)
    c = theory.constants(problem, x_star, x0=x_star)
    step, T = 0.01 / c.L_max, 400
    radius = theory.shuffling_radius(problem, x_star, step)
    bounds = bound(c, np.arange(T + 1), step, radius)
    orders = all_orders(3)
    assert below(shuffled_once(proxrr(problem, step), orders, x_star, x_star, T), bounds)
    wrong = proxrr(problem, step, prox_step=step)
    assert not below(shuffled_once(wrong, orders, x_star, x_star, T), bounds)


@pytest.mark.parametrize("order", [rs.orders.Reshuffle(), rs.orders.ShuffleOnce()])
@pytest.mark.parametrize("kind", ["f", "psi"])
def test_a_larger_problem_over_many_seeds(order: rs.orders.Order, kind: str) -> None:
    """60 functions, 150 seeds: the mean and four standard errors are below the bound."""
    ridge, l2 = (0.05, 0.0) if kind == "f" else (0.0, 0.05)
    problem = make("logistic", 60, ridge, 0.002, l2, d=5)
    bound = theory.proxrr_f_bound if kind == "f" else theory.proxrr_psi_bound
    c = theory.constants(problem)
    for fraction in (0.3, 0.01):
        step = fraction / c.L_max
        ends = [
            rs.ProxRR(step=step, order=order, epochs=15, eval_every=15, seed=seed).solve(problem).x
            for seed in range(150)
        ]
        errors = np.sum((np.array(ends) - c.x_star) ** 2, axis=1)
        radius = theory.shuffling_radius_estimate(problem, c.x_star, step, confidence=0.999)
        highest = errors.mean() + 4 * errors.std() / np.sqrt(150)
        assert highest <= bound(c, 15, step, radius.low)


# --- decreasing steps ------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.002, 0.2, 5.0])  # s = 7L_max/(4μn) from 100 to below 1/2
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_theorem_for_decreasing_steps(loss: str, l2: float) -> None:
    problem = make(loss, 3, ridge=0.0, l1=0.01, l2=l2)
    x_star = theory.solve(problem)
    for x0 in starts(x_star):
        c = theory.constants(problem, x_star, x0=x0)
        for T in (1, 2, 3, 4, 5, 30, 200):
            steps = theory.decreasing_steps(c, T)
            radius = max(theory.shuffling_radius(problem, x_star, s) for s in np.unique(steps))
            epochs = [proxrr(problem, step) for step in steps]
            error = shuffled_once_by(epochs, all_orders(3), x0, x_star)[-1]
            recursion = theory.recursion_bound(c, steps, radius)[-1]
            assert error <= recursion * (1 + 1e-9) + 1e-20
            assert recursion <= theory.decreasing_bound(c, T, radius) * (1 + 1e-9)


def test_decreasing_steps_give_one_over_t_squared_and_proxsgd_one_over_t() -> None:
    """Slopes of log E‖x_T - x*‖² against log T, from T = 50 to 800."""
    horizons = np.array([50, 100, 200, 400, 800])
    rr, sgd = (slope(horizons, errors) for errors in rates(horizons).values())
    assert rr == pytest.approx(-2.0, abs=0.2)
    assert sgd == pytest.approx(-1.0, abs=0.35)


# --- ProxSGD ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f", "psi", "both"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_theorem_for_proximal_sgd(kind: str, loss: str) -> None:
    """All 3⁶ sequences of indices."""
    ridge, l2 = {"f": (0.2, 0.0), "psi": (0.0, 0.2), "both": (0.1, 0.1)}[kind]
    problem = make(loss, 3, ridge, 0.05, l2)
    x_star = theory.solve(problem)
    for x0 in starts(x_star):
        c = theory.constants(problem, x_star, x0=x0)
        for fraction in STEPS:
            step = fraction / (2 * c.L_max)
            errors = reshuffled(sgd_step(problem, step), range(3), x0, x_star, 6)
            assert below(errors, theory.proxsgd_bound(c, np.arange(7) / 3, step))


def test_the_printed_theorem_for_proximal_sgd_needs_mu_at_most_l_max() -> None:
    """f_1 = f_2 and γμ = 1: the printed bound is 0 after one step, the error is not."""
    problem = rs.Problem(
        np.ones((2, 1)), [1.0, 1.0], rs.losses.Squared(), rs.penalties.L2(2.0)
    )  # L_max = 1, μ = 2
    x_star, x0, step = theory.solve(problem), np.array([2.0]), 0.5
    c = theory.constants(problem, x_star, x0=x0)
    errors = reshuffled(sgd_step(problem, step), range(2), x0, x_star, 3)
    assert c.sigma_star_sq < 1e-20
    printed = np.power(1 - step * c.mu_psi, np.arange(4.0)) * c.r0
    printed += 2 * step * c.sigma_star_sq / c.mu_psi
    assert not below(errors, printed)
    assert below(errors, theory.proxsgd_bound(c, np.arange(4) / 2, step))


def test_sampling_with_replacement_breaks_the_bound_of_reshuffling() -> None:
    """RR's noise is of order γ², SGD's of order γ: its error does not fit below RR's bound."""
    problem = make("squared", 3, ridge=0.0, l1=0.0, l2=0.2)
    x_star = theory.solve(problem)
    c = theory.constants(problem, x_star, x0=x_star)
    step, rng, x = 0.003 / c.L_max, np.random.default_rng(0), x_star.copy()
    errors = []
    for _ in range(8000):
        problem.sweep(x, rng.integers(0, 3, 3, dtype=np.uint32), step)
        x = problem.prox(x, 3 * step)
        errors.append(np.sum((x - x_star) ** 2))
    radius = theory.shuffling_radius(problem, x_star, step)
    assert np.mean(errors[2000:]) > 2 * theory.proxrr_psi_bound(c, np.inf, step, radius)


# --- importance resampling -------------------------------------------------------------------


def test_theorem_for_importance_resampling() -> None:
    problem = unequal()
    x_star, (_, pool) = theory.solve(problem), resampled(problem, 1.0)
    assert pool.tolist() == [0, 1, 2, 2]
    for x0 in starts(x_star):
        c = theory.constants(problem, x_star, x0=x0, importance=True)
        assert c.L_max == pytest.approx(4 / 3 * 2)  # (N/n)·L̄, where L_max of the original is 4
        for fraction in STEPS:
            step = fraction / c.L_max
            epoch, _ = resampled(problem, step)
            rr = reshuffled(epoch, all_orders(4), x0, x_star, 2)
            so = shuffled_once(epoch, all_orders(4), x0, x_star, 40)
            assert below(rr, theory.proxrr_psi_bound(c, np.arange(3), step))
            assert below(so, theory.proxrr_psi_bound(c, np.arange(41), step))


def test_the_printed_weights_of_importance_resampling_move_the_minimiser() -> None:
    """(1/N) Σ n_i·(f_i/n_i) = (n/N)·f: with 1/n_i the loss loses a quarter of its weight."""
    problem = unequal()
    x_star = theory.solve(problem)
    pool, weights = rs.orders.copies(problem.smoothness.individual)
    n, N = problem.n, pool.size
    X, y = problem.rows.values, problem.targets

    def minimiser(scale: Array, mean: float) -> Array:
        """Of mean·(1/N) Σ over the copies of scale_i·f_i, plus ψ."""
        whole = rs.Problem(X[pool], y[pool], problem.loss, problem.penalty, 0.0, scale[pool])
        sized = rs.penalties.ElasticNet(0.05 / mean, 0.2 / mean)  # P/mean has the same minimiser
        whole.penalty = sized
        return theory.solve(whole)

    corrected = minimiser(weights, 1.0)
    printed = minimiser(weights, n / N)
    np.testing.assert_allclose(corrected, x_star, atol=1e-10)
    assert np.linalg.norm(printed - x_star) > 0.02
    c = theory.constants(problem, x_star, x0=x_star, importance=True)
    step = 0.003 / c.L_max
    bounds = theory.proxrr_psi_bound(c, np.arange(1001), step)
    orders = all_orders(4)[::5]
    right, _ = resampled(problem, step)
    wrong, _ = resampled(problem, step, correct=False)
    assert below(shuffled_once(right, orders, x_star, x_star, 1000), bounds)
    assert not below(shuffled_once(wrong, orders, x_star, x_star, 1000), bounds)


@pytest.mark.usefixtures("vanishing")
@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=50).filter(lambda L: sum(L) > 1e-6))
def test_importance_resampling_at_most_doubles_the_functions(L: list[float]) -> None:
    constants = np.array(L)
    pool, weights = rs.orders.copies(constants)
    n, N = constants.size, pool.size
    assert N <= 2 * n
    counts = np.bincount(pool, minlength=n)
    np.testing.assert_allclose(counts * weights / N, 1.0 / n, rtol=1e-12)  # the mean is f
    assert np.max(weights * constants) <= N / n * constants.mean() * (1 + 1e-12)


# --- federated -------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 3), (3, 1), (1, 2, 4)])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_theorem_for_heterogeneous_clients(loss: str, sizes: tuple[int, ...]) -> None:
    problem = psi_strongly_convex(loss, sum(sizes))
    x_star, rounds = theory.solve(problem), all_rounds(sizes)
    clients = split(problem, sizes)
    T = 2 if len(rounds) < 40 else 1
    for x0 in starts(x_star):
        c = theory.client_constants(clients, x_star, x0=x0)
        for fraction in STEPS:
            step = fraction / c.L_max
            rr = reshuffled(fedrr(clients, step), rounds, x0, x_star, T)
            so = shuffled_once(fedrr(clients, step), rounds, x0, x_star, 15)
            assert below(rr, theory.fed_heterogeneous_bound(c, np.arange(T + 1), step))
            assert below(so, theory.fed_heterogeneous_bound(c, np.arange(16), step))


def test_theorem_for_equal_clients_and_strongly_convex_functions() -> None:
    problem, sizes = f_strongly_convex(n=6), (3, 3)
    x_star, rounds = theory.solve(problem), all_rounds(sizes)
    clients = split(problem, sizes)
    for x0 in starts(x_star):
        c = theory.client_constants(clients, x_star, x0=x0)
        for fraction in STEPS:
            step = fraction / c.L_max
            rr = reshuffled(fedrr(clients, step), rounds, x0, x_star, 2)
            so = shuffled_once(fedrr(clients, step), rounds, x0, x_star, 15)
            assert below(rr, theory.fed_bound(c, np.arange(3), step))
            assert below(so, theory.fed_bound(c, np.arange(16), step))


def test_theorem_for_homogeneous_clients() -> None:
    clients, x_star = homogeneous()
    rounds = all_rounds((3, 3))
    for x0 in starts(x_star):
        c = theory.client_constants(clients, x_star, x0=x0)
        assert c.sigma_star_sq > 0.1
        for fraction in STEPS:
            step = fraction / c.L_max
            rr = reshuffled(fedrr(clients, step), rounds, x0, x_star, 2)
            so = shuffled_once(fedrr(clients, step), rounds, x0, x_star, 15)
            for bound in (theory.fed_homogeneous_bound, theory.fed_bound):
                assert below(rr, bound(c, np.arange(3), step))
                assert below(so, bound(c, np.arange(16), step))


def test_a_wrong_federated_prox_breaks_the_theorem() -> None:
    """γN/M is the parameter; with γN (no division by M) the solution moves."""
    problem, sizes = psi_strongly_convex("squared", 4), (3, 1)
    x_star, rounds = theory.solve(problem), all_rounds(sizes)
    clients = split(problem, sizes)
    c = theory.client_constants(clients, x_star, x0=x_star)
    step, T = 0.01 / c.L_max, 600
    bounds = theory.fed_heterogeneous_bound(c, np.arange(T + 1), step)
    right, wrong = fedrr(clients, step), fedrr(clients, step, prox_step=step * c.N)
    assert below(shuffled_once(right, rounds, x_star, x_star, T), bounds)
    assert not below(shuffled_once(wrong, rounds, x_star, x_star, T), bounds)


def test_padding_with_zero_functions_is_not_strongly_convex() -> None:
    """Clients of 6 and 1 samples, from a common start, with R = 0: (1 - γμ)^{nT} is too fast."""
    X = np.full((7, 1), 1e-3)  # almost no data: f_mj is its ridge
    problem = rs.Problem(X, np.zeros(7), rs.losses.Squared(), ridge=1.0)
    clients, T = split(problem, (6, 1)), np.arange(6.0)
    step = 0.5 / problem.smoothness.L_max
    orders = [tuple(np.arange(client.n, dtype=np.uint32) for client in clients)]
    errors = shuffled_once(fedrr(clients, step), orders, np.ones(1), np.zeros(1), 5)
    assert not below(errors, np.power(1 - step, 6 * T))
    assert below(errors, np.power(1 - step, T))


# --- lemmas ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_lemma_sampling_without_replacement(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, 3))
    mean, variance = X.mean(axis=0), X.var(axis=0).sum()
    for i in range(1, n + 1):
        means = np.array([X[list(chosen)].mean(axis=0) for chosen in combinations(range(n), i)])
        np.testing.assert_allclose(means.mean(axis=0), mean, atol=1e-14)
        spread = np.mean(np.sum((means - mean) ** 2, axis=1))
        np.testing.assert_allclose(spread, (n - i) / (i * (n - 1)) * variance, atol=1e-14)
        assert i * (n - i) <= n * (n - 1) / 2


@pytest.mark.parametrize("name", [name for name in PENALTIES if fits(name, (6,))])
@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_lemma_prox_is_a_contraction(name: str, seed: int, step: float) -> None:
    psi = penalty(name)
    x, y = np.random.default_rng(seed).standard_normal((2, 6)) * 3
    before = np.sum((x - y) ** 2)
    after = np.sum((psi.prox(x, step) - psi.prox(y, step)) ** 2)
    mu = getattr(psi, "strong_convexity", 0.0)
    assert after <= before / (1 + 2 * step * mu) * (1 + 1e-9)


@pytest.mark.parametrize("problem", [f_strongly_convex(), psi_strongly_convex()])
def test_lemma_fixed_point_needs_the_same_factor_twice(problem: rs.Problem) -> None:
    """x* = prox_{γnψ}(x* - γb∇f(x*)) with b = n; the paper has it for any b."""
    x_star, step, n = theory.solve(problem), 0.4, problem.n
    gradient = problem.gradient(x_star)
    for b in (n - 1, n, n + 1):
        moved = problem.prox(x_star - step * b * gradient, step * n)
        assert np.allclose(moved, x_star, atol=1e-9) is (b == n)


@pytest.mark.parametrize("name", ["l1", "l2", "elastic_net", "group_lasso"])
def test_lemma_prox_of_penalty_and_consensus(name: str) -> None:
    """argmin_z γR(z) + ½Σ‖z - x_m‖² = prox_{(γ/M)R}(mean), against a numerical minimiser."""
    psi, M, step = penalty(name), 3, 7.0
    points = np.random.default_rng(0).standard_normal((M, 6))
    claimed = psi.prox(points.mean(axis=0), step / M)

    def objective(z: Array) -> float:
        return float(step * psi.value(z) + 0.5 * np.sum((z - points) ** 2))

    found = minimize(
        objective,
        points.mean(axis=0),
        method="Powell",
        options={"xtol": 1e-10, "ftol": 1e-15, "maxiter": 20_000},
    )
    assert objective(claimed) <= found.fun + 1e-12
    np.testing.assert_allclose(claimed, found.x, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_theorem_shuffling_radius_bound(loss: str, seed: int) -> None:
    for n in (2, 5):
        problem = make(loss, n, 0.1, 0.05, 0.1, seed=seed)
        c = theory.constants(problem)
        for step in (1.0 / c.L_max, 1e-3 / c.L_max, 100.0):
            exact = theory.shuffling_radius(problem, c.x_star, step)
            assert exact <= theory.shuffling_radius_bound(c) * (1 + 1e-9)


def test_example_1_has_an_exception() -> None:
    """A prox after each of two linear functions is a full step from one x_0: γc_1 - (1 + γ)c_2."""
    c1, c2, step, psi = np.array([1.0, -2.0]), np.array([0.5, 4.0]), 0.3, rs.penalties.L2(1.0)

    def twice(x: Array) -> Array:
        first = psi.prox(x - step * c1, step)
        return psi.prox(first - step * c2, step)

    def full(x: Array) -> Array:
        return psi.prox(x - step * (c1 + c2), 2 * step)

    exception = step * c1 - (1 + step) * c2
    np.testing.assert_allclose(twice(exception), full(exception), rtol=1e-12)
    assert np.abs(twice(exception + 1.0) - full(exception + 1.0)).min() > 1e-2


# --- slips found later --------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "at_least"), [(30.0, 1.5), (300.0, 15.0), (3000.0, 150.0)])
def test_the_printed_theorem_on_decreasing_steps_is_false(mu: float, at_least: float) -> None:
    """r_0 = 0 and T = 3: the error exceeds 356σ_rad²/(μ³n²T²) by any factor, as μ grows."""
    n, T = 1000, 3
    problem = rs.Problem(np.ones((n, 1)), np.ones(n), rs.losses.Squared(), rs.penalties.L2(mu))
    x_star = theory.solve(problem)
    assert x_star[0] == pytest.approx(1 / (1 + mu), rel=1e-9)
    with pytest.warns(rs.StepWarning):
        found = rs.ProxRR(step=rs.steps.Decreasing(), epochs=T).solve(problem, x0=x_star)
    assert found.trace["step"][1:].tolist() == [1.0] * T  # as in the text: t ≤ t_0 = ⌈T/2⌉ = 2
    radius = 0.5 * ((n - 1) * mu / (1 + mu)) ** 2  # D(x*^{n-1}, x*)/γ², whatever the permutation
    claimed = 356 * radius / (mu**3 * n**2 * T**2)
    error = float((found.x[0] - x_star[0]) ** 2)
    assert error >= at_least * claimed
    c = theory.constants(problem, x_star, x0=x_star)
    assert error <= theory.decreasing_bound(c, T, radius)


def test_when_the_printed_schedules_exceed_1_over_l_max() -> None:
    for s in (0.2, 0.34, 0.9, 1.1, 50.0):
        a_n, b = 3.5 / s, 1.0  # s = 7b/(2an)
        lemma = 7 / (a_n * (s + 1))
        assert (lemma > 1 / b) is (s > 1)
        assert (2 * lemma > 1 / b) is (s > 1 / 3)


def test_the_factors_of_importance_resampling() -> None:
    """κ and n at most doubled, the gradient's part of the noise at most 2√2 times as large."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        L = rng.lognormal(0.0, 1.5, size=int(rng.integers(2, 30)))
        pool, weights = rs.orders.copies(L)
        n, N, largest = L.size, pool.size, float((weights * L).max())
        assert N <= 2 * n
        assert largest <= 2 * L.mean() * (1 + 1e-12)
        noise = np.sqrt(largest * N**2 / (L.mean() * n**2))  # of √(½L)·N‖∇f(x*)‖
        assert noise <= 2 * np.sqrt(2) * (1 + 1e-12)
    pool, weights = rs.orders.copies(np.array([1.0] * 9 + [1.01]))
    assert np.sqrt((weights * 1.0).max() * (pool.size / 10) ** 2) > 1.1  # more than 1 does occur


def test_the_homogeneous_theorem_needs_a_short_step() -> None:
    problem = rs.Problem(np.ones((1, 1)), np.zeros(1), rs.losses.Squared())
    clients = rs.federated.Federation([problem])
    after = rs.FedRR(step=3.0, rounds=1).solve(clients, x0=[1.0]).x[0]
    assert after**2 > 0 > (1 - 3.0) * 1.0  # the error, and the printed bound


def test_the_radius_theorem_needs_a_uniform_permutation() -> None:
    """f_i = (x - c_i)²/2 with c = 1, 1, -1, -1 in this order: x* = 0, σ*² = 1, ∇f(x*) = 0."""
    c = np.array([1.0, 1.0, -1.0, -1.0])
    limits = np.concatenate([[0.0], np.cumsum(c)])[1:4]  # x*^i/γ, i = 1, 2, 3
    radius = float(np.max(0.5 * limits**2))
    bound = 0.5 * 4 * (0.0 + 0.5 * 1.0)
    assert (radius, bound) == (2.0, 1.0)
    problem = rs.Problem(np.ones((4, 1)), c, rs.losses.Squared())
    assert theory.shuffling_radius(problem, np.zeros(1), 0.1) <= bound  # the uniform one


def test_the_radius_depends_on_the_step() -> None:
    problem = psi_strongly_convex("logistic")
    x_star = theory.solve(problem)
    short, long = (theory.shuffling_radius(problem, x_star, step) for step in (1e-3, 1.0))
    assert abs(long / short - 1) > 1e-3
    squared = psi_strongly_convex("squared")
    x_star = theory.solve(squared)
    short, long = (theory.shuffling_radius(squared, x_star, step) for step in (1e-3, 1.0))
    assert long == pytest.approx(short, rel=1e-6)


def test_decreasing_steps_where_f_is_strongly_convex() -> None:
    for n in (1, 2, 7, 100):
        for z in np.linspace(0.0, 1.0, 201):  # γμ
            assert (1 - z) ** n <= 1 / (1 + z * n) + 1e-15
            total = (1 + z * n) * sum((1 - z) ** j for j in range(n))
            assert total <= 2 * n + 1e-12
