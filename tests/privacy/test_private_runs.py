"""Runs on one machine: what the result says of ε, what it does not say of the data, and where the noise comes from."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.npz_archive import read_archive
from reshuffle.privacy import SampleLevel, epsilon_of_releases

pytest.importorskip("dp_accounting")
LEVEL = SampleLevel(clip=1.0, noise=2.0, delta=1e-4)


def problem_of(n: int = 103, seed: int = 0, **settings: Any) -> rs.Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.sign(X @ [1.0, -1.0, 0.0, 0.0] + 0.1 * rng.normal(size=n))
    return rs.Problem(X, y, **{"penalty": rs.penalties.L1(0.01)} | settings)


def test_a_run_with_hardly_any_noise_is_the_run_without() -> None:
    """Of the same seed, with a clip that cuts nothing. Without a ridge the last batch may be shorter than the others."""
    common: dict[str, Any] = {"step": 0.5, "epochs": 3, "batch_size": 10, "seed": 3}
    problems = problem_of(fit_intercept=True), problem_of(100, ridge=0.1, fit_intercept=True)
    steps: Any = ("epoch", "step")
    for prox, problem in product(steps, problems):
        level = SampleLevel(clip=1e3, noise=1e-15, delta=1e-4)
        private = rs.ProxRR(privacy=level, prox=prox, **common).solve(problem)
        plain = rs.ProxRR(prox=prox, **common).solve(problem)
        np.testing.assert_allclose(private.x, plain.x, atol=1e-9)


def test_the_noise_is_as_large_as_claimed() -> None:
    """Steps with silent gradients are sums of noise alone: variance (γ·a·z·C)² for each of them."""
    X = np.zeros((40, 2000))
    X[:, 0] = 1e-9  # rows without influence
    problem = rs.Problem(X, np.arange(40) % 2)
    solver = rs.ProxRR(
        step=0.5, epochs=2, batch_size=10, privacy=SampleLevel(clip=3.0, noise=2.0, delta=1e-3)
    )
    moved = solver.solve(problem).x
    expected = 0.5 * (4 / 40) * 2.0 * 3.0 * np.sqrt(8)  # γ·a·z·C over eight steps
    assert moved.std() == pytest.approx(expected, rel=0.1)


def test_the_seed_of_the_noise_is_not_the_run_s() -> None:
    solver = rs.ProxRR(step=0.5, epochs=1, batch_size=20, seed=0, privacy=LEVEL)
    problem = problem_of()
    assert not np.array_equal(solver.solve(problem).x, solver.solve(problem).x)


def test_the_prox_comes_after_the_noise() -> None:
    problem = problem_of(penalty=rs.penalties.L1(0.3))
    with pytest.warns(rs.StepWarning, match="or smaller$"):
        found = rs.ProxRR(step=0.2, epochs=3, batch_size=50, privacy=LEVEL).solve(problem).x
    assert np.count_nonzero(found) == 0


def test_neither_the_trace_nor_the_fingerprint_tells_of_the_data() -> None:
    problem = problem_of()
    result = rs.ProxRR(step=0.5, epochs=2, batch_size=20, privacy=LEVEL).solve(problem)
    assert np.isnan(result.trace["objective"]).all()
    assert np.isnan(result.trace["gap"]).all()
    other = problem_of(seed=1)
    assert dict(other.fingerprint) != dict(problem.fingerprint)
    same = rs.ProxRR(step=0.5, epochs=2, batch_size=20, privacy=LEVEL).solve(other)
    assert dict(result.fingerprint) == dict(same.fingerprint)


def test_result_and_header_carry_the_guarantee(tmp_path: Path) -> None:
    result = rs.ProxRR(step=0.5, epochs=5, batch_size=20, privacy=LEVEL).solve(problem_of())
    spent = result.privacy
    assert spent is not None
    assert spent.epsilon == epsilon_of_releases(2.0, 5, 1e-4)
    assert (spent.delta, spent.unit, spent.releases) == (1e-4, "sample", 5)
    result.save(tmp_path / "run.npz")
    assert rs.Result.load(tmp_path / "run.npz").privacy == spent
    assert "ε = " in result.summary()
    assert rs.ProxRR(epochs=1).solve(problem_of()).privacy is None


def test_epsilon_accumulates_over_resumed_runs(tmp_path: Path) -> None:
    problem, common = problem_of(), {"step": 0.5, "batch_size": 20, "privacy": LEVEL}
    first = rs.ProxRR(epochs=3, **common).solve(problem)  # type: ignore[arg-type]
    first.save(tmp_path / "run.npz")
    longer = rs.ProxRR(epochs=7, **common).solve(problem, resume=tmp_path / "run.npz")  # type: ignore[arg-type]
    assert longer.privacy is not None
    assert longer.privacy.releases == 7
    assert longer.privacy.epsilon == epsilon_of_releases(2.0, 7, 1e-4)


def test_an_epsilon_that_was_spent_is_not_stretched_over_more_epochs() -> None:
    problem = problem_of()
    level = SampleLevel(clip=1.0, epsilon=2.0, delta=1e-4)
    first = rs.ProxRR(step=0.5, epochs=3, privacy=level).solve(problem)
    assert first.privacy is not None
    assert first.privacy.epsilon <= 2.0
    with pytest.raises(rs.InputError, match="epochs"):
        rs.ProxRR(step=0.5, epochs=6, privacy=level).solve(problem, resume=first)
    with pytest.raises(rs.InputError, match="privacy"):
        rs.ProxRR(step=0.5, epochs=6).solve(problem, resume=first)


def test_a_run_that_is_stopped_has_spent_what_it_did() -> None:
    seen: list[Any] = []

    def stop(result: rs.Result) -> bool:
        seen.append(result.privacy)
        return result.epoch == 2

    level = SampleLevel(clip=1.0, epsilon=2.0, delta=1e-4)
    result = rs.ProxRR(step=0.5, epochs=8, privacy=level).solve(problem_of(), callbacks=[stop])
    assert result.privacy is not None
    assert result.privacy.releases == 2
    assert result.privacy.epsilon < 2.0
    assert [found.releases for found in seen] == [1, 2]


def test_an_allocation_draws_steps_in_secret() -> None:
    order = rs.orders.Allocation()
    rng = np.random.default_rng(0)
    visits, ends = order.allocate(np.arange(1000, dtype=np.uint32), 50, rng)
    assert np.array_equal(np.sort(visits), np.arange(1000))
    lengths = np.diff(ends, prepend=0)
    assert lengths.size == 50
    assert lengths.std() == pytest.approx(np.sqrt(20 * 0.98), rel=0.5)
    assert ends[-1] == 1000


def test_an_allocation_before_its_end_has_the_account_of_any_order() -> None:
    from reshuffle.privacy import Account

    account = Account(LEVEL, 2.0, steps=6)
    assert account.after(4, final=False).epsilon == epsilon_of_releases(2.0, 4, 1e-4)


@pytest.mark.slow
def test_a_run_by_allocation_has_a_smaller_epsilon() -> None:
    pytest.importorskip("PLD_accounting")
    solver = rs.ProxRR(
        step=0.5, epochs=3, batch_size=10, order=rs.orders.Allocation(), privacy=LEVEL
    )
    spent = solver.solve(problem_of()).privacy
    assert spent is not None
    assert spent.epsilon < epsilon_of_releases(2.0, 3, 1e-4)
    assert "balls and bins" in spent.account


def test_functions_that_are_known_by_their_gradients_alone() -> None:
    oracle = rs.OracleProblem(
        n=30, dim=3, gradient=lambda i, x: 100.0 * (x - i), value=lambda x: 0.0
    )
    level = SampleLevel(clip=0.1, noise=1e-12, delta=1e-3)
    found = rs.ProxRR(step=1.0, epochs=1, privacy=level).solve(oracle)
    assert 0 < np.linalg.norm(found.x) <= 30 * 0.1


def test_model_files_carry_the_guarantee(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    solver = rs.ProxRR(step=0.1, epochs=4, batch_size=10, privacy=LEVEL)
    model = rs.RRClassifier(solver=solver).fit(X, y)
    model.save(tmp_path / "model.npz", X, y)
    again = rs.estimators.load(tmp_path / "model.npz")
    assert again.privacy_ == model.privacy_
    assert again.privacy_.releases == 4
    with read_archive(tmp_path / "model.npz", "model file", 2) as stored:
        assert stored.about["data"] is None
    assert rs.RRClassifier().fit(X, y).privacy_ is None


def test_the_ridge_does_not_tell_how_long_a_secret_batch_was() -> None:
    """With steps of noise and ridge alone, x shrinks by the same factor in each, whatever was allocated to it."""
    problem = rs.Problem(np.zeros((20, 2)), np.arange(20) % 2, ridge=0.5)
    models = []
    for ends in ([10, 20], [0, 20], [20, 20]):
        x, visits = np.ones(2), np.arange(20, dtype=np.uint32)
        problem.clipped_sweep(
            x,
            visits,
            np.array(ends),
            0.1,
            average=0.1,
            clip=1.0,
            noise=lambda count: np.zeros((count, 2)),
            share=10.0,
        )
        models.append(x.tolist())
    assert models[0] == models[1] == models[2]
    assert models[0][0] == pytest.approx((1 - 0.1 * 0.1 * 10.0 * 0.5) ** 2)
