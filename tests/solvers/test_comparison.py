"""``rs.compare``: the same runs as one by one, resumed, in any number of processes, and what it writes."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import reshuffle as rs
from reshuffle.bands import together
from reshuffle.comparison import compare
from reshuffle.comparison.table import Spread
from reshuffle.plotting import plot_gap
from reshuffle.solvers import Epoch, Method, Solver

mpl.use("Agg")
STEP = rs.steps.InverseTime()


@pytest.fixture(scope="module")
def problem() -> rs.Problem:
    X, y = rs.datasets.breast_cancer()
    return rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.01, 0.01))


def solvers(**more: Any) -> dict[str, Any]:
    return {
        "ProxRR": rs.ProxRR(step=STEP, epochs=20),
        "exact_": rs.ExactProxRR(tol=1e-9),
        **more,
    }


def test_the_runs_are_those_of_solve_and_the_table_counts_them(problem: rs.Problem) -> None:
    found = compare(problem, solvers(), seeds=[3, 1])
    assert list(found.runs) == ["ProxRR", "exact_"]
    assert list(found.runs["ProxRR"]) == [3, 1]
    alone = rs.ProxRR(step=STEP, epochs=20, seed=1).solve(problem)
    assert found.runs["ProxRR"][1].digest == alone.digest
    best = rs.theory.solve(problem)
    assert abs(found.minimum - problem.objective(best)) < 1e-14
    table = found.table(accuracy=0.05)
    line, gap = table["ProxRR"], alone.trace["objective"] - found.minimum
    row = np.flatnonzero(gap <= table.gap)[0]
    assert line.reached == line.runs == 2
    assert line.passes.least <= alone.trace["gradients"][row] / problem.n <= line.passes.most
    assert line.prox_evals.least <= alone.trace["prox_evals"][row] <= line.prox_evals.most
    assert line.gap.least <= gap[-1] <= line.gap.most
    assert found.table(accuracy=1e-12)["ProxRR"].reached == 0
    assert found.table(accuracy=1e-12)["ProxRR"].seconds.median == np.inf
    assert "–" in str(found.table(accuracy=1e-12))
    assert repr(found) == str(found.table())
    with pytest.raises(KeyError, match="exact_"):
        table["nobody"]


def test_finished_runs_are_taken_from_the_folder(problem: rs.Problem, tmp_path: Path) -> None:
    first = compare(problem, solvers(), seeds=2, folder=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == 5  # four runs and the minimum
    again = compare(problem, solvers(), seeds=3, folder=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(list(tmp_path.iterdir())) == 7
    before, after = (c.runs["ProxRR"][1].trace for c in (first, again))
    np.testing.assert_array_equal(after["seconds"], before["seconds"])  # the clocks of then
    damaged = next(path for path in files if path.name.startswith("ProxRR-seed0"))
    damaged.write_bytes(damaged.read_bytes()[:-40])
    repaired = compare(problem, solvers(), seeds=2, folder=tmp_path)
    assert repaired.runs["ProxRR"][0].digest == first.runs["ProxRR"][0].digest
    other = {"ProxRR": rs.ProxRR(step=STEP, epochs=21)}
    assert compare(problem, other, seeds=1, folder=tmp_path).runs["ProxRR"][0].epoch == 21
    with pytest.raises(rs.InputError, match="cannot be created"):
        compare(problem, other, folder=damaged / "below a file")


def test_other_processes_find_the_same_and_know_classes_typed_in_by_hand(
    problem: rs.Problem, tmp_path: Path
) -> None:
    class Half(Method):
        def __init__(self, problem: Any) -> None:
            super().__init__(problem)
            self.schedule = lambda epoch: 0.5 / problem.smoothness.L_f

        def start(self, x0: Any) -> Any:
            return {"x": x0}

        def advance(self, state: Any, epoch: int, step: float) -> Epoch:
            x = state["x"] - step * self.problem.gradient(state["x"])
            return Epoch({"x": self.problem.prox(x, step)}, self.problem.n, 1)

    @dataclass(frozen=True, kw_only=True)
    class Mine(Solver):
        def bind(self, problem: Any) -> Method:
            return Half(problem)

    mine = solvers(mine=Mine(epochs=5), falling=rs.ProxRR(step=lambda t: 0.01 / (1 + t), epochs=5))
    here = compare(problem, mine, seeds=2)
    there = compare(problem, mine, seeds=2, workers=2, folder=tmp_path)
    for name, by_seed in here.runs.items():
        for seed, result in by_seed.items():
            assert there.runs[name][seed].digest == result.digest
    assert there.minimum == here.minimum


def test_a_federation_and_its_bytes(problem: rs.Problem) -> None:
    clients = rs.federated.split(problem, clients=3, seed=0)
    found = compare(
        clients, {"FedRR": rs.FedRR(step=STEP, rounds=9), "all": rs.FISTA(epochs=9)}, seeds=2
    )
    assert found.runs["FedRR"][0].epoch == 9
    assert found.plot(against="rounds").get_xlabel() == "communication rounds"
    with pytest.raises(rs.InputError, match="no bytes_up"):
        found.plot(against="bytes")  # FISTA sends none
    only = compare(clients, {"FedRR": rs.FedRR(step=STEP, rounds=9)}, seeds=2)
    line = only.plot(against="bytes").lines[0]
    assert np.max(np.asarray(line.get_xdata())) == 9 * 3 * 2 * 30 * 8


def test_what_is_written(problem: rs.Problem, tmp_path: Path) -> None:
    found = compare(problem, {"a_b & c": rs.ProxRR(step=STEP, epochs=3)}, seeds=2)
    found.to_csv(tmp_path / "all.csv")
    with open(tmp_path / "all.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 4
    assert float(rows[-1]["passes"]) == 3.0
    gap = float(rows[-1]["objective"]) - found.minimum
    assert float(rows[-1]["gap_to_minimum"]) == gap
    text = found.to_latex(tmp_path / "table.tex", accuracy=0.5)
    assert (tmp_path / "table.tex").read_text() == text
    assert r"a\_b \& c & " in text
    assert text.count(r"\\") == 2
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    found.to_parquet(tmp_path / "all.parquet")
    frame = pd.read_parquet(tmp_path / "all.parquet")
    assert frame["gap_to_minimum"].tolist() == [float(row["gap_to_minimum"]) for row in rows]


def test_a_run_that_diverges_stays_up_to_there() -> None:
    loose = rs.Problem(*rs.datasets.breast_cancer(), loss=rs.losses.Squared(), ridge=0.1)
    found = compare(loose, {"wild": rs.ProxRR(step=1e3, epochs=50)}, seeds=2)
    assert found.table()["wild"].diverged == 2
    assert "0 of 2, 2 diverged" in str(found)


def test_curves_with_legends_lists_and_bands(problem: rs.Problem) -> None:
    runs = [rs.ExactProxRR(tol=10.0**-k, seed=k).solve(problem) for k in (3, 9)]
    minimum = min(run.trace["objective"].min() for run in runs)
    ax = plot_gap({"several": runs, "one": runs[0].trace}, minimum, "seconds")
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["several", "one"]
    assert len(ax.collections) == 1  # the band
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert [line.get_label() for line in plot_gap(runs, minimum).lines] == ["run 0", "run 1"]
    assert plot_gap(runs[0], minimum, legend=False).get_legend() is None
    wrongs: Any = ({"x": []}, {"x": [1]}, {"x": "ab"})
    for wrong in wrongs:
        with pytest.raises(rs.InputError, match="must be a result"):
            plot_gap(wrong, minimum)
    with pytest.raises(rs.InputError, match="against"):
        plot_gap(runs, minimum, "distance")
    with pytest.raises(rs.InputError, match="needs n"):
        plot_gap(rs.Trace({"gradients": [0, 1], "objective": [1, 0]}), 0.0, "passes")


def test_curves_whose_rows_lie_elsewhere() -> None:
    costs = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 4.0])]
    gaps = [np.array([1.0, 1e-2, 1e-4]), np.array([1.0, 1e-4])]
    grid, rows = together(costs, gaps, logarithmic=False)
    assert grid[0] == 0.0
    assert grid[-1] == 4.0
    np.testing.assert_allclose(rows[1], 10.0**-grid, rtol=1e-12)  # a straight line on a log axis
    assert rows[0][-1] == pytest.approx(1e-4)  # it keeps its last gap
    assert Spread.of([3.0, np.inf]).median == np.inf
    assert Spread.of([3.0, 1.0]) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds"),
        ({"seeds": []}, "seeds must not be empty"),
        ({"seeds": "12"}, "seeds must be"),
        ({"seeds": [1.5]}, "seed must be"),
        ({"workers": 0}, "workers"),
        ({"solvers": {}}, "solvers must be a dict"),
        ({"solvers": [rs.ProxRR()]}, "solvers must be a dict"),
        ({"solvers": {"a": rs.ProxRR}}, r"solvers\['a'\] must be a solver"),
        ({"solvers": {3: rs.ProxRR()}}, "a name must be text"),
        ({"solvers": {"fed": rs.FedRR()}}, "takes a Federation"),
        ({"minimum": 100.0}, "minimum = 100 is not the minimum"),
        ({"minimum": "low"}, "minimum"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    problem: rs.Problem, change: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"solvers": {"ProxRR": rs.ProxRR(step=STEP, epochs=2)}, "seeds": 1}
    with pytest.raises(rs.InputError, match=message):
        compare(problem, **(given | change))


def test_a_run_that_was_interrupted_is_not_kept(problem: rs.Problem, tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Interrupted(rs.ProxRR):
        def solve(self, *args: Any, **options: Any) -> rs.Result:
            def stop(result: rs.Result) -> bool:
                raise KeyboardInterrupt

            return super().solve(*args, callbacks=[stop])

    with pytest.raises(KeyboardInterrupt):
        compare(problem, {"cut": Interrupted(step=STEP)}, seeds=1, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_method_class_that_changed_is_run_again(tmp_path: Path) -> None:
    """Typed in by hand, as in a notebook: the solver's class is the same, the method's is not."""

    def solver(factor: float) -> Any:
        source = f"""
class Odd(rs.solvers.Method):
    def advance(self, state, epoch, step):
        return rs.solvers.Epoch({{"x": state["x"] + {factor}}}, 1, 1)

class Solver(rs.solvers.Solver):
    method_class = Odd
"""
        names: dict[str, Any] = {"rs": rs, "__name__": "typed_in"}
        exec(source, names)
        return names["Solver"](epochs=2)

    problem = rs.Problem(*rs.datasets.breast_cancer())
    found = [
        rs.compare(problem, {"odd": solver(f)}, seeds=1, folder=tmp_path, minimum=0.0)
        for f in (0.001, 0.002)
    ]
    one, other = (c.runs["odd"][0].x for c in found)
    assert np.allclose(2.0 * one, other)
