"""Working sets: an epoch that reads few features still ends at the minimiser of all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_cases import (
    CASES,
    answers,
    case,
    csr,
    minimum,
    rows,
    shuffled,
    sizes,
    watched,
)

import reshuffle as rs
from reshuffle.solvers.exact.movement_monitor import NEVER, MovementMonitor
from reshuffle.solvers.exact.phase import Outcome
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.shuffled import ShuffledEpoch
from reshuffle.solvers.exact.view import View
from reshuffle.solvers.exact.working_sets import SMALL, SetRules

# --- the solution ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_finds_the_minimiser_of_all_features(name: str) -> None:
    problem, settings = case(name)
    assert problem.rows.stored >= SMALL
    result, past = watched(problem, tol=1e-10, epochs=5000, **settings)
    assert result.reached, result.message
    assert min(sizes(past)) < 0.7 * problem.features
    assert (sizes(past)[0] < problem.features) == name.startswith("wide")
    if name == "importance":
        assert "visits" in result.trace.header["importance"]
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - minimum(problem) <= 1e-10 * scale
    slope = np.linalg.norm(problem.gradient(np.zeros(problem.shape)))
    assert problem.gradient_mapping(result.x) <= 1e-4 * slope


def test_unpenalised_features_stay_unless_nothing_pulls_at_them() -> None:
    problem, settings = case("l1 of each")
    free = np.flatnonzero(problem.penalty.l1 == 0.0)  # type: ignore[attr-defined]
    pulled = free[free < 1800]  # columns from 1800 on are empty
    _, past = watched(problem, tol=1e-10, epochs=5000, **settings)
    for result in past:
        assert np.isin(pulled, result.state["active"]).all()
    last = past[-1]
    assert not np.isin(free[free >= 1800], last.state["active"]).any()
    assert np.count_nonzero(last.x[pulled]) == pulled.size


def test_the_first_guess_keeps_unpenalised_features() -> None:
    wide, _ = case("wide")
    l1 = np.full(6000, 10.0)
    l1[::50] = 0.0
    problem = rs.Problem(csr(wide), wide.targets, penalty=rs.penalties.L1(l1))
    guessed = shuffled().bind(problem).start(np.zeros(6000)).active
    np.testing.assert_array_equal(guessed, np.arange(0, 5400, 50))  # the others are empty


def test_without_a_penalty_no_feature_is_left_out() -> None:
    X = rows(d=120, n=1200)  # columns from 108 on are empty
    problem = rs.Problem(X, answers(X, "real"), rs.losses.Squared())
    result, past = watched(problem, tol=1e-10)
    assert result.reached
    for part in past:
        assert np.isin(np.arange(108), part.state["active"]).all()
    solution = np.linalg.lstsq(X[:, :108].toarray(), problem.targets)[0]
    np.testing.assert_allclose(result.x[:108], solution, atol=1e-8)


# --- features that have to come back -------------------------------------------------------------


def hidden() -> tuple[rs.Problem, int, int]:
    """y = a - ρb is orthogonal to b: the gradient at zero does not see b, the minimiser needs it."""
    rng = np.random.default_rng(0)
    n, d = 400, 20_000
    b = rng.standard_normal(n)
    a = 0.8 * b + 0.6 * rng.standard_normal(n)
    y = a - (a @ b) / (b @ b) * b
    noise = rows(n, d - 2, 85)
    pair: Any = np.column_stack([a, b])
    X: Any = sp.hstack([0.05 * noise, sp.csr_matrix(pair)], format="csr")
    return rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L1(0.03)), d - 2, d - 1


def test_a_feature_that_the_first_guess_leaves_out_comes_back() -> None:
    problem, a, b = hidden()
    solver = shuffled(tol=1e-12)
    first = solver.bind(problem).start(np.zeros(problem.shape)).active
    assert a in first
    assert b not in first
    result = solver.solve(problem)
    assert result.converged
    x = rs.theory.solve(problem)
    assert abs(x[b]) > 0.1
    np.testing.assert_allclose(result.x, x, atol=1e-6)


@pytest.mark.parametrize("name", ["csr", "wide", "multinomial", "intercept"])
@pytest.mark.parametrize(
    "rules",
    [SetRules(guess=50.0), SetRules(drift=0.0, smaller=1.0, slack=1.0), SetRules(slack=0.0)],
)
def test_bad_guesses_cost_time_and_nothing_else(name: str, rules: SetRules) -> None:
    class Rash(rs.ExactProxRR):
        set_rules = rules

    problem, settings = case(name)
    solver = Rash(tol=1e-10, epochs=5000, finish=False, **settings)
    if name == "wide" and rules.guess > 1.0:
        assert not solver.bind(problem).start(np.zeros(problem.shape)).active.size
    result = solver.solve(problem)
    assert result.converged, result.message
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - minimum(problem) <= 1e-10 * scale


class RashEpoch(ShuffledEpoch):
    """A shuffled epoch after which, in two epochs, every second active feature is set to zero and dropped."""

    name = "rash"

    def step(self, view: View) -> Outcome:
        outcome, sets = super().step(view), view.run.sets
        if view.epoch not in (3, 8):
            return outcome
        state = outcome.state
        active, size = state.active, len(state.g)
        kept = np.arange(size) % 2 == 0
        kept[active.size :] = True  # the intercept
        some = active[kept[: active.size]]
        x = sets.extend(sets.restrict(state.x, some), some)
        g, q = state.g[kept], state.q[kept]
        return outcome._replace(state=replace(state, point=Point(x), active=some, g=g, q=q))


@pytest.mark.parametrize("name", ["csr", "wide", "multinomial", "intercept"])
def test_features_that_are_dropped_too_early_come_back(name: str) -> None:
    problem, settings = case(name)
    result, past = watched(
        problem, tol=1e-10, epochs=5000, finish=True, phases=[RashEpoch()], **settings
    )
    assert result.epoch > 8
    assert np.diff(sizes(past)).max() > 0  # some did come back
    assert result.converged, result.message
    scale = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - minimum(problem) <= 1e-10 * scale


# --- the certificate -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csr", "wide", "unit", "dense", "importance", "ridge", "weights"])
def test_the_gap_of_a_restricted_run_is_never_smaller_than_the_true_one(name: str) -> None:
    problem, settings = case(name)
    best, scale = minimum(problem), problem.value(np.zeros(problem.shape))
    restricted = 0
    for epochs in (1, 2, 3, 4, 6, 9, 14, 20, 40):
        solver = shuffled(epochs=epochs, tol=1e-300, **settings)
        result = solver.solve(problem)
        true = (problem.objective(result.x) - best) / scale
        assert result.trace["gap"][-1] >= true - 1e-13
        restricted += result.state["active"].size < problem.features and true > 1e-9
    assert restricted >= 2  # so the comparison was not empty
    assert result.trace["gap"][-1] < 1e-2  # and the bound is of use


# --- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csr", "wide intercept", "importance", "dense"])
def test_the_same_bits_after_a_resume_at_any_epoch(name: str, tmp_path: Path) -> None:
    problem, settings = case(name)
    solver = shuffled(tol=1e-7, epochs=60, eval_every=1, **settings)
    whole, past = watched(problem, tol=1e-7, epochs=60, eval_every=1, **settings)
    assert len(set(sizes(past))) > 1
    for part in past[:-1]:
        resume: Any = part
        if part.epoch % 2:
            resume = tmp_path / "part.npz"
            part.save(resume)
        resumed = solver.solve(problem, resume=resume)
        assert resumed.digest == whole.digest
        assert resumed.epoch == whole.epoch
        for column in ("gradients", "step", "objective"):
            assert resumed.trace[column].tolist() == whole.trace[column].tolist()


def test_the_same_bits_after_a_resume_around_the_trial_step() -> None:
    X = rows(d=60, n=1500)
    X = sp.csr_matrix(X.multiply(np.geomspace(0.1, 1.0, 60)[None, :]))
    problem = rs.Problem(X, answers(X, "signs"), penalty=rs.penalties.L1(1e-4))
    solver = shuffled(tol=1e-300, epochs=24)
    whole, past = watched(problem, tol=1e-300, epochs=24)
    rates = [MovementMonitor.of(r.state["monitor"]).rate for r in past]
    assert 0 < min(rate for rate in rates if rate != NEVER) < np.inf  # the trial went on
    assert rates[-1] == NEVER  # and was judged
    steps = whole.trace["step"]
    assert np.isclose(steps[1:] / steps[:-1], 2.0).any()
    for part in past[:-1]:
        assert solver.solve(problem, resume=part).digest == whole.digest
