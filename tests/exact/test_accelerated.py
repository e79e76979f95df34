"""Where epochs hardly come nearer and no Newton step is to be had, the exact method accelerates."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import reshuffle as rs


@pytest.fixture(scope="module")
def flat() -> rs.Problem:
    """Raw columns and a penalty that only has a prox."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return rs.Problem(X / 100, y / 100, rs.losses.Squared(), rs.penalties.L1Ball(100.0))


def passes_to(level: float, solver: rs.ExactProxRR | rs.FISTA, problem: rs.Problem) -> float:
    result = solver.solve(
        problem, callbacks=[lambda so_far: so_far.trace["objective"][-1] <= level]
    )
    assert result.trace["objective"][-1] <= level
    return float(result.trace["gradients"][-1] / problem.n)


def test_no_more_passes_than_fista(flat: rs.Problem) -> None:
    level = rs.FISTA(epochs=2000, tol=0.0).solve(flat).trace["objective"][-1]
    fista = passes_to(level, rs.FISTA(epochs=2500, tol=0.0, eval_every=1), flat)
    ours = passes_to(level, rs.ExactProxRR(epochs=3000, tol=0.0), flat)
    assert ours <= 1.2 * fista
    alone = rs.ExactProxRR(epochs=1000, tol=0.0, finish=False).solve(flat)
    assert alone.trace["gradients"][-1] / flat.n <= fista  # and the shuffled method would not do
    assert alone.trace["objective"][-1] > level


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def test_the_same_bits_after_a_resume(flat: rs.Problem) -> None:
    solver = rs.ExactProxRR(epochs=400, tol=0.0, eval_every=1)
    whole = solver.solve(flat)
    assert whole.state["momentum"][0] > 0.0
    for at in (30, 200, 333):
        part = solver.solve(flat, callbacks=[partial(stands_at, at)])
        resumed = solver.solve(flat, resume=part)
        np.testing.assert_array_equal(resumed.x, whole.x)
        assert resumed.trace["gradients"].tolist() == whole.trace["gradients"].tolist()
