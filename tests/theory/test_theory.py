"""Constants, radii, bounds and complexities, against definitions written out in numpy."""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import LOSSES, oracle, random_data, sparse

import reshuffle as rs
from reshuffle import theory
from reshuffle.theory.components import components

Array = NDArray[np.float64]


def example(
    loss: str = "logistic",
    n: int = 6,
    d: int = 3,
    *,
    csr: bool = False,
    ridge: float = 0.0,
    weighted: bool = False,
    intercept: bool = False,
    seed: int = 0,
) -> tuple[rs.Problem, rs.OracleProblem]:
    """A problem with an elastic net, and the same as a plain numpy oracle."""
    X, y = random_data(LOSSES[loss], n, d, seed)
    weights = np.linspace(0.5, 2.0, n) if weighted else None
    problem = rs.Problem(
        sparse(X) if csr else X,
        y,
        LOSSES[loss],
        rs.penalties.ElasticNet(0.02, 0.1),
        ridge,
        weights,
        intercept,
    )
    return problem, oracle(problem, X, y)


KINDS: list[dict[str, Any]] = [
    {},
    {"csr": True, "ridge": 0.3},
    {"ridge": 0.3, "weighted": True, "intercept": True},
    {"csr": True, "weighted": True, "intercept": True},
    {"loss": "squared", "ridge": 0.1},
    {"loss": "huber", "csr": True},
    {"loss": "squared_hinge", "ridge": 0.2},
    {"loss": "multinomial", "csr": True, "ridge": 0.2, "intercept": True, "weighted": True},
]


def gradients_of(plain: rs.OracleProblem, x: Array) -> Array:
    return np.array([plain.component(i, x.ravel()) for i in range(plain.n)])


# --- constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_constants_are_their_definitions(kind: dict[str, Any]) -> None:
    problem, plain = example(**kind)
    x0 = np.full(problem.shape, 0.25)
    c = theory.constants(problem, x0=x0)
    g = gradients_of(plain, c.x_star)
    assert problem.gradient_mapping(c.x_star) <= 1e-11
    np.testing.assert_allclose(c.grad_norm, np.linalg.norm(g.mean(axis=0)), rtol=1e-12)
    np.testing.assert_allclose(c.sigma_star_sq, np.var(g, axis=0).sum(), rtol=1e-11)
    np.testing.assert_allclose(c.r0, np.sum((x0 - c.x_star) ** 2), rtol=1e-12)
    constants = problem.smoothness.individual
    assert (c.n, c.L_min, c.L_max) == (problem.n, constants.min(), constants.max())
    assert c.L_mean == pytest.approx(constants.mean(), rel=1e-14)
    assert c.L_f <= c.L_mean * (1 + 1e-12)
    intercept = kind.get("intercept", False)
    assert c.mu_f == (0.0 if intercept else kind.get("ridge", 0.0))
    assert c.mu_psi == (0.0 if intercept else 0.1)


def test_constants_of_an_oracle_and_of_a_given_solution() -> None:
    problem, plain = example(ridge=0.2)
    result = rs.FISTA().solve(problem)
    mine, others = theory.constants(problem, result), theory.constants(plain, result.x)
    assert mine.sigma_star_sq == pytest.approx(others.sigma_star_sq, rel=1e-12)
    assert mine.grad_norm == pytest.approx(others.grad_norm, rel=1e-12)
    assert others.mu_f == 0.0  # an oracle does not say
    with pytest.raises(rs.InputError, match="shape"):
        theory.constants(problem, np.zeros(2))


def test_constants_of_a_problem_without_minimiser_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules["reshuffle.theory.constants"], "FISTA", partial(rs.FISTA, epochs=20)
    )
    separable = rs.Problem(np.eye(2), [1.0, -1.0])
    with pytest.raises(rs.InputError, match="FISTA did not find x"):
        theory.constants(separable)


@pytest.mark.parametrize("kind", [{}, {"ridge": 0.3, "csr": True, "intercept": True}])
def test_importance_constants_are_those_of_the_resampled_problem(kind: dict[str, Any]) -> None:
    problem, _ = example(n=9, **kind)
    resampled = resample(problem)
    c = theory.constants(problem, importance=True)
    d = theory.constants(resampled, c.x_star)
    assert c.n == d.n > problem.n
    for name in ("L_min", "L_max", "L_mean", "sigma_star_sq", "grad_norm", "mu_f", "mu_psi", "r0"):
        assert getattr(c, name) == pytest.approx(getattr(d, name), rel=1e-11), name
    losses = problem.smoothness.individual - problem.ridge
    assert c.L_max <= 2 * losses.mean() + problem.ridge


def resample(problem: rs.Problem) -> rs.Problem:
    """n_i = ⌈L_i/L̄⌉ rows for each row, each with weight N/(n·n_i), as data."""
    pool, weights = rs.orders.copies(problem.smoothness.individual - problem.ridge)
    rows = problem.rows
    size = (problem.n, problem.features)
    X = rows.values if rows.dense else sp.csr_matrix(rows, size).toarray()
    return rs.Problem(
        X[pool],
        problem.targets[pool],
        problem.loss,
        problem.penalty,
        problem.ridge,
        weights[pool],
        problem.fit_intercept,
    )


# --- one by one ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_divergences_and_walks(kind: dict[str, Any]) -> None:
    problem, plain = example(**kind)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, *problem.shape))
    mine, others = components(problem, x), components(plain, x.ravel())
    g = gradients_of(plain, x)
    np.testing.assert_allclose(mine.gradients(), g, atol=1e-13)
    np.testing.assert_allclose(mine.squared_norms(), (g**2).sum(axis=1), rtol=1e-12, atol=1e-14)
    values = [problem.take(np.array([i], dtype=np.uint32)) for i in range(problem.n)]
    expected = [f.value(y) - f.value(x) - np.vdot(f.gradient(x), y - x) for f in values]
    np.testing.assert_allclose(mine.divergences(y), expected, atol=1e-12)
    smooth = kind.get("loss") not in ("huber", "squared_hinge")  # quadrature meets kinks there
    rtol, atol = (1e-9, 1e-12) if smooth else (0.05, 0.02)
    np.testing.assert_allclose(others.divergences(y.ravel()), expected, rtol, atol)

    order, step = rng.permutation(problem.n).astype(np.uint32), 0.37
    points = x.ravel() - step * np.vstack([0 * g[:1], np.cumsum(g[order], axis=0)[:-1]])
    along = [mine.divergences(p.reshape(problem.shape))[i] for p, i in zip(points, order, strict=True)]  # fmt: skip
    np.testing.assert_allclose(mine.walk(order, step), along, atol=1e-12)
    np.testing.assert_allclose(others.walk(order, step), along, rtol, atol)


# --- the shuffling radius --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0.05, 1.0])
def test_exact_radius_is_the_mean_over_all_permutations(kind: dict[str, Any], step: float) -> None:
    problem, _ = example(n=5, **kind)
    c = theory.constants(problem)
    functions = components(problem, c.x_star)
    walks = [functions.walk(np.array(p, dtype=np.uint32), step) for p in permutations(range(5))]
    expected = np.mean(walks, axis=0)[1:].max() / step**2
    radius = theory.shuffling_radius(problem, c.x_star, step)
    assert radius == pytest.approx(expected, rel=1e-9)
    assert 0 < radius <= theory.shuffling_radius_bound(c)


def test_radius_depends_on_the_step_except_for_quadratics() -> None:
    quadratic, logistic = example("squared")[0], example("logistic")[0]
    for problem, same in ((quadratic, True), (logistic, False)):
        x_star = theory.solve(problem)
        small, large = (theory.shuffling_radius(problem, x_star, s) for s in (0.01, 1.0))
        assert (abs(small / large - 1) < 1e-8) is same


def test_exact_radius_refuses_many_functions_and_bad_steps() -> None:
    problem, _ = example(n=13)
    with pytest.raises(rs.InputError, match=r"n ≤ 12.*n = 13.*shuffling_radius_estimate"):
        theory.shuffling_radius(problem, np.zeros(3), 0.1)
    with pytest.raises(rs.InputError, match="step"):
        theory.shuffling_radius(problem, np.zeros(3), 0.0)
    with pytest.raises(rs.InputError, match="permutations ≥ 2"):
        theory.shuffling_radius_estimate(problem, np.zeros(3), 0.1, permutations=1)


def test_a_single_function_has_no_radius() -> None:
    problem = rs.Problem(np.ones((1, 1)), [1.0], rs.losses.Squared(), rs.penalties.L2(1.0))
    c = theory.constants(problem)
    assert theory.shuffling_radius(problem, c.x_star, 0.5) == 0.0
    assert theory.shuffling_radius_estimate(problem, c.x_star, 0.5).high == 0.0
    assert theory.shuffling_radius_bound(c) == 0.0


def test_the_interval_of_the_estimate_covers() -> None:
    """Over 100 seeds a 90% interval misses at most 10 + 3·√(100·0.1·0.9) times."""
    problem, _ = example(n=8, ridge=0.1)
    x_star, step = theory.solve(problem), 1.0 / problem.smoothness.L_max
    exact = theory.shuffling_radius(problem, x_star, step)
    estimates = [
        theory.shuffling_radius_estimate(problem, x_star, step, confidence=0.9, seed=s)
        for s in range(100)
    ]
    misses = sum(not e.low <= exact <= e.high for e in estimates)
    assert misses <= 10 + 3 * sqrt(100 * 0.1 * 0.9)
    assert np.mean([e.high - e.low for e in estimates]) < exact  # and it is not a trivial one
    more = theory.shuffling_radius_estimate(problem, x_star, step, permutations=1000)
    assert more.low <= exact <= more.high
    assert more.value == pytest.approx(exact, rel=0.1)
    again = theory.shuffling_radius_estimate(problem, x_star, step, confidence=0.9, seed=7)
    assert again == estimates[7]


def test_the_estimate_of_many_samples_needs_little_memory() -> None:
    n = 20_000
    X, y = rs.datasets.synthetic(n, 500, stored=10, seed=0)
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(1e-4, 1e-3), ridge=1e-3)
    x_star = np.random.default_rng(0).standard_normal(500) * 0.1
    theory.shuffling_radius_estimate(problem, x_star, 0.1, permutations=2)  # compile
    tracemalloc.start()
    estimate = theory.shuffling_radius_estimate(problem, x_star, 0.1, permutations=8)
    c = theory.constants(problem, x_star)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 8 * n  # n·d would be 500·8·n, n² 20,000·8·n
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.low <= theory.shuffling_radius_bound(c)


# --- bounds ------------------------------------------------------------------------------------


def made_up(**given: float) -> theory.Constants:
    base = theory.Constants(
        n=10, L_min=1.0, L_mean=1.5, L_max=2.0, L_f=1.2, mu_f=0.1, mu_psi=0.05,
        sigma_star_sq=0.7, grad_norm=0.3, r0=4.0, x_star=np.zeros(2),
    )  # fmt: skip
    return replace(base, **given)  # type: ignore[arg-type]


def test_bounds_by_hand() -> None:
    c, T = made_up(), np.array([0, 1, 7])
    rad = 2 / 2 * 10 * (10 * 0.09 + 0.35)
    assert theory.shuffling_radius_bound(c) == pytest.approx(rad)
    f = 0.98 ** (10 * T) * 4 + 2 * 0.04 * rad / 0.1
    np.testing.assert_allclose(theory.proxrr_f_bound(c, T, 0.2), f)
    psi = 1.2 ** -T.astype(float) * 4 + 0.04 * 0.5 / 0.05
    np.testing.assert_allclose(theory.proxrr_psi_bound(c, T, 0.2, radius=0.5), psi)
    only_f, only_psi = made_up(mu_psi=0.0), made_up(mu_f=0.0)
    np.testing.assert_allclose(
        theory.proxsgd_bound(only_f, T, 0.25), 0.975 ** (10 * T) * 4 + 2 * 0.25 * 0.7 / 0.1
    )
    np.testing.assert_allclose(
        theory.proxsgd_bound(only_psi, T, 0.25),
        1.025 ** -(10.0 * T) * 4 + 0.25 * 0.7 / 0.05,
    )
    kappa = 2.0 / 0.05
    np.testing.assert_allclose(
        theory.decreasing_bound(c, T[1:], 0.5),
        np.exp(-10 * T[1:] / (2 * (kappa / 2 + 10))) * 4 + 343 * 0.5 / (0.05**3 * 100) / T[1:] ** 2,
    )
    flat = made_up(mu_psi=1.0, L_max=2.0)  # κ = 2, n = 10: 28/(μL²) exceeds 343/(μ³n²)
    expected = np.exp(-10 * 7 / (2 + 20)) * 4 + 28 / 4 * 0.5 / 49
    assert theory.decreasing_bound(flat, 7, 0.5) == pytest.approx(expected)
    assert theory.decreasing_bound(c, 0) == np.inf
    assert np.ndim(theory.proxrr_f_bound(c, 3, 0.2)) == 0


def test_proxsgd_bound_implies_the_theorem_where_the_theorem_is_true() -> None:
    for mu in (0.01, 0.5, 2.0):
        c = made_up(mu_f=0.0, mu_psi=mu)
        for step in (0.25, 0.1, 0.01):
            T = np.linspace(0, 5, 51)
            printed = (1 - step * mu) ** (10 * T) * 4 + 2 * step * 0.7 / mu
            assert np.all(theory.proxsgd_bound(c, T, step) <= printed * (1 + 1e-12))


def test_recursion_is_below_both_theorems() -> None:
    T = np.arange(30)
    for step in (0.5, 0.1, 0.01):
        f, psi = made_up(mu_psi=0.0), made_up(mu_f=0.0)
        for c, bound in ((f, theory.proxrr_f_bound), (psi, theory.proxrr_psi_bound)):
            r = theory.recursion_bound(c, [step] * 29)
            b = bound(c, T, step)
            assert np.all(r <= b * (1 + 1e-12))
            assert r[-1] > 0.4 * b[-1]  # of the same size, so that this test could fail


def test_bounds_refuse_what_their_theorems_do_not_cover() -> None:
    c = made_up()
    theory.proxrr_f_bound(c, 1, 0.5)
    for bound, largest in (
        (theory.proxrr_f_bound, 0.5),
        (theory.proxrr_psi_bound, 0.5),
        (theory.proxsgd_bound, 0.25),
    ):
        bound(c, 1, largest)
        with pytest.raises(rs.InputError, match=f"steps up to {largest}"):
            bound(c, 1, 1.01 * largest)
        with pytest.raises(rs.InputError, match="strongly convex"):
            bound(made_up(mu_f=0.0, mu_psi=0.0), 1, largest)
        with pytest.raises(rs.InputError, match="T must not be negative"):
            bound(c, -1, largest)
    with pytest.raises(rs.InputError, match="steps up to"):
        theory.recursion_bound(c, [0.5, 0.51])


# --- decreasing steps ------------------------------------------------------------------------


@given(st.floats(0.01, 50.0), st.integers(1, 300), st.sampled_from([0.0, 1.0, 1e3]))
def test_decreasing_bound_holds_for_every_recursion(s: float, T: int, r0: float) -> None:
    """s = 7L_max/(4μn); L_max = 1, n = 10."""
    c = made_up(L_max=1.0, mu_psi=7 / (40 * s), mu_f=0.0, r0=r0)
    steps = theory.decreasing_steps(c, T)
    assert steps.shape == (T,)
    assert steps.max() <= 1.0
    r = theory.recursion_bound(c, steps, radius=1.0)[-1]
    assert r <= theory.decreasing_bound(c, T, radius=1.0) * (1 + 1e-12)


def lemma(s: float, T: int, *, clip: bool) -> tuple[float, float]:
    """r_T of the lemma's recursion with equality, r_0 = 0, c = an = 1, and its bound 1421/T²."""
    b, half, r = 2 * s / 7, -(-T // 2), 0.0
    for t in range(T):
        step = 1 / b if t <= half or T <= 2 * s else 7 / (s + t - half)
        step = min(step, 1 / b) if clip else step
        r = (r + step**3) / (1 + step)
    return r, 1421 / T**2


def test_the_printed_lemma_on_decreasing_steps_is_false_for_few_epochs_and_many_samples() -> None:
    for T, s in ((1, 0.05), (3, 0.2), (10, 0.03), (31, 0.001)):
        for clip in (True, False):
            r, claimed = lemma(s, T, clip=clip)
            assert r > claimed
    for T in (1, 3, 10, 31, 200):  # and with s ≥ 1/2 it is true, with 1372 for 1421
        for s in (0.5, 1.0, 7.3, 40.0):
            assert lemma(s, T, clip=True)[0] <= 1372 / T**2


# --- steps and complexities ------------------------------------------------------------------


@pytest.mark.parametrize("eps", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("radius", [None, 3.0, 0.0])
@pytest.mark.parametrize("noise", [0.7, 0.0])
def test_the_tuned_step_and_the_complexity_give_the_accuracy(
    eps: float, radius: float | None, noise: float
) -> None:
    c = made_up(sigma_star_sq=noise)
    step, K = theory.proxrr_f_step(c, eps, radius), theory.proxrr_f_complexity(c, eps, radius)
    assert theory.proxrr_f_bound(made_up(sigma_star_sq=noise), K / 10, step, radius) <= 1.5 * eps
    step, K = theory.proxrr_psi_step(c, eps, radius), theory.proxrr_psi_complexity(c, eps, radius)
    assert theory.proxrr_psi_bound(c, K / 10, step, radius) <= 1.5 * eps
    for one in (made_up(mu_psi=0.0, sigma_star_sq=noise), made_up(mu_f=0.0, sigma_star_sq=noise)):
        step, K = theory.proxsgd_step(one, eps), theory.proxsgd_complexity(one, eps)
        assert theory.proxsgd_bound(one, K / 10, step) <= eps
        assert K < 1e3 * theory.proxrr_f_complexity(c, eps) / eps  # not trivially many


def test_the_printed_proxsgd_step_and_complexity_do_not_give_the_accuracy() -> None:
    """σ* for σ*² in the step: too large a step where σ* > 1. κ + σ*²/(εμ²): too few iterations."""
    c, eps = made_up(mu_psi=0.0, sigma_star_sq=100.0), 1e-2
    printed = min(1 / (2 * c.L_max), eps * c.mu_f / (4 * sqrt(c.sigma_star_sq)))
    assert theory.proxsgd_bound(c, 1e9, printed) > 4 * eps
    assert theory.proxsgd_bound(c, 1e9, theory.proxsgd_step(c, eps)) <= eps / 2 * (1 + 1e-9)
    K = (c.L_max / c.mu_f + c.sigma_star_sq / (eps * c.mu_f**2)) * log(2 * c.r0 / eps)
    assert theory.proxsgd_bound(c, K / c.n, theory.proxsgd_step(c, eps)) > 50 * eps


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.7, 50.0])
@pytest.mark.parametrize("gradient", [0.0, 0.3, 20.0])
@pytest.mark.parametrize("psi", [False, True])
def test_proxsgd_cheaper_is_where_the_complexities_cross(
    noise: float, gradient: float, psi: bool
) -> None:
    mu = {"mu_f": 0.0, "mu_psi": 0.05} if psi else {"mu_f": 0.05, "mu_psi": 0.0}
    c = made_up(sigma_star_sq=noise, grad_norm=gradient, r0=1e9, **mu)
    rr = theory.proxrr_psi_complexity if psi else theory.proxrr_f_complexity
    for per, visits in (("gradients", 1), ("prox", c.n)):
        low, high = theory.proxsgd_cheaper(c, per)  # type: ignore[arg-type]
        for eps in np.geomspace(1e-14, 1e8, 200):
            cheaper = theory.proxsgd_complexity(c, eps) < rr(c, eps) / visits
            if min(abs(eps / max(low, 1e-99) - 1), abs(eps / max(high, 1e-99) - 1)) > 1e-6:
                assert cheaper == (low < eps < high), (per, eps, low, high)


def test_overtaking_is_where_the_leading_terms_cross() -> None:
    c = made_up(grad_norm=2.0, mu_psi=0.0)
    found = theory.overtaking(c)
    kappa, spread = c.L_max / c.mu_f, sqrt(c.n) * c.grad_norm + sqrt(c.sigma_star_sq)

    def rr(eps: float) -> float:  # the noise terms of the two complexities
        return sqrt(kappa * c.n) / (sqrt(eps) * c.mu_f) * spread

    def sgd(eps: float) -> float:
        return c.sigma_star_sq / (eps * c.mu_f**2)

    assert rr(found.gradients) == pytest.approx(sgd(found.gradients))
    assert rr(found.prox_small) / c.n == pytest.approx(sgd(found.prox_small))
    assert rr(found.prox_large) / c.n == pytest.approx(kappa)
    printed = c.n / (c.L_max * c.mu_f) * (c.n * c.grad_norm**2 + c.sigma_star_sq)
    assert rr(printed) / c.n < kappa / 5  # n in place of 1/n: ProxRR has won long before


# --- clients -----------------------------------------------------------------------------------


def federation(sizes: list[int], ridge: float) -> tuple[Any, Any, list[rs.Problem]]:
    """A problem, the same as an oracle, and its samples on clients of these sizes."""
    whole, plain = example(n=sum(sizes), ridge=ridge, seed=3)
    ends = np.cumsum([0, *sizes])
    parts = [np.arange(a, b, dtype=np.uint32) for a, b in pairwise(ends)]
    return whole, plain, [whole.take(part) for part in parts]


@pytest.mark.parametrize("sizes", [[3, 3], [5, 1, 3]])
def test_client_constants_are_their_definitions(sizes: list[int]) -> None:
    whole, _, clients = federation(sizes, 0.2)
    x_star = theory.solve(whole)
    c = theory.client_constants(clients, x_star)
    assert (c.M, c.N, c.n) == (len(sizes), sum(sizes), max(sizes))
    squares = 0.0
    for m, client in enumerate(clients):
        g = components(client, x_star).gradients()
        assert c.grad_norms[m] == pytest.approx(np.linalg.norm(g.sum(axis=0)), rel=1e-12)
        assert c.sigma_sq[m] == pytest.approx(np.var(g, axis=0).sum(), abs=1e-14)
        squares += np.sum(g**2)
    assert c.sigma_star_sq == pytest.approx(squares / sum(sizes), rel=1e-12)
    assert c.L_max == pytest.approx(whole.smoothness.L_max, rel=1e-14)
    assert (c.mu_f, c.mu_R) == (0.2, 0.1)
    assert c.r0 == pytest.approx(np.sum(x_star**2))


@pytest.mark.parametrize("sizes", [[3, 3], [5, 1, 3]])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_lemma_fed_sigma(sizes: list[int], ridge: float) -> None:
    """The radius of ProxRR on the product space, clients padded with zero functions."""
    whole, plain, clients = federation(sizes, ridge)
    x_star = theory.solve(whole)
    M, n, d = len(sizes), max(sizes), whole.features

    starts = np.cumsum([0, *sizes])

    def gradient(i: int, xx: Array) -> Array:
        blocks = [
            plain.component(int(start) + i, x) if i < size else np.zeros(d)
            for start, size, x in zip(starts, sizes, xx.reshape(M, d), strict=False)
        ]
        return np.concatenate(blocks)

    product = rs.OracleProblem(n, M * d, gradient, value=lambda x: np.nan)
    c = theory.client_constants(clients, x_star)
    for step in (1.0 / c.L_max, 0.1 / c.L_max):
        exact = theory.shuffling_radius(product, np.tile(x_star, M), step)
        assert 0.005 * c.radius_bound < exact <= c.radius_bound


def test_federated_bounds_by_hand() -> None:
    c = theory.ClientConstants(
        sizes=np.array([4, 4]), grad_norms=np.array([0.0, 0.0]), sigma_sq=np.array([1.0, 3.0]),
        L_max=2.0, mu_f=0.1, mu_R=0.2, r0=5.0, x_star=np.zeros(1),
    )  # fmt: skip
    assert c.sigma_star_sq == 2.0
    assert c.radius_bound == 2 * (1 + 3)
    T = np.arange(4)
    hetero = (1 + 2 * 0.25 * 0.2 * 4) ** -T.astype(float) * 5 + 0.0625 * 2 / (2 * 0.2) * 4
    np.testing.assert_allclose(theory.fed_heterogeneous_bound(c, T, 0.25), hetero)
    homo = 0.975 ** (4 * T) * 5 + 0.0625 * 2 * 8 * 2 / (2 * 0.1)
    np.testing.assert_allclose(theory.fed_homogeneous_bound(c, T, 0.25), homo)
    assert theory.fed_homogeneous_bound(c, np.inf, 0.25) == pytest.approx(
        2 * theory.fed_bound(c, np.inf, 0.25)
    )
    with pytest.raises(rs.InputError, match="∇F_m"):
        theory.fed_homogeneous_bound(replace(c, grad_norms=np.array([0.0, 1.0])), T, 0.25)
    with pytest.raises(rs.InputError, match="one size"):
        theory.fed_bound(replace(c, sizes=np.array([4, 3])), T, 0.25)
    with pytest.raises(rs.InputError, match=r"steps up to 0\.5"):
        theory.fed_heterogeneous_bound(c, T, 0.6)
    with pytest.raises(rs.InputError, match="R strongly convex"):
        theory.fed_heterogeneous_bound(replace(c, mu_R=0.0), T, 0.25)
    with pytest.raises(rs.InputError, match="at least one"):
        theory.client_constants([], np.zeros(1))
