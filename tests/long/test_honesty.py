"""No 'converged' is false: random problems whose minima come from Newton's method in numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.canonical import canonical
from benchmarks.corpus import CORPUS
from benchmarks.honesty import judge, solver_of
from benchmarks.instances import LOSSES, PENALTIES
from benchmarks.random_problems import random_problem
from benchmarks.truth import attained, optimum

SEEDS = range(200)
BATCH = 25  # problems of one test: a failure names few, and start-up is paid once
FEW = 200  # epochs: what has not converged by then makes no claim that could be false


@pytest.mark.parametrize(
    "first", [0, 25, *(pytest.param(more, marks=pytest.mark.slow) for more in SEEDS[50::BATCH])]
)
def test_no_converged_is_false(first: int) -> None:
    """P(x) of a run that says 'converged' is within tol·f(0) of a point that Newton's method found."""
    make, false = solver_of("ExactProxRR", FEW, None), []
    for seed in range(first, first + BATCH):
        instance = random_problem(seed)
        truth, _ = optimum(instance)
        for tol in (1e-3, 1e-6):
            found = judge(instance, truth, make, tol, "random", "")
            if found.verdict in ("false", "crashed"):
                false.append(f"{found.name}, tol {tol:g}: {found.reached:.1e}; {found.message}")
    assert not false, "\n".join(false)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_the_minimum_is_bracketed(seed: int) -> None:
    """The point found has the objective that is claimed, by the package's own count too."""
    instance = random_problem(seed)
    truth, x = optimum(instance)
    assert attained(instance)
    assert truth.lower <= truth.upper
    assert truth.width <= 1e-9
    assert canonical(instance).objective(x.ravel()) == pytest.approx(truth.upper, rel=1e-9)
    problem = instance.problem()
    assert problem.shape == x.shape
    assert problem.value(np.zeros(problem.shape)) == pytest.approx(truth.at_zero, rel=1e-12)
    near = problem.objective(np.ascontiguousarray(x))
    assert abs(near - truth.upper) <= 1e-9 * truth.at_zero


def test_random_problems_have_all_kinds_and_are_the_same_again() -> None:
    found = [random_problem(seed) for seed in SEEDS]
    assert {instance.loss for instance in found} == set(LOSSES)
    assert {instance.penalty for instance in found} == set(PENALTIES)
    assert [random_problem(seed).digest() for seed in (0, 7)] == [found[k].digest() for k in (0, 7)]


def test_the_corpus_has_two_halves_and_three_sizes() -> None:
    halves = [entry.half for entry in CORPUS.values()]
    assert len(CORPUS) >= 150
    assert 0.4 * len(halves) <= halves.count("tuning") <= 0.6 * len(halves)
    assert {entry.size for entry in CORPUS.values()} == {"small", "medium", "large"}


def test_separable_labels_without_a_penalty_have_no_minimiser() -> None:
    separable = CORPUS["wine 0 std, log, l1, 0.001"].build().with_(penalty="zero", l1=0.0)
    assert not attained(separable)
    assert attained(separable.with_(ridge=1e-6))
