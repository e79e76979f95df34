"""Bounds on P(x) - P*: true at every point, and reached with every penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from leukemia import EVENT, TIME, X

import reshuffle as rs
from reshuffle.penalties.abilities import compiled_form
from reshuffle.solvers.newton_proof import duality_gap, proved_decrement, residual
from reshuffle.survival import CoxProblem

ALL = np.arange(3, dtype=np.uint32)
CONVEX = [
    penalty
    for kind in rs.penalties.PENALTIES
    if hasattr(kind, "examples")
    for penalty in kind.examples((12,))
    if not rs.penalties.weak_convexity(penalty) > 0
]


@pytest.mark.parametrize("penalty", [rs.penalties.Zero(), rs.penalties.L1(0.05), rs.penalties.ElasticNet(0.03, 0.1),
    rs.penalties.Box(-0.5, 0.5), rs.penalties.GroupLasso(0.05, [0, 1, 1]),
    rs.penalties.SparseGroupLasso(0.02, 0.03, [0, 1, 1])], ids=repr)  # fmt: skip
def test_no_bound_is_below_the_distance(penalty: Any) -> None:
    """At random points near the minimiser and far from it, on it and off it in single coordinates."""
    problem = CoxProblem(X, TIME, EVENT, penalty=penalty)
    best = rs.ProxNewton(tol=1e-14).solve(problem)
    lowest, rng, proved = problem.objective(best.x), np.random.default_rng(0), 0
    has_dual = penalty.has_dual((3,))
    for k in range(60):
        x = best.x + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(3) * rng.integers(0, 2, 3)
        x = penalty.prox(x, 1e-12) if k % 2 else x
        if not np.isfinite(penalty.value(x)):
            continue
        at, above = problem.expand(x), problem.objective(x) - lowest
        h, l2 = residual(compiled_form(penalty, (3,)), x, at.gradient)
        H = problem.hessian(x, ALL) + np.diag(np.broadcast_to(l2, 3))
        bound = proved_decrement(problem, h, H)
        proved += bound < np.inf
        assert above <= bound + 1e-13
        if has_dual:
            assert above <= duality_gap(problem, penalty, at) + 1e-13
    assert proved > 10


@pytest.mark.parametrize("penalty", CONVEX, ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_convex_penalty(penalty: Any) -> None:
    """The same minimum as FISTA's, by a proof or as a stationary point."""
    rng = np.random.default_rng(0)
    A, t = rng.standard_normal((80, 12)), rng.exponential(1.0, 80)
    problem = CoxProblem(A, t, t < 1, penalty=penalty)
    result = rs.ProxNewton(tol=1e-8).solve(problem)
    assert result.reached, result.message
    other = rs.FISTA(tol=1e-8).solve(problem)
    assert problem.objective(result.x) <= problem.objective(other.x) + 1e-8


class Rounded(CoxProblem):
    """P as another build of numpy might round it: each point is a little higher than the one before."""

    looks = 0

    def expand(self, x: Any) -> Any:
        self.looks += 1
        at = super().expand(x)
        return at._replace(value=at.value * (1.0 + 1e-15 * self.looks))


def test_a_proof_does_not_hang_on_how_p_is_rounded() -> None:
    """Next to the minimum a proximal gradient step may seem to raise P; what is proved at its end holds all the same."""
    rng = np.random.default_rng(0)
    A, t = rng.standard_normal((80, 12)), rng.exponential(1.0, 80)
    problem = Rounded(A, t, t < 1, penalty=rs.penalties.FusedLasso(0.02, 0.0))
    result = rs.ProxNewton(tol=1e-8).solve(problem)
    assert result.converged, result.message
    exact = CoxProblem(A, t, t < 1, penalty=problem.penalty)
    other = rs.FISTA(tol=1e-11).solve(exact)
    assert exact.objective(result.x) - exact.objective(other.x) <= 1e-8 * exact.reference


def test_penalties_that_are_not_convex_are_left_to_fista() -> None:
    problem = CoxProblem(X, TIME, EVENT, penalty=rs.penalties.MCP(0.05))
    with pytest.raises(rs.InputError, match="convex"):
        rs.ProxNewton().solve(problem)
    result = rs.FISTA(tol=1e-9).solve(problem)
    assert result.stationary
    assert not result.converged
