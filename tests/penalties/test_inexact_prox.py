"""Proxes that are found by iterations: their error is bounded and counted, and no run depends on what hides where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import reshuffle as rs
from reshuffle.penalties import (
    L2,
    L2Ball,
    LatentGroupLasso,
    Monotone,
    OverlappingGroupLasso,
    Polyhedron,
    Sum,
    ability,
)
from reshuffle.penalties.inexact import COLD, Approximate, approximate
from reshuffle.solvers.certificate import RelativeMapping, certificate_of

pytestmark = pytest.mark.usefixtures("vanishing")

Array = NDArray[np.float64]
GROUPS = [list(range(k, k + 6)) for k in range(0, 25, 4)]
RNG = np.random.default_rng(0)
X, Y = rs.datasets.breast_cancer()
few = examples(20)
vectors = arrays(float, 30, elements=st.floats(-30, 30))
ITERATIVE: list[Any] = [
    OverlappingGroupLasso(0.02, GROUPS),
    Sum(OverlappingGroupLasso(0.02, GROUPS), L2(0.1)),
    Sum(OverlappingGroupLasso(0.02, GROUPS), L2Ball(0.5)),
    LatentGroupLasso(0.02, [*GROUPS, [29]]),
    Sum(LatentGroupLasso(0.02, [*GROUPS, [29]]), L2Ball(0.5)),
    Polyhedron(np.vstack([np.eye(30)[:8], np.ones(30)]), np.full(9, 0.1), np.eye(30)[-1:], [0.02]),
]
named = pytest.mark.parametrize("psi", ITERATIVE, ids=lambda p: type(p).__name__)


def rough(psi: Any, tolerance: float) -> Any:
    """The same penalty, with iterations that end too early."""
    if isinstance(psi, Sum):
        return Sum(rough(psi.first, tolerance), psi.second)
    return replace(psi, tolerance=tolerance)


LOOSE = [rough(psi, tolerance) for psi in ITERATIVE[:5] for tolerance in (0.9, 0.05, 1e-4)]
STRONG = [
    rough(p, 0.9)
    for p in (
        OverlappingGroupLasso(2.0, GROUPS),
        Sum(OverlappingGroupLasso(2.0, GROUPS), L2(0.1)),
        LatentGroupLasso(2.0, GROUPS),
    )
]


def exact_of(psi: Any) -> Any:
    return rough(psi, 1e-14)


@few
@given(x=vectors, step=st.floats(0.01, 100.0), which=st.integers(0, len(LOOSE) - 1))
def test_the_gap_bounds_value_and_distance(x: Array, step: float, which: int) -> None:
    psi = LOOSE[which]
    found, true = approximate(psi, x, step), exact_of(psi).prox(x, step)

    def objective(u: Array) -> float:
        return float(step * psi.value(u) + np.sum((u - x) ** 2) / 2)

    size = 1.0 + float(np.sum(x * x))
    assert objective(found.point) - objective(true) <= found.gap + 1e-12 * size
    assert float(np.linalg.norm(found.point - true)) <= found.error + 1e-9 * np.sqrt(size)


@few
@given(g=vectors, ridge=st.floats(1e-3, 10.0), psi=st.sampled_from([*LOOSE, *STRONG]))
@example(g=np.linspace(-9.0, 11.0, 30), ridge=0.1, psi=STRONG[0])
@example(g=np.linspace(-9.0, 11.0, 30), ridge=0.1, psi=STRONG[1])
def test_a_conjugate_is_never_too_small(g: Array, ridge: float, psi: Any) -> None:
    """Too small a conjugate would be too small a duality gap."""
    true = exact_of(psi).conjugate(g, ridge)
    assert psi.conjugate(g, ridge) >= true * (1 - 1e-9) - 1e-9


@pytest.mark.parametrize("psi", LOOSE, ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_converged_is_true_with_iterations_that_end_early(psi: Any, ridge: float) -> None:
    """The certificate of the loose prox is not below that of the exact one, wherever a run ends."""
    loose = rs.Problem(X, Y, penalty=psi, ridge=ridge)
    exact = rs.Problem(X, Y, penalty=exact_of(psi), ridge=ridge)
    with _quiet():
        result = rs.ExactProxRR(tol=1e-4, epochs=60).solve(loose)
        best = rs.ExactProxRR(tol=1e-9, epochs=2000).solve(exact)
    true = certificate_of(exact).at(result.x)
    measured = certificate_of(loose).at(result.x)
    assert measured >= (1 - 1e-6) * true / (
        1.0 if ridge else 1.3
    )  # the mapping within its own share
    if result.converged and certificate_of(loose).name == "gap":
        assert exact.objective(result.x) - exact.objective(best.x) <= 1e-4 * np.log(2)


@dataclass(frozen=True)
class Clumsy:
    """0.01·|x|, with a prox that is off by some way and says so: the residual r of it is known."""

    off: float

    def value(self, x: Array) -> float:
        return 0.01 * float(np.abs(x).sum())

    def prox(self, x: Array, step: float) -> Array:
        return self.prox_from(x, step, COLD, 0.0).point

    def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
        r = self.off * step * np.sin(np.arange(x.size))  # as if f had another gradient
        p = np.sign(x + r) * np.maximum(
            np.abs(x + r) - 0.01 * step, 0.0
        )  # x + r - p is in ∂(sψ)(p)
        return Approximate(p, COLD, float(r @ r) / 2, 1)


def test_a_clumsy_prox_never_converges_below_its_error() -> None:
    problem = rs.Problem(X, Y, penalty=Clumsy(1e-2))
    with _quiet():
        result = rs.FISTA(tol=1e-6, epochs=300).solve(problem)
    assert not result.reached
    true = RelativeMapping(rs.Problem(X, Y, penalty=rs.penalties.L1(0.01))).at(result.x)
    assert result.trace["relative_mapping"][-1] >= true
    assert rs.FISTA(tol=1e-6).solve(rs.Problem(X, Y, penalty=Clumsy(1e-9))).reached


@named
@pytest.mark.parametrize("solver", [rs.ExactProxRR, rs.FISTA, rs.ProxRR], ids=lambda s: s.__name__)
def test_warm_runs_are_equal_and_resume_to_the_same_bits(
    psi: Any, solver: Any, tmp_path: Path
) -> None:
    problem = rs.Problem(X, Y, penalty=psi, ridge=0.01)
    chosen = {"tol": 0.0, "eval_every": 1} | ({"step": 1e-4} if solver is rs.ProxRR else {})
    with _quiet():
        whole = solver(epochs=7, **chosen).solve(problem)
        assert np.array_equal(solver(epochs=7, **chosen).solve(problem).x, whole.x)
        solver(epochs=3, **chosen).solve(problem).save(tmp_path / "half.npz")
        resumed = solver(epochs=7, **chosen).solve(problem, resume=tmp_path / "half.npz")
    assert np.array_equal(resumed.x, whole.x)
    assert np.array_equal(resumed.trace["inner_iterations"], whole.trace["inner_iterations"])
    assert np.all(np.diff(whole.trace["inner_iterations"]) >= 0)
    assert whole.trace["inner_iterations"][-1] > 0 or isinstance(psi, Polyhedron)  # x may be inside


def test_only_iterations_are_reported() -> None:
    for psi in (Monotone(), Sum(Monotone(), L2(0.1)), rs.penalties.L1(0.1)):
        assert ability(psi, "prox_from") is None
        result = rs.FISTA(epochs=2, tol=0.0).solve(rs.Problem(X, Y, penalty=psi))
        assert "inner_iterations" not in result.trace
        assert set(result.state) == {"x", "y", "momentum"}


def test_a_prox_after_every_step_is_taken_as_exactly_as_it_can_be() -> None:
    """It begins from nothing, and no iterations are reported that are not counted."""
    problem = rs.Problem(X, Y, penalty=ITERATIVE[0])
    for solver in (rs.ProxSGD(epochs=1), rs.ProxRR(epochs=1, prox="step")):
        assert "inner_iterations" not in solver.solve(problem).trace


@pytest.mark.parametrize(
    "psi", [ITERATIVE[0], ITERATIVE[3], ITERATIVE[5]], ids=lambda p: type(p).__name__
)
def test_a_warm_start_helps_and_a_spoilt_one_does_no_harm(psi: Any) -> None:
    x = 3.0 * RNG.standard_normal(30)
    first = psi.prox_from(x, 1.0, COLD, 0.0)
    y = x + 1e-6
    cold, warm = psi.prox_from(y, 1.0, COLD, 0.0), psi.prox_from(y, 1.0, first.start, 0.0)
    assert warm.iterations <= cold.iterations
    np.testing.assert_allclose(warm.point, cold.point, atol=1e-10)
    spoilt = [np.full(first.start.shape, v) for v in (np.nan, np.inf, 1e300, -1.0)]
    for start in (*spoilt, np.ones(3), RNG.standard_normal(first.start.shape)):
        with np.errstate(all="ignore"):
            found = psi.prox_from(y, 1.0, start, 0.0)
        np.testing.assert_allclose(found.point, cold.point, atol=1e-8)
        assert found.error <= 1e-8


@pytest.mark.parametrize(
    "found",
    [
        None,
        np.zeros(30),
        Approximate(np.zeros(30), COLD, -1.0),
        Approximate(np.zeros(30), COLD, np.nan),
        Approximate(np.zeros(30), np.zeros((2, 2))),
        Approximate(np.zeros(30), np.zeros(2, dtype=int)),
        Approximate(np.zeros(29), COLD),
        Approximate(np.full(30, np.nan), COLD),
    ],
    ids=str,
)
def test_what_prox_from_returns_is_checked(found: Any) -> None:
    class Odd(Clumsy):
        def prox(self, x: Array, step: float) -> Array:
            return x

        def prox_from(self, x: Array, step: float, start: Array, gap: float) -> Approximate:
            answer: Approximate = found
            return answer

    for solver in (rs.ExactProxRR(epochs=2), rs.FISTA(epochs=2), rs.ProxRR(epochs=1, step=1e-4)):
        with pytest.raises(rs.InputError, match=r"prox_from\(x, step, start, gap\) of penalty Odd"):
            solver.solve(rs.Problem(X, Y, penalty=Odd(0.0)))


def test_abilities_of_a_class_that_is_no_penalty_are_one_s_own() -> None:
    """They are written by value and prox; those that speak of another penalty are lost."""

    class Twice(Monotone):
        def prox(self, x: Array, step: float) -> Array:
            return super().prox(x, step)

    assert ability(Twice(), "conjugate") is not None
    assert ability(Twice(), "homogeneous") is None


def _quiet() -> Any:
    import warnings

    caught = warnings.catch_warnings()
    warnings.simplefilter("ignore")
    return caught
