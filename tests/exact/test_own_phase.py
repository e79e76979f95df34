"""A phase of one's own, as docs/own-phase.md has it, and the phases that a run is allowed."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits

import reshuffle as rs
from reshuffle.solvers.exact import PHASES, Outcome, Phase, View
from reshuffle.solvers.exact.chooser import choose

PAGE = Path(__file__).parents[2] / "docs" / "own-phase.md"
MOST_LINES = 60


@pytest.fixture(scope="module")
def own_phase() -> Any:
    """The class that the page defines."""
    names: dict[str, Any] = {}
    examples = doctest.DocTestParser().get_examples(PAGE.read_text())
    upto = next(k for k, e in enumerate(examples) if "class CoordinateDescent" in e.source)
    for example in examples[: upto + 1]:
        exec(example.source, names)
    assert len(examples[upto].source.splitlines()) < MOST_LINES
    return names["CoordinateDescent"]


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return np.ascontiguousarray(X[:400] / 16.0), np.where(y[:400] == 3, 1.0, -1.0)


@pytest.mark.parametrize("loss", [rs.losses.Logistic(), rs.losses.SquaredHinge()], ids=repr)
def test_the_phase_of_the_page_reaches_a_certified_minimum(
    loss: Any, own_phase: Any, digits: tuple[Any, Any]
) -> None:
    X, y = digits
    problem = rs.Problem(X, y, loss, rs.penalties.ElasticNet(2e-3, 1e-2), ridge=1e-3)
    solver = rs.ExactProxRR(tol=1e-8, phases=[own_phase(X), "shuffled"], eval_every=1)
    result = solver.solve(problem)
    assert result.converged, result.message
    assert result.trace["coordinates"][-1] > 0
    assert result.trace["shuffled"][-1] > 0
    best = problem.objective(rs.ExactProxRR(tol=1e-13).solve(problem).x)
    at_zero = problem.value(np.zeros(problem.shape))
    assert problem.objective(result.x) - best <= 1e-8 * at_zero
    half = solver.solve(problem, callbacks=[partial(stands_at, 2)])
    assert solver.solve(problem, resume=half).x.tobytes() == result.x.tobytes()


def stands_at(epoch: int, result: rs.Result) -> bool:
    return result.epoch == epoch


def test_a_phase_alone_may_be_the_whole_method(own_phase: Any, digits: tuple[Any, Any]) -> None:
    X, y = digits
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(2e-3, 1e-2))
    result = rs.ExactProxRR(tol=1e-6, phases=[own_phase(X)]).solve(problem)
    assert result.converged, result.message
    assert [name for name in result.trace if name in ("newton", "shuffled")] == []


@pytest.mark.parametrize("name", [p.name for p in PHASES if p.name != "newton_on_disk"])
def test_every_phase_acts_where_it_is_the_only_one_that_may(name: str) -> None:
    """Softmax with a ridge for L-BFGS, the logistic loss for the others, on fewer rows than features for the kernel of the rows and on
    sparse ones for steps over columns; each has a column of its own.

    Newton steps on disk have tests/shards/test_exact_on_disk.py.
    """
    X, y = load_digits(return_X_y=True)
    rows, several = 40 if name == "newton_kernel" else 300, name == "lbfgs"
    X, y = np.ascontiguousarray(X[:rows] / 16.0), y[:rows]
    loss = rs.losses.Multinomial() if several else rs.losses.Logistic()
    target = y if several else np.where(y == 3, 1.0, -1.0)
    data = csr_matrix(X) if name == "newton_columns" else X
    problem = rs.Problem(data, target, loss, ridge=0.02)
    result = rs.ExactProxRR(tol=1e-6, phases=[name], epochs=3000).solve(problem)
    assert result.converged, result.message
    assert result.trace[name][-1] > 0
    assert [other.name for other in PHASES if other.name in result.trace] == [name]


class Never(Phase):
    name = "never"

    def able(self, problem: Any, solver: Any) -> bool:
        return False

    def step(self, view: View) -> Outcome:
        raise AssertionError


def test_phases_that_are_none_are_refused(digits: tuple[Any, Any]) -> None:
    problem = rs.Problem(*digits)
    wrong: list[tuple[Any, str]] = [
        ("newton", "phases must be a list"),
        ([], "phases must be a list"),
        (["newton", "newton"], "different names"),
        ([3], "must extend Phase"),
        (["simplex"], "or your own"),
    ]
    for phases, message in wrong:
        with pytest.raises(rs.InputError, match=message):
            rs.ExactProxRR(phases=phases)
    with pytest.raises(rs.InputError, match="finish=False"):
        rs.ExactProxRR(phases=["shuffled"], finish=False)
    with pytest.raises(rs.InputError, match="none of \\['never'\\] can act"):
        rs.ExactProxRR(phases=[Never()]).solve(problem)
    poisson = rs.Problem(digits[0], np.ones(400), rs.losses.Poisson())
    with pytest.raises(rs.InputError, match="which need the phase 'newton'"):
        rs.ExactProxRR(phases=["shuffled"]).solve(poisson)


class Returns(Phase):
    """A phase whose step returns what it is told to."""

    name = "returns"

    def __init__(self, made: Callable[[View], Any]) -> None:
        self.made = made

    def step(self, view: View) -> Outcome:
        return self.made(view)  # type: ignore[no-any-return]


def test_what_a_step_returns_is_checked(digits: tuple[Any, Any]) -> None:
    problem = rs.Problem(*digits, penalty=rs.penalties.L2(0.01))
    wrong: list[tuple[Callable[[View], Any], str]] = [
        (lambda view: view.at(view.state.x), "must return an Outcome .* got a ExactState"),
        (lambda view: None, "must return an Outcome .* got a NoneType"),
        (lambda view: Outcome(view.state.x, 1), ".* got one with a ndarray"),  # type: ignore[arg-type]
    ]
    for made, message in wrong:
        with pytest.raises(rs.InputError, match=f"phase 'returns': step {message}"):
            rs.ExactProxRR(phases=[Returns(made)]).solve(problem)
    nowhere = Returns(lambda view: Outcome(view.at(view.state.x + np.nan), 1))
    with pytest.raises(rs.DivergenceError, match="in a step of the phase 'returns'"):
        rs.ExactProxRR(phases=[nowhere]).solve(problem)


def test_finish_false_is_shuffled_epochs_alone(digits: tuple[Any, Any]) -> None:
    problem = rs.Problem(*digits, penalty=rs.penalties.L1(0.01))
    alone, named = (
        rs.ExactProxRR(tol=1e-5, **how).solve(problem)
        for how in ({"finish": False}, {"phases": ["shuffled"]})
    )
    assert alone.x.tobytes() == named.x.tobytes()
    assert alone.trace["shuffled"][-1] == alone.epoch


class Costs(Phase):
    """A phase that is what its numbers say."""

    def __init__(self, name: str, cost: float, left: float, **others: bool) -> None:
        self.name, self._cost, self._left, self._others = name, cost, left, others  # type: ignore[misc]
        self.proves = others.get("proves", False)  # type: ignore[misc]

    def unfinished(self, view: View) -> bool:
        return self._others.get("unfinished", False)

    def ready(self, view: View) -> bool:
        return self._others.get("ready", True)

    def cost(self, view: View) -> float:
        return self._cost

    def steps_left(self, view: View) -> float:
        return self._left

    def step(self, view: View) -> Outcome:
        raise AssertionError


@pytest.mark.parametrize(
    ("phases", "wants_proof", "chosen"),
    [
        ([Costs("a", 2.0, 3.0), Costs("b", 5.0, 1.0)], False, "b"),
        ([Costs("a", 2.0, 3.0), Costs("b", 5.0, 1.0, ready=False)], False, "a"),
        ([Costs("a", 3.0, 2.0), Costs("b", 2.0, 3.0)], False, "a"),
        ([Costs("a", 1.0, 1.0), Costs("b", 9.0, 9.0, unfinished=True)], False, "b"),
        ([Costs("a", 1.0, 1.0), Costs("b", 9.0, 9.0, proves=True)], True, "b"),
        ([Costs("a", 1.0, 1.0), Costs("b", 9.0, 9.0, proves=True)], False, "a"),
        ([Costs("a", 1.0, 9.0, ready=False), Costs("b", 1.0, 2.0, ready=False)], False, "b"),
        ([Costs("a", np.inf, 1.0), Costs("b", 1.0, np.inf)], False, "a"),
    ],
)
def test_the_chooser(phases: list[Phase], wants_proof: bool, chosen: str) -> None:
    view: Any = type("Stub", (), {"wants_proof": wants_proof})()
    assert choose(view, phases).name == chosen
