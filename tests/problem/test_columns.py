"""What working sets are made of: what rests at zero, parts of penalties, columns of problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sparse_cases import (
    LOSSES,
    Array,
    answers,
    case,
    csr,
)

import reshuffle as rs
from reshuffle.penalties import Separable
from reshuffle.solvers.exact.working_sets import WorkingSets
from reshuffle.solvers.slope_table import slope_table_of

sevenths = st.integers(-21, 21).map(lambda k: k / 7.0)  # ties between |g| and l1 do happen


@st.composite
def separable(draw: st.DrawFn, size: int = 5) -> Separable:
    """l1, l2 and bounds, each one number or an array."""

    def numbers(low: int) -> Any:
        one = st.integers(low, 21).map(lambda k: k / 7.0)
        return draw(one | arrays(float, size, elements=one))

    penalty = Separable()
    penalty.l1, penalty.l2 = numbers(0), numbers(0)
    if draw(st.booleans()):
        first, second = numbers(-21), numbers(-21)
        penalty.lower, penalty.upper = np.minimum(first, second), np.maximum(first, second)
    if draw(st.booleans()):
        penalty.lower = np.minimum(0.0, penalty.upper)
    return penalty


@given(
    penalty=separable(), g=arrays(float, 5, elements=sevenths), tau=st.sampled_from([0.25, 1, 4])
)
def test_held_at_zero_is_a_fixed_point_of_the_prox(
    penalty: Separable, g: Array, tau: float
) -> None:
    """x_j = 0 is optimal against g if and only if prox_{τψ}(-τg)_j = 0."""
    held = np.broadcast_to(penalty.holds_at_zero(g), g.shape)
    np.testing.assert_array_equal(held, penalty.prox(-tau * g, tau) == 0.0)


@given(penalty=separable(), u=arrays(float, 5, elements=sevenths), kept=st.sets(st.integers(0, 4)))
def test_part_of_a_penalty_has_the_same_prox(penalty: Separable, u: Array, kept: set[int]) -> None:
    some = np.array(sorted(kept), dtype=np.uint32)
    part = penalty.part(some, (5,))
    np.testing.assert_array_equal(part.prox(u[some], 0.5), penalty.prox(u, 0.5)[some])
    again = np.arange(some.size, dtype=np.uint32)[::2]
    np.testing.assert_array_equal(
        part.part(again, (some.size,)).prox(u[some[again]], 0.5), penalty.prox(u, 0.5)[some[again]]
    )


@pytest.mark.parametrize("l1", [0.5, [0.1, 0.2, 0.3], [[0.1], [0.2], [0.3], [0.4]]])
def test_part_of_a_penalty_of_a_matrix(l1: Any) -> None:
    penalty = rs.penalties.L1(l1)
    u = np.random.default_rng(0).standard_normal((4, 3))
    kept = np.array([1, 3], dtype=np.uint32)
    np.testing.assert_array_equal(penalty.part(kept, (4, 3)).prox(u[kept], 1.0), penalty.prox(u, 1.0)[kept])  # fmt: skip


@pytest.mark.parametrize("kept", [[], [0], [1, 4, 5], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["signs", "classes"])
@pytest.mark.parametrize("layout", ["csr", "dense", "unit"])
def test_some_columns_of_a_problem(
    layout: str, kind: str, intercept: bool, kept: list[int]
) -> None:
    """Value, gradient, objective and L_i are those of all columns at points that are zero elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.5)
    X = (X != 0).astype(float) if layout == "unit" else X
    X[3] = 0.0
    problem = rs.Problem(
        X if layout == "dense" else sp.csr_matrix(X), answers(X, kind, relevant=3), LOSSES[kind],
        rs.penalties.ElasticNet(0.1, 0.2), 0.3, np.arange(1.0, 41.0), intercept,
    )  # fmt: skip
    assert problem.datafit.quick.unit == (layout == "unit")
    some = np.array(kept, dtype=np.uint32)
    part = problem.columns(some)
    both = np.concatenate([some, [6]]).astype(int) if intercept else some.astype(int)
    x = np.zeros(problem.shape)
    x[both] = rng.standard_normal((both.size, *problem.shape[1:]))
    assert part.shape == (both.size, *problem.shape[1:])
    assert part.rows.unit == (layout == "unit")
    np.testing.assert_allclose(part.value(x[both]), problem.value(x), rtol=1e-13)
    np.testing.assert_allclose(part.objective(x[both]), problem.objective(x), rtol=1e-13)
    np.testing.assert_allclose(part.gradient(x[both]), problem.gradient(x)[both], atol=1e-13)
    norms = np.sum(X[:, kept] ** 2, axis=1) + intercept
    curvature = problem.weights * LOSSES[kind].curvature
    np.testing.assert_allclose(part.smoothness.individual, curvature * norms + 0.3)
    once = part.columns(np.arange(some.size, dtype=np.uint32)[1:])
    np.testing.assert_allclose(
        once.gradient(np.zeros(once.shape)), problem.gradient(0.0 * x)[both[1 if kept else 0 :]],
        atol=1e-13,
    )  # fmt: skip


def test_sets_one_after_the_other() -> None:
    """Smaller, larger, of the same size, empty: each time the rows of these features and no others."""
    problem, _ = case("csr")
    sets = WorkingSets(slope_table_of(problem, np.empty(0, dtype=np.uint32), problem.weights))
    X = csr(problem)
    x = np.random.default_rng(0).standard_normal(2000)
    for some in (
        range(0, 900),
        range(0, 900, 3),
        range(1, 900, 3),
        (),
        range(5),
        (4, 1999),
        (4, 5),
    ):
        active = np.array(some, dtype=np.uint32)
        part = sets.on(active).problem
        assert isinstance(part, rs.Problem)
        np.testing.assert_allclose(part.margins(x[active]), X[:, active] @ x[active], atol=1e-12)
        np.testing.assert_array_equal(sets.restrict(sets.extend(x[active], active), active), x[active])  # fmt: skip
    assert sets.on(sets.everything) is sets.table


def test_a_part_keeps_the_layout_of_the_whole() -> None:
    """Also where its values happen to be all 1, or there are none: nothing is looked for again."""
    X = sp.csr_matrix(np.array([[1.0, 2.0], [1.0, 0.0], [0.0, 3.0]]))
    problem = rs.Problem(X, [1, -1, 1])
    for kept in ([0], []):
        fit = problem.columns(np.array(kept, dtype=np.uint32)).datafit
        assert not fit.quick.unit
        assert fit.quick is fit.rows


def test_columns_of_a_problem_whose_penalty_is_not_separable() -> None:
    problem = rs.Problem(np.eye(2), np.array([1.0, -1.0]), penalty=rs.penalties.L1Ball(1.0))
    with pytest.raises(rs.InputError, match=r"penalty L1Ball.* has no part"):
        problem.columns(np.zeros(1, dtype=np.uint32))
