"""Offsets: every path sees l(a_iᵀx + b + o_i, y_i), as another way to write the same problem shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.datasets import Conversion, convert
from reshuffle.federated import split
from reshuffle.solvers.certificate import certificate_of

L, P = rs.losses, rs.penalties
RNG = np.random.default_rng(5)
N, D = 120, 5
X = RNG.standard_normal((N, D))
OFFSET = RNG.normal(0.3, 1.0, N)
SIGNS = np.where(X @ RNG.standard_normal(D) + OFFSET + RNG.logistic(size=N) > 0, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0] + OFFSET)).astype(float)
POSITIVE = np.exp(0.3 * X[:, 0] + OFFSET) * RNG.gamma(3.0, 1 / 3.0, N)
WEIGHTS = RNG.integers(0, 4, N).astype(float)
TARGETS = {"signs": SIGNS, "counts": COUNTS, "positive": POSITIVE, "real": POSITIVE}
EVERY = [
    example for kind in L.LOSSES for example in kind.examples() if not example.vector
] + [L.Tweedie(2.5)]  # fmt: skip
BOUNDED = [loss for loss in EVERY if loss.curvature < np.inf]


def with_a_column(loss: Any, **more: Any) -> tuple[rs.Problem, rs.Problem]:
    """A problem with offsets, and one whose last column is the offset: they agree where its coefficient is 1."""
    y = TARGETS[str(loss.targets)]
    wide = np.ascontiguousarray(np.column_stack([X, OFFSET]))
    return rs.Problem(X, y, loss, offset=OFFSET, **more), rs.Problem(wide, y, loss, **more)


@pytest.mark.parametrize("loss", EVERY, ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_value_and_gradient_are_those_of_a_column_with_coefficient_one(
    loss: Any, sparse: bool
) -> None:
    with_offset, with_column = with_a_column(loss, sample_weight=WEIGHTS, fit_intercept=True)
    if sparse:
        y = with_offset.targets
        with_offset = rs.Problem(sp.csr_matrix(X), y, loss, None, 0.0, WEIGHTS, True, offset=OFFSET)
    x = 0.2 * RNG.standard_normal(D + 1)
    longer = np.insert(x, D, 1.0)
    assert with_offset.value(x) == pytest.approx(with_column.value(longer), rel=1e-13)
    np.testing.assert_allclose(
        with_offset.gradient(x), np.delete(with_column.gradient(longer), D), rtol=1e-10, atol=1e-13
    )
    slopes, mean = with_offset.slopes(x)
    others, theirs = with_column.slopes(longer)
    np.testing.assert_allclose(slopes, others, rtol=1e-10)
    np.testing.assert_allclose(mean, np.delete(theirs, D), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(with_offset.component(3, x), with_offset.piece(3, 4).gradient(x))
    taken = with_offset.take(np.array([5, 2, 9], dtype=np.uint32))
    assert taken.offsets.tolist() == OFFSET[[5, 2, 9]].tolist()


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_sweeps_and_blocks_are_those_of_gradients(loss: Any) -> None:
    problem, _ = with_a_column(loss, fit_intercept=True)
    x, visits = 0.1 * RNG.standard_normal(D + 1), np.arange(N, dtype=np.uint32)[::-1].copy()
    expected = x.copy()
    for i in visits:
        expected -= 0.01 * problem.component(int(i), expected)
    problem.sweep(x, visits, 0.01)
    np.testing.assert_allclose(x, expected, rtol=1e-10)


@pytest.mark.parametrize("loss", [loss for loss in EVERY if loss.conjugate is not None], ids=repr)
def test_the_dual_lies_below_and_meets_at_the_minimum(loss: Any) -> None:
    problem, _ = with_a_column(loss, penalty=P.ElasticNet(0.02, 0.05))
    best = rs.ExactProxRR(tol=1e-13).solve(problem)
    assert best.converged
    measure = certificate_of(problem)
    scale = abs(problem.datafit.at_zero)
    least = problem.objective(best.x)
    assert measure.at(best.x) <= 1e-9
    for _ in range(20):
        x = best.x + 10.0 ** RNG.uniform(-4, 0) * RNG.standard_normal(D)
        assert measure.at(x) * scale >= problem.objective(x) - least - 1e-11 * scale


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
@pytest.mark.parametrize("phases", [["shuffled"], ["lbfgs", "shuffled"], ["newton_cg", "shuffled"]])
def test_every_phase_ends_at_the_same_point(loss: Any, phases: list[str]) -> None:
    problem, _ = with_a_column(loss, penalty=P.L2(0.1), sample_weight=WEIGHTS, fit_intercept=True)
    exact = rs.ExactProxRR(tol=1e-13).solve(problem).x
    other = rs.ExactProxRR(tol=1e-9, phases=phases).solve(problem).x
    np.testing.assert_allclose(other, exact, atol=1e-4)


def test_f_of_zero_has_the_offsets() -> None:
    problem = rs.Problem(X, COUNTS, L.Poisson(), offset=OFFSET)
    expected = np.mean(L.Poisson.oracle(OFFSET, COUNTS))
    assert problem.datafit.at_zero == pytest.approx(expected)
    assert problem.value(np.zeros(D)) == pytest.approx(expected)


def test_exposure_is_the_offset_of_its_logarithm_and_leaves_weights_alone() -> None:
    years = np.exp(OFFSET)
    one = rs.Problem(X, COUNTS, L.Poisson(), sample_weight=WEIGHTS, exposure=years)
    two = rs.Problem(X, COUNTS, L.Poisson(), sample_weight=WEIGHTS, offset=OFFSET)
    both = rs.Problem(X, COUNTS, L.Poisson(), sample_weight=WEIGHTS, offset=OFFSET / 2, exposure=np.sqrt(years))  # fmt: skip
    x = 0.1 * np.ones(D)
    assert one.value(x) == pytest.approx(two.value(x), rel=1e-14)
    assert both.value(x) == pytest.approx(two.value(x), rel=1e-14)
    np.testing.assert_array_equal(one.weights, two.weights)


def test_working_sets_paths_and_columns_keep_the_offsets() -> None:
    wide = RNG.standard_normal((80, 400))
    o = RNG.normal(size=80)
    y = np.where(wide[:, 0] + o + RNG.logistic(size=80) > 0, 1.0, -1.0)
    problem = rs.Problem(wide, y, penalty=P.L1(0.05), fit_intercept=True, offset=o)
    found = rs.ExactProxRR(tol=1e-10).solve(problem)
    assert found.converged
    shuffled = rs.ExactProxRR(tol=1e-8, phases=["shuffled"]).solve(problem)
    assert problem.objective(shuffled.x) == pytest.approx(problem.objective(found.x), abs=1e-7)
    part = problem.columns(np.array([0, 3], dtype=np.uint32))
    assert part.offsets is problem.offsets
    path = rs.rr_path(wide, y, lambdas=5, offset=o)
    assert path.converged.all()


def test_rows_on_disk_have_offsets(tmp_path: Path) -> None:
    n = 3000
    rows = RNG.standard_normal((n, 8))
    o = RNG.normal(size=n)
    y = np.where(rows[:, 0] + o + RNG.logistic(size=n) > 0, 1.0, -1.0)
    folder = tmp_path / "shards"
    np.savez(tmp_path / "data.npz", X=rows, y=y)
    convert(tmp_path / "data.npz", folder, Conversion(shard_rows=250))
    on_disk, targets = rs.datasets.open_shards(folder, memory=60_000)
    there = rs.Problem(on_disk, targets, penalty=P.L2(0.1), offset=o)
    assert there.datafit.on_disk
    here = rs.Problem(rows, targets, penalty=P.L2(0.1), offset=o)
    x = RNG.standard_normal(8)
    assert there.value(x) == pytest.approx(here.value(x), rel=1e-12)
    np.testing.assert_allclose(there.gradient(x), here.gradient(x), rtol=1e-9, atol=1e-12)
    one, two = rs.ExactProxRR(tol=1e-9).solve(there), rs.ExactProxRR(tol=1e-9).solve(here)
    assert one.converged
    np.testing.assert_allclose(one.x, two.x, atol=1e-4)


@pytest.mark.parametrize("solver", [rs.FedNewton(tol=1e-11), rs.ExactFedRR(rounds=300, tol=1e-10)])
def test_clients_keep_their_offsets(solver: Any) -> None:
    problem = rs.Problem(X, SIGNS, penalty=P.L2(0.05), fit_intercept=True, offset=OFFSET)
    exact = rs.ExactProxRR(tol=1e-13).solve(problem).x
    found = solver.solve(split(problem, clients=4, by="label", seed=0))
    assert found.converged
    np.testing.assert_allclose(found.x, exact, atol=1e-4)


def test_the_theory_sees_offsets() -> None:
    problem, wider = with_a_column(L.Logistic(), penalty=P.L2(0.1))
    radius = rs.theory.constants(problem)
    assert np.isfinite(radius.L_max)
    assert radius.L_max < rs.theory.constants(wider).L_max


BAD: list[tuple[dict[str, Any], str]] = [
    ({"offset": OFFSET[:-1]}, "offset must be 120 numbers"),
    ({"offset": np.where(np.arange(N) == 7, np.nan, OFFSET)}, "offset"),
    ({"offset": np.full(N, np.inf)}, "offset"),
    ({"offset": ["a"] * N}, "offset"),
    ({"offset": OFFSET[:, None]}, "offset must be 120 numbers"),
    ({"exposure": np.zeros(N)}, "exposure must be positive, got 0 in row 0"),
    ({"exposure": np.where(np.arange(N) == 3, -1.0, 1.0)}, "got -1 in row 3"),
    ({"exposure": np.where(np.arange(N) == 3, np.nan, 1.0)}, "exposure"),
]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_bad_offsets_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(rs.InputError, match=said):
        rs.Problem(X, COUNTS, L.Poisson(), **given)


def test_where_an_offset_has_no_meaning_it_is_refused() -> None:
    with pytest.raises(rs.InputError, match="exposure needs a loss whose mean is exp"):
        rs.Problem(X, SIGNS, L.Logistic(), exposure=np.ones(N))
    with pytest.raises(rs.InputError, match="loss of one margin"):
        rs.Problem(X, np.arange(N) % 3, L.Multinomial(), offset=OFFSET)
    with pytest.raises(rs.InputError, match="loss of one margin"):
        rs.Problem(X, np.column_stack([COUNTS, COUNTS]), L.Squared(), offset=OFFSET)


def test_a_problem_says_that_its_offsets_changed() -> None:
    """A run goes on only where the offsets are the same."""
    problem = rs.Problem(X, SIGNS, penalty=P.L2(0.05), offset=OFFSET)
    other = rs.Problem(X, SIGNS, penalty=P.L2(0.05))
    begun = rs.ProxRR(epochs=2).solve(problem)
    with pytest.raises(rs.InputError):
        rs.ProxRR(epochs=4).solve(other, resume=begun)
    assert rs.ProxRR(epochs=4).solve(problem, resume=begun).epoch == 4
