"""Epochs that raise P are undone: above the start of a run, above the last P by a share of f(0), and beyond what was certified."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.solvers.exact.movement_monitor import MovementMonitor
from reshuffle.solvers.exact.point import Point
from reshuffle.solvers.exact.shuffled import GROWTH, _judged
from reshuffle.solvers.exact.view import View


@pytest.mark.parametrize(("certified", "undone"), [(1e-2, False), (1e-3, False), (1e-5, True)])
def test_an_epoch_that_undoes_a_certified_accuracy_is_undone(
    certified: float, undone: bool
) -> None:
    """P rises by 1e-3 of f(0) here, which is less than the share that a run without a certificate may rise by."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    problem = rs.Problem(X, np.sign(X[:, 0]), penalty=rs.penalties.L1(0.02))
    method: Any = rs.ExactProxRR(phases=["shuffled"]).bind(problem)
    x = rs.ExactProxRR(tol=1e-10).solve(problem).x
    at_zero = problem.objective(np.zeros(20))
    start, rise = method.start(np.zeros(20)), 0.0
    worse = x.copy()
    while rise < 1e-3:
        worse *= 1.001
        rise = (problem.objective(worse) - problem.objective(x)) / at_zero
    assert GROWTH * 1e-5 < rise < 2e-3
    monitor = MovementMonitor(seen=problem.objective(x), checked=certified)
    before = replace(start, point=Point(x), monitor=monitor.moved(1e-3))
    after = replace(before, point=Point(worse))
    found = _judged(View(method.run, before, 5, method.run.first_step), after, moved=1.0)
    assert (found is None) == undone
