"""The arithmetic of the performance profile, on times that are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs

pytest.importorskip("threadpoolctl")

from benchmarks import profile
from benchmarks.corpus import CORPUS
from benchmarks.profile_figure import (
    BEST_PEER,
    Time,
    curve,
    draw,
    lines_of,
    ratios,
    score,
    summary,
    table,
)
from benchmarks.profile_solvers import HINDSIGHT, OURS, groups_of, twin

ACCURACY = 1e-6
INF = float("inf")


def line(problem: str, solver: str, seconds: float, accuracy: float = ACCURACY) -> Time:
    return Time(
        problem=problem, half="tuning" if problem == "a" else "held-out", size="small", loss="logistic",
        penalty="l1", solver=solver, accuracy=accuracy, seconds=seconds, solved=np.isfinite(seconds),
        tol=1e-4, reached=1e-7,
    )  # fmt: skip


TIMES = [
    line("a", OURS, 1.0), line("a", HINDSIGHT, 0.5), line("a", "skglm X", 4.0), line("a", "skglm Y", 3.0),
    line("b", OURS, 2.0), line("b", HINDSIGHT, 2.0), line("b", "celer", 1.0),
    line("c", OURS, INF), line("c", HINDSIGHT, INF), line("c", "celer", 5.0),
    line("d", OURS, 1.0), line("d", HINDSIGHT, 1.0),
    line("e", OURS, INF), line("e", HINDSIGHT, INF), line("e", "celer", INF),
    line("f", OURS, 1.0), line("f", HINDSIGHT, 1.0), line("f", "celer", INF),
]  # fmt: skip


def test_a_curve_is_the_share_within_each_factor() -> None:
    seconds = np.array([1.0, 2.0, 30.0, INF])
    best = np.array([1.0, 1.0, 3.0, INF])
    np.testing.assert_allclose(
        curve(seconds, best, np.array([1.0, 2.0, 9.9, 10.0, 1e3])), [0.25, 0.5, 0.5, 0.75, 0.75]
    )


def test_a_line_of_a_package_has_its_best_solver_and_hindsight_moves_no_other() -> None:
    lines, best = lines_of(TIMES, ACCURACY)
    assert lines["skglm"][0] == 3.0
    np.testing.assert_array_equal(lines[BEST_PEER], [3.0, 1.0, 5.0, INF, INF, INF])
    np.testing.assert_array_equal(best, [1.0, 1.0, 5.0, 1.0, INF, 1.0])


def test_ratios_tell_who_solves_and_who_takes() -> None:
    found = {r.problem: r for r in ratios(TIMES)}
    assert (found["a"].value, found["a"].who, found["a"].peers) == (3.0, "skglm Y", 2)
    assert found["b"].value == 0.5
    assert found["c"].value == 0.0
    assert found["d"].peers == 0
    assert np.isnan(found["e"].value)
    assert found["f"].value == INF


def test_the_score_counts_pairs_that_a_peer_takes() -> None:
    found = score(ratios(TIMES))
    assert (found.pairs, found.twice, found.faster, found.nobody, found.alone) == (5, 2, 2, 1, 1)
    assert [r.problem for r in found.slower] == ["c", "b"]


def test_the_table_has_the_worst_first() -> None:
    rows = table(ratios(TIMES)).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["c", "b", "a", "d", "e", "f"]
    assert "none takes it" in rows[3]
    assert "none solves it" in rows[4]


def test_the_summary_has_both_halves() -> None:
    told = "\n".join(summary(TIMES))
    assert "all: 6 problems" in told
    assert "tuning: 1 problems" in told
    assert "held-out: 5 problems" in told


def test_a_figure_is_drawn_where_some_accuracies_have_no_solution(tmp_path: Path) -> None:
    times = [line(t.problem, t.solver, t.seconds, a) for t in TIMES for a in (1e-3, 1e-6)]
    draw([*times, line("a", OURS, INF, 1e-9)], tmp_path / "profile.png")
    assert (tmp_path / "profile.png").stat().st_size > 0


def test_times_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "results" / "profile.csv"
    profile.append(path, TIMES[:4])
    profile.append(path, TIMES[4:])
    assert profile.read(path) == TIMES


def test_the_loosest_tolerance_that_is_accurate_enough_counts() -> None:
    runs = [(1e-1, 1.0, 1e-2), (1e-2, 2.0, 1e-7), (1e-6, 3.0, 1e-8)]
    assert profile.enough(runs, 1e-6, certified=False) == runs[1]
    assert profile.enough(runs, 1e-6, certified=True) == runs[2]
    assert profile.enough(runs, 1e-9, certified=False) is None


def test_tolerances_go_down_until_the_last_accuracy_is_reached() -> None:
    found = profile.ladder(lambda tol: (0.01, np.array([tol])), lambda x: float(x[0]))
    assert found[0][0] == 0.1
    assert found[-1][2] <= 1e-9 < found[-2][2]
    slow = profile.ladder(lambda tol: (0.2, np.array([1.0])), lambda x: 1.0)
    assert len(slow) == 14
    assert profile.ladder(lambda tol: (INF, "crashed"), lambda x: 1.0) == []


def test_coordinates_outside_all_groups_are_groups_of_weight_zero() -> None:
    groups, weights = groups_of(CORPUS["A3: labels shorter than x"].build())
    assert sorted(j for group in groups for j in group) == list(range(20))
    assert weights == [2.0] * 4 + [0.0] * 4


@pytest.mark.parametrize("name", ["sparse, log, en, 0.01, b", "iris, mult, gl, 0.1"])
def test_a_twin_is_of_the_same_kind(name: str) -> None:
    instance = CORPUS[name].build()
    other = twin(instance)
    assert type(other.X) is type(instance.X)
    assert (other.loss, other.penalty, other.intercept) == (
        instance.loss, instance.penalty, instance.intercept,
    )  # fmt: skip
    assert rs.ExactProxRR(tol=1e-6).solve(other.problem()).converged
