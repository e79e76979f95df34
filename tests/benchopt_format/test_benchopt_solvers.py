"""The solver files for benchopt: their conventions, their minima, and a small benchmark run by benchopt itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, Lasso, LogisticRegression

import reshuffle as rs

pytest.importorskip("benchopt", reason="benchopt is needed only for its benchmarks")

FOLDER = Path(__file__).parents[2] / "benchmarks" / "benchopt"
NAMES = sorted(file.stem for file in FOLDER.glob("[a-z]*.py"))


def data(signs: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = X[:, 0] - 2.0 * X[:, 5] + 0.5 + 0.5 * rng.standard_t(2, 60)
    return X, np.where(y > np.median(y), 1.0, -1.0) if signs else y


def solved(name: str, iterations: int = 200, **objective: Any) -> Any:
    solver = import_module(f"benchmarks.benchopt.{name}").Solver.get_instance()
    assert solver.skip(**objective) == (False, None)
    solver.set_objective(**objective)
    solver.run(0)  # the first call of benchopt, for the curve's first point
    (start,) = solver.get_result().values()
    assert np.isfinite(start).all()
    solver.run(iterations)
    (found,) = solver.get_result().values()
    assert found.shape == start.shape
    return found


def test_the_files_are_short_and_there_is_one_for_each_benchmark() -> None:
    assert NAMES == ["group_lasso", "huber_l2", "lasso", "logreg_l1", "logreg_l2"]
    for name in NAMES:
        assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 40


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_lasso(fit_intercept: bool) -> None:
    X, y = data()
    lmbd = 0.1 * np.abs(X.T @ y).max()
    beta = solved("lasso", X=X, y=y, lmbd=lmbd, fit_intercept=fit_intercept)
    peer = Lasso(alpha=lmbd / len(y), fit_intercept=fit_intercept, tol=1e-14, max_iter=10**5)
    peer.fit(X, y)
    np.testing.assert_allclose(beta[:12], peer.coef_, atol=1e-8)
    np.testing.assert_allclose(beta[12:], [peer.intercept_] * fit_intercept, atol=1e-8)


def test_logreg_l1() -> None:
    X, y = data(signs=True)
    lmbd = 0.05 * np.abs(X.T @ y).max()
    beta = solved("logreg_l1", X=X, y=y, lmbd=lmbd)
    slope = -X.T @ (y / (1 + np.exp(y * (X @ beta))))
    assert 0 < np.count_nonzero(beta) < 12
    np.testing.assert_allclose(slope[beta != 0], -lmbd * np.sign(beta[beta != 0]), atol=1e-6)
    assert np.abs(slope).max() <= lmbd * (1 + 1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_logreg_l2(fit_intercept: bool) -> None:
    X, y = data(signs=True)
    beta = solved("logreg_l2", X=X, y=y, lmbd=0.1, fit_intercept=fit_intercept)
    peer = LogisticRegression(
        C=10.0, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-12
    )
    peer.fit(X, y)
    np.testing.assert_allclose(beta[:12], peer.coef_[0], atol=1e-7)
    if fit_intercept:
        np.testing.assert_allclose(beta[12], peer.intercept_[0], atol=1e-7)


def test_huber() -> None:
    X, y = data()
    found = solved("huber_l2", X=X, y=y, lmbd=1.0, epsilon=1.35)
    peer = HuberRegressor(alpha=1.0, epsilon=1.35, tol=1e-12, max_iter=10**4).fit(X, y)

    def objective(intercept: float, scale: float, coef: Any) -> float:
        z = np.abs(y - X @ coef - intercept) / scale
        loss = np.where(z > 1.35, 2 * 1.35 * z - 1.35**2, z**2)
        return float(np.sum(scale + scale * loss) + coef @ coef)

    mine = objective(found[0], found[1], found[2:])
    theirs = objective(peer.intercept_, peer.scale_, peer.coef_)
    assert mine <= theirs + 1e-9 * theirs
    np.testing.assert_allclose(found, np.r_[peer.intercept_, peer.scale_, peer.coef_], atol=1e-4)


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_group_lasso(tau: float) -> None:
    """The optimality conditions, group by group; the members of groups are not neighbours."""
    X, y = data()
    indices, starts = np.random.default_rng(1).permutation(12), np.array([0, 3, 7, 12])
    groups = [indices[a:b] for a, b in pairwise(starts)]
    lmbd = 0.6 * max(np.linalg.norm(X[:, g].T @ y) for g in groups) / len(y)
    beta = solved(
        "group_lasso", X=X, y=y, lmbd=lmbd, groups=groups, grp_indices=indices, grp_ptr=starts, tau=tau
    )  # fmt: skip
    slope = X.T @ (X @ beta - y) / len(y)
    zero = [not beta[g].any() for g in groups]
    assert any(zero)
    assert not all(zero)
    for g, is_zero in zip(groups, zero, strict=True):
        left = np.sign(slope[g]) * np.maximum(np.abs(slope[g]) - tau * lmbd, 0.0)
        if is_zero:
            assert np.linalg.norm(left) <= (1 - tau) * lmbd * (1 + 1e-9)
            continue
        inside = beta[g] != 0
        wanted = -tau * lmbd * np.sign(beta[g]) - (1 - tau) * lmbd * beta[g] / np.linalg.norm(
            beta[g]
        )
        np.testing.assert_allclose(slope[g][inside], wanted[inside], atol=1e-7)
        assert np.all(np.abs(slope[g][~inside]) <= tau * lmbd * (1 + 1e-9))


OBJECTIVE = """
import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "lasso"
    url = ""
    min_benchopt_version = "1.5"
    parameters = {"fit_intercept": [False, True]}

    def set_data(self, X, y):
        self.X, self.y = X, y
        self.lmbd = 0.1 * np.abs(X.T @ y).max()

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lmbd": self.lmbd, "fit_intercept": self.fit_intercept}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1] + self.fit_intercept)}

    def evaluate_result(self, beta):
        coef, intercept = beta[:self.X.shape[1]], beta[self.X.shape[1]:].sum()
        r = self.y - self.X @ coef - intercept
        return {"value": 0.5 * r @ r + self.lmbd * np.abs(coef).sum()}
"""
DATASET = """
import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "normal"

    def get_data(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((80, 30))
        return {"X": X, "y": X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(80)}
"""
PEER = """
import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.linear_model import Lasso


class Solver(BaseSolver):
    name = "sklearn"
    sampling_strategy = "iteration"

    def set_objective(self, X, y, lmbd, fit_intercept):
        warnings.filterwarnings("ignore")
        self.X, self.y, self.fit_intercept = X, y, fit_intercept
        self.model = Lasso(alpha=lmbd / len(y), fit_intercept=fit_intercept, tol=0.0)

    def run(self, n_iter):
        self.model.max_iter = n_iter + 1
        self.model.fit(self.X, self.y)

    def get_result(self):
        tail = [self.model.intercept_] if self.fit_intercept else []
        return {"beta": np.r_[self.model.coef_, tail]}
"""


def test_benchopt_runs_a_benchmark_with_the_file(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for name, text in (
        ("objective.py", OBJECTIVE),
        ("datasets/normal.py", DATASET),
        ("solvers/peer.py", PEER),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(FOLDER / "lasso.py", tmp_path / "solvers" / "reshuffle.py")
    options = ["--no-plot", "--no-html", "-n", "6", "-r", "1", "--output", "found"]
    done = subprocess.run(
        [sys.executable, "-m", "benchopt", "run", str(tmp_path), *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(rs.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = tmp_path.glob("outputs/found*.parquet")
    table = pandas.read_parquet(file)
    assert set(table["solver_name"]) == {"reshuffle", "sklearn"}
    lowest = table.groupby(["objective_name", "solver_name"])["objective_value"].min().unstack()
    assert len(lowest) == 2
    np.testing.assert_allclose(lowest["reshuffle"], lowest["sklearn"], rtol=1e-8)
