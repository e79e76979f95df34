"""Checks of a method: it reaches the minimiser, its trace is true, and it can be repeated and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from reshuffle.arrays import Array
from reshuffle.datasets import synthetic
from reshuffle.errors import DivergenceError, held_warnings
from reshuffle.penalties import ElasticNet, Penalty, strong_convexity
from reshuffle.problem import Problem
from reshuffle.solvers import ExactProxRR, Solver
from reshuffle.testing.failure import CheckFailed, run_checks
from reshuffle.trace import Result

LONGER = 4
"""A second run gets this many times as many epochs."""
SHORTER = 30
"""The last run has steps that are this many times shorter, and ends that much nearer to the minimiser if the method is right."""


def check_method(
    solver: Solver, problem: Problem | None = None, *, accuracy: float = 0.05, seed: int = 0
) -> list[str]:
    """Check a solver with its own hyper-parameters on a small problem; returns the names of the properties that hold.

    - ``run``: x is finite, x_0 and the state of an epoch are not changed in place.
    - ``trace``: the last ``objective`` is P(x); counts of gradients and proxes do not fall.
    - ``repeat``: the same seed gives the same bits.
    - ``resume``: half of the epochs, saved, and the other half give the same bits as one run.
    - ``minimiser``: P(x) - P* is at most ``accuracy`` of that at the start, after the epochs of the solver, four times
      as many, or with steps 30 times shorter (if the solver has a ``step``). Otherwise x is compared with
      the minimisers of other multiples of the penalty, to which a prox with a wrong step would lead.

    Parameters
    ----------
    solver : an instance of a subclass of ``reshuffle.solvers.Solver``, with enough ``epochs``.
    problem : what to minimise; without one, logistic losses with an elastic net on 60 × 8 random numbers.

    Examples
    --------
    >>> import reshuffle as rs
    >>> rs.testing.check_method(rs.ProxRR(epochs=100))
    ['run', 'trace', 'repeat', 'resume', 'minimiser']
    """
    if problem is None:
        X, y = synthetic(60, 8, seed=seed)
        problem = Problem(X, y, penalty=ElasticNet(0.02, 0.05))
    name = type(solver).__name__
    solver = replace(solver, tol=0.0, eval_every=1)
    try:
        with held_warnings():
            result = solver.solve(problem)
    except DivergenceError as error:
        raise CheckFailed(
            f"{name} diverges with its own step: {error}. Is a gradient added where it should be subtracted, or summed where it "
            "should be averaged?"
        ) from None
    return run_checks(
        TriedSolver(solver, problem, result, name, accuracy),
        {
            "run": _run,
            "trace": _trace,
            "repeat": _repeat,
            "resume": _resume,
            "minimiser": _minimiser,
        },
    )


class TriedSolver(NamedTuple):
    """A solver, its problem, and a run of it."""

    solver: Solver
    problem: Problem
    result: Result
    name: str
    accuracy: float


def _run(tried: TriedSolver) -> None:
    solver, problem, result, name, _ = tried
    if result.x.shape != problem.shape or not np.isfinite(result.x).all():
        raise CheckFailed(
            f"{name} must return finite numbers of shape {problem.shape}, got {result.x}"
        )
    start = np.full(problem.shape, 0.1)
    given = start.copy()
    with held_warnings():
        method = solver.bind(problem)
        try:
            state = method.start(given)
            before = {key: np.array(value, copy=True) for key, value in method.saved(state).items()}
            method.advance(state, 0, method.schedule(0))
        finally:
            method.close()
    changed = [
        key
        for key, value in before.items()
        if not np.array_equal(method.saved(state)[key], value, equal_nan=True)
    ]
    if changed:
        raise CheckFailed(
            f"{name}: advance changes {', '.join(changed)} of the state that it is given: copy it first, as in "
            'x = state["x"].copy(), or a run cannot be taken back or resumed'
        )
    if not np.array_equal(given, start):
        raise CheckFailed(f"{name} changes the x_0 that it is given: copy it first")


def _trace(tried: TriedSolver) -> None:
    _, problem, result, name, _ = tried
    said, true = result.trace.last()["objective"], problem.objective(result.x)
    if not np.isclose(said, true, rtol=1e-9, atol=1e-12):
        raise CheckFailed(
            f"{name}: the trace ends with P(x) = {said:.10g}, and P at the returned x is {true:.10g}"
        )
    for column in ("gradients", "prox_evals"):
        if np.any(np.diff(result.trace[column]) < 0):
            raise CheckFailed(
                f"{name}: {column} falls in the trace: an Epoch counts its own work, as a number that is not negative"
            )
    if not result.trace["gradients"][-1] > 0:
        raise CheckFailed(
            f"{name} says that it evaluated no gradient: count them in Epoch(gradients=…)"
        )


def _repeat(tried: TriedSolver) -> None:
    with held_warnings():
        again = tried.solver.solve(tried.problem)
    if not np.array_equal(again.x, tried.result.x):
        raise CheckFailed(
            f"{tried.name} gives a different result when it is run again with the same seed: draw random numbers from self.random(epoch) or "
            "self.reshuffled(epoch) alone, and keep nothing outside the state"
        )


def _resume(tried: TriedSolver) -> None:
    solver, problem, result, name, _ = tried
    half = max(1, solver.limit // 2)
    horizon = getattr(getattr(solver, "step", None), "needs_horizon", False)
    if half == solver.limit or horizon:
        return
    with held_warnings():
        first = replace(solver, **{solver.counted: half}).solve(problem)
        whole = solver.solve(problem, resume=first)
    if not np.array_equal(whole.x, result.x):
        raise CheckFailed(
            f"{name} does not continue where it stopped: {half} epochs and then the rest end elsewhere than one run. All that an epoch "
            "needs of the one before must be in the state that advance returns"
        )


def _minimiser(tried: TriedSolver) -> None:
    """Check that P(x) - P* becomes small: after the solver's own epochs, after more of them, or with shorter steps."""
    solver, problem, _, name, accuracy = tried
    best, x0 = _minimum(problem, 1.0), np.full(problem.shape, 0.5)
    start, least = problem.objective(x0), problem.objective(best)
    x, reached = x0, ""
    for words, run in _runs(solver, problem):
        with held_warnings():
            x = run.solve(problem, x0).x
        left = (problem.objective(x) - least) / (start - least)
        if left <= accuracy:
            return
        reached += f", {left:.2g} after {run.limit:,} epochs{words}"
    raise CheckFailed(
        f"{name} does not reach the minimiser. Of P(x_0) - P* there remains{reached[1:]}{_where(problem, x, x0, best)}"
    )


def _runs(solver: Solver, problem: Problem) -> Iterator[tuple[str, Solver]]:
    """The solver itself, with more epochs, and with shorter steps (constant steps only come near the minimiser)."""

    def lasting(limit: int, **more: Any) -> Solver:
        return replace(solver, **{solver.counted: limit, "eval_every": limit, **more})

    yield "", lasting(solver.limit)
    yield "", lasting(LONGER * solver.limit)
    if hasattr(solver, "step"):
        method = solver.bind(problem)
        step = float(method.schedule(0) / SHORTER)
        method.close()
        words = f" with the step {step:.2g}, {SHORTER} times shorter"
        yield words, lasting(LONGER * SHORTER * solver.limit, step=step)


def _where(problem: Problem, x: Array, x0: Array, best: Array) -> str:
    """The other problem that x solves, if it is one that a wrong prox would solve."""
    if np.linalg.norm(x - x0) < 0.3 * np.linalg.norm(best - x0):
        return ". It has hardly moved from its start: its step is too short for these epochs"
    n = problem.n
    short = f"f + ψ/n (n = {n}): the prox is taken with a step n times too short; after a pass of n steps γ it has the step γ·n"
    long = f"f + n·ψ (n = {n}): the prox is taken with a step n times too long; after a single step γ it has the step γ"
    others = {
        "f alone: the prox of the penalty is missing": 0.0,
        short: 1.0 / n,
        long: float(n),
        "f + 2ψ: the penalty counts twice": 2.0,
        "f + ψ/2: the penalty counts half": 0.5,
    }
    away = {w: float(np.linalg.norm(x - _minimum(problem, t))) for w, t in others.items()}
    words, nearest = min(away.items(), key=lambda item: item[1])
    if nearest < 0.2 * np.linalg.norm(x - best):
        return f". It is at the minimiser of {words}"
    return ". Compare one epoch with the formula in numpy: an update is wrong"


class Scaled:
    """factor·ψ."""

    def __init__(self, penalty: Penalty, factor: float) -> None:
        self.penalty, self.factor = penalty, factor
        self.strong_convexity = factor * strong_convexity(penalty)

    def value(self, x: Array) -> float:
        return self.factor * float(self.penalty.value(x)) if self.factor else 0.0

    def prox(self, x: Array, step: float) -> Array:
        return self.penalty.prox(x, self.factor * step) if self.factor else x.copy()


def _minimum(problem: Problem, factor: float) -> Array:
    """The minimiser of f + factor·ψ."""
    other = copy(problem)
    if factor != 1.0:
        other = problem.with_datafit(problem.datafit)
        other.penalty = Scaled(problem.penalty, factor)
    with held_warnings():
        return ExactProxRR(tol=1e-9, epochs=2000).solve(other).x
