"""``reshuffle theory`` on tables, and the run that it proposes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from command_line import run, write_people
from sklearn.datasets import load_diabetes

import reshuffle as rs
from reshuffle.datasets import Reading, load_data


def test_a_table_with_a_target_of_numbers(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    file = tmp_path / "d.csv"
    X.assign(y=y).head(100).to_csv(file, index=False)
    found = json.loads(run("theory", file, "-t", "y", "--json").stdout)
    assert found["loss"] == "squared"
    step, epochs = re.search(r"ProxRR\(step=([\d.e-]+), epochs=(\d+)\)", found["to_run"]).groups()  # type: ignore[union-attr]
    A, t, _ = load_data(file, Reading(target="y"))
    problem = rs.Problem(A, t - t.mean(), rs.losses.Squared(), rs.penalties.L2(found["l2"]))
    best = rs.ExactProxRR(tol=1e-12).solve(problem).x
    solver = rs.ProxRR(step=float(step), epochs=int(epochs), eval_every=None)
    away = np.sum((solver.solve(problem).x - best) ** 2)
    proved = float(re.search(r"≤ ([\d.e+-]+)", found["to_run"]).group(1))  # type: ignore[union-attr]
    assert away <= proved
    assert proved < 0.02 * np.sum(best**2)


def test_classes_of_a_table_and_what_it_asks_for(tmp_path: Path) -> None:
    file = write_people(tmp_path)
    done = run("theory", file, "-t", "buys", "--drop", "spend")
    assert "buys: yes is +1, no is -1" in done.stdout
    assert "To run: ProxRR(step=" in done.stdout
    assert "--target must name the column" in run("theory", file, code=1).stderr
    done = run("theory", file, "-t", "colour", code=1)
    assert "theory is for numbers or two classes, and the target holds 3" in done.stderr
