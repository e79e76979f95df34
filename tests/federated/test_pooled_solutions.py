"""ExactFedRR keeps its word: its defaults reach the pooled solution, and what goes wrong is said.

The long run of which this is a part: ``python -m benchmarks.pooled_solutions --drawn --named --random 300``.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from long_steps import LongSteps
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs
from benchmarks.federation_cases import DRAWN, random_federation
from benchmarks.pooled_solutions import judge
from reshuffle.federated.extrapolation import PATIENCE, ResidualMonitor
from reshuffle.federated.local import Corrected, Turn
from reshuffle.federated.server import Extrapolated
from reshuffle.randomness import Stream

L, P = rs.losses, rs.penalties
STALLED = {
    name: case
    for name, case in ((case.name, case) for case in DRAWN)
    if name.startswith("Squared") and name.endswith(("M = 1, draw 0", "M = 2, draw 6"))
}
"""Some of those that version 0.1.0 did not solve in 1,000 rounds."""


@pytest.mark.parametrize("name", STALLED)
def test_hardly_any_strong_convexity(name: str) -> None:
    assert 0 < judge("drawn", STALLED[name], 300).rounds


@pytest.mark.parametrize("seed", [4, 6, 9, 15, 22, 29, 38])
def test_random_federations(seed: int) -> None:
    outcome = judge("random", random_federation(seed), 300)
    assert outcome.rounds >= 0, outcome.line


def rotating() -> tuple[rs.Problem, Any]:
    """Forty unit rows that turn in the plane so that steps with γ = 1/L in their order cancel each other.

    The step matrix Q = γ Σ_j Π_{i>j}(I - γH_i) is singular there, and ∇f(0) is in its null space.
    """
    angles = 0.08810052821566058 * np.arange(40)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    S, Q = np.eye(2), np.zeros((2, 2))
    for row in X[::-1]:
        Q, S = Q + S, S @ (np.eye(2) - np.outer(row, row))
    null = np.linalg.svd(Q)[2][-1]
    w = np.linalg.solve(X.T @ X / 40, null)
    assert np.linalg.norm(Q @ null) < 1e-9
    return rs.Problem(X, X @ w, loss=L.Squared()), w


@pytest.mark.parametrize("settings", [{}, {"acceleration": 0}, {"step": None}])
def test_only_solutions_are_fixed_points(settings: dict[str, Any]) -> None:
    """Passes whose steps cancel are replaced by a plain step: x̂ = x only where ∇f(x) = h."""
    whole, w = rotating()
    clients = rs.federated.split(whole, by=[list(range(40))])
    common: dict[str, Any] = {"step": 1.0, "local_passes": 1, "order": rs.orders.Cyclic()}
    result = rs.ExactFedRR(rounds=300, **common | settings).solve(clients)
    np.testing.assert_allclose(result.x, w, atol=1e-6)


def test_a_pass_that_would_not_move_is_one_step_along_the_slope() -> None:
    whole, _ = rotating()
    epoch = Corrected(rs.orders.Cyclic(), 1, None, 0).bind(whole, 0, 1.0)
    zero = np.zeros(2)
    slope = whole.gradient(zero)
    np.testing.assert_allclose(epoch(Turn(zero, 1.0, 0, Stream(0), zero)), -slope, rtol=1e-12)
    assert np.array_equal(epoch(Turn(zero, 1.0, 0, Stream(0), slope)), zero)  # h = ∇f(x)
    other = epoch(Turn(zero, 0.5, 0, Stream(0), zero))  # with another step they do not cancel
    assert np.linalg.norm(other + 0.5 * slope) > 1.0


# --- steps that are too long ---------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 1.5])
def test_a_chosen_step_that_is_too_long_is_shortened(share: float) -> None:
    """Were the default far too long, the server would find out: the residual grows, or falls no more."""
    outcome = judge("drawn", next(iter(STALLED.values())), 600, LongSteps(share=share))
    assert 0 < outcome.rounds
    assert outcome.shortened == 0.5


@pytest.mark.parametrize("factor", [10.0, 1e2, 1e3, 1e4])
@pytest.mark.parametrize("loss", ["Logistic", "Squared"])
def test_a_given_step_that_is_far_too_long_never_ends_above_the_start(
    loss: str, factor: float
) -> None:
    """It is an error that names a better one, or it went well all the same."""
    X, y = rs.datasets.breast_cancer()
    whole = rs.Problem(X, y, loss=getattr(L, loss)(), ridge=1e-3)
    clients = rs.federated.split(whole, 5, by="label")
    step = factor / whole.smoothness.L_max
    try:
        trace = rs.ExactFedRR(step=step, rounds=30).solve(clients).trace
    except rs.DivergenceError as error:
        better = float(str(error).split("try step=")[1].split(" ")[0])
        assert better <= 0.1 * step
        trace = rs.ExactFedRR(step=better, rounds=30).solve(clients).trace
    else:
        assert factor <= 100.0
    assert trace["objective"][-1] < trace["objective"][0]


def test_a_run_that_stalls_says_so_and_what_to_try() -> None:
    case = next(case for case in DRAWN if case.name.startswith("Squared 800 x 50, M = 1, draw 3"))
    clients = case.federation(case.pooled())
    step = 1.0 / clients.smoothness.L_max
    solver = rs.ExactFedRR(rounds=300, step=step, local_passes=8)
    with pytest.warns(ConvergenceWarning, match=r"not halved for \d+ rounds: try a shorter step"):
        solver.solve(clients)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rs.ExactFedRR(rounds=60).solve(clients)  # no doubts where it goes well
        rs.ExactFedRR(rounds=1000).solve(clients)  # nor at the level of rounding


def test_the_pace_counts_rounds_since_the_residual_was_halved() -> None:
    pace = ResidualMonitor()
    for residual in (8.0, 7.0, 5.0, 4.0, 3.0):
        pace = pace.after(residual)
    assert pace == ResidualMonitor(1.0, 8.0, 4.0, 1.0, 3.0)
    assert not pace.stalls
    assert pace._replace(since=PATIENCE).stalls
    assert not pace._replace(since=PATIENCE, least=2.1).stuck
    assert pace._replace(since=PATIENCE, least=3.9).stuck
    assert not pace._replace(since=PATIENCE, halved=1e-12).stalls
    assert not ResidualMonitor().after(0.0)._replace(since=PATIENCE).stalls


def test_a_shorter_step_keeps_the_controls_and_resumes_to_the_bit(tmp_path: Path) -> None:
    case = next(iter(STALLED.values()))
    clients = case.federation(case.pooled())
    whole = LongSteps(rounds=20).solve(clients)
    assert whole.trace["step"][-1] < whole.trace["step"][1]

    def enough(result: rs.Result) -> bool:
        return result.epoch == 7

    LongSteps(rounds=20).solve(clients, callbacks=[rs.Checkpoint(tmp_path / "run.npz"), enough])
    resumed = LongSteps(rounds=20).solve(clients, resume=tmp_path / "run.npz")
    assert resumed.digest == whole.digest
    # at the solution, with h_m = ∇f_m(x), half a step is as good a fixed point
    server = Extrapolated(lambda x, t: x, np.array([2.0, 4.0]), 5, adaptive=True)
    x, h = np.array([1.0, -1.0]), np.array([[2.0, 0.0], [-1.0, 0.0]])
    z = x - np.array([[2.0], [4.0]]) * 0.5 * h
    state = server.start(x) | {"controls": h}
    anew = server._begun_anew(state, z, 0.5, ResidualMonitor())
    np.testing.assert_allclose(anew["x"], x)
    np.testing.assert_allclose(anew["controls"], h)
    assert anew["pace"][0] == 0.5
