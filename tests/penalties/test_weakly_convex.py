"""MCP, SCAD and LogSum: the prox is a global minimiser for every step, and who needs convexity refuses them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from oracles import random_data

import reshuffle as rs
from reshuffle import theory
from reshuffle.penalties import L2, MCP, SCAD, LogSum, Sum, weak_convexity

BOTH: list[Any] = [MCP(0.7, 1.5), SCAD(0.7, 3.0), LogSum(0.7, 0.5), LogSum(0.2, 2.0)]
X, Y = random_data(rs.losses.Logistic(), n=60)


@cache
def on_a_grid(psi: Any) -> tuple[Any, Any]:
    """Points of a line and the values there, which all steps share."""
    grid = np.linspace(-12.0, 12.0, 48_001)
    return grid, np.array([psi.value(np.array([u])) for u in grid])


@pytest.mark.parametrize("psi", BOTH, ids=repr)
@pytest.mark.parametrize("step", [0.1, 1.0, 1.49, 2.5, 10.0])
def test_the_prox_is_a_global_minimiser(psi: Any, step: float) -> None:
    grid, values = on_a_grid(psi)
    for x in np.linspace(-9.0, 9.0, 61):
        lowest = (step * values + (grid - x) ** 2 / 2).min()
        p = psi.prox(np.array([x]), step)
        assert step * psi.value(p) + (p[0] - x) ** 2 / 2 <= lowest + 1e-12


@pytest.mark.parametrize("psi", BOTH, ids=repr)
def test_weak_convexity_is_the_least(psi: Any) -> None:
    """ψ + (ρ/2)x² is convex on a line, and with 0.9ρ it is not."""
    t = np.linspace(-4.0, 4.0, 801)
    values = np.array([psi.value(np.array([u])) for u in t])
    for factor, convex in ((1.0, True), (0.9, False)):
        curve = values + 0.5 * factor * psi.weak_convexity * t * t
        assert bool(np.all(np.diff(curve, 2) >= -1e-12)) is convex


@pytest.mark.parametrize("psi", [MCP(0.05, 3.0), SCAD(0.05), LogSum(0.02, 0.5)], ids=repr)
@pytest.mark.parametrize(
    "solver",
    [rs.FISTA(tol=1e-9), rs.ProxRR(step=1e-3, epochs=200), rs.ProxSGD(step=1e-3, epochs=200)],
    ids=lambda s: type(s).__name__,
)
def test_who_takes_them(psi: Any, solver: Any) -> None:
    problem = rs.Problem(X, Y, penalty=psi)
    result = solver.solve(problem)
    assert problem.objective(result.x) < problem.objective(np.zeros(6)) - 1e-3
    if isinstance(solver, rs.FISTA):
        assert result.reached
        assert problem.gradient_mapping(result.x) < 1e-8


def test_large_coefficients_are_not_shrunk() -> None:
    """With orthogonal columns the answer is the prox of the least-squares coefficients."""
    y = np.array([5.0, 0.4, -3.0])
    problem = rs.Problem(np.eye(3) * np.sqrt(3), np.sqrt(3) * y, rs.losses.Squared(), MCP(1.0, 2.0))
    np.testing.assert_allclose(rs.FISTA(tol=1e-12).solve(problem).x, [5.0, 0.0, -3.0], atol=1e-8)


@pytest.mark.parametrize("psi", BOTH, ids=repr)
def test_who_refuses_them(psi: Any) -> None:
    problem = rs.Problem(X, Y, penalty=psi, ridge=0.1)
    clients = rs.federated.split(problem, clients=3)
    calls: list[tuple[str, Any]] = [
        ("ExactProxRR", lambda: rs.ExactProxRR().solve(problem)),
        ("FedRR", lambda: rs.FedRR().solve(clients)),
        ("LocalSGD", lambda: rs.LocalSGD().solve(clients)),
        ("ExactFedRR", lambda: rs.ExactFedRR().solve(clients)),
        ("the theory", lambda: theory.constants(problem)),
        ("the theory", lambda: theory.solve(problem)),
        ("the theory", lambda: theory.client_constants([problem], np.zeros(6))),
    ]
    for who, call in calls:
        with pytest.raises(rs.InputError, match=f"{who} needs a convex penalty"):
            call()


def test_a_ridge_of_its_own_makes_them_convex() -> None:
    assert weak_convexity(Sum(MCP(0.1, 4.0), L2(0.1))) == pytest.approx(0.15)
    convex = Sum(MCP(0.1, 4.0), L2(1.0))
    assert weak_convexity(convex) == 0.0
    assert convex.strong_convexity == pytest.approx(0.75)
    assert rs.ExactProxRR().solve(rs.Problem(X, Y, penalty=convex)).reached


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (MCP, (-1.0,), "strength must be"),
        (MCP, (1.0, 0.0), "gamma must be positive"),
        (MCP, (1.0, np.inf), "gamma must be positive"),
        (SCAD, (-1.0,), "strength must be"),
        (SCAD, (1.0, 2.0), "a must be a finite number above 2"),
        (SCAD, (1.0, None), "a must be a finite number above 2"),
    ],
)
def test_bad_parameters_are_named(make: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        make(*arguments)
