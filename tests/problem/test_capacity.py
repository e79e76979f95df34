"""What a run needs in memory: stated, measured, and refused where there is not so much."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.vectors import SOLVERS, STATED, measured
from reshuffle import capacity


def wide(d: int) -> rs.Problem:
    X = sp.csr_matrix((np.ones(1), np.array([1]), np.array([0, 1])), shape=(1, d))
    return rs.Problem(X, [1.0], rs.losses.Squared())


def test_sizes_that_cannot_be_are_refused_with_their_bytes() -> None:
    with pytest.raises(
        rs.InputError,
        match=r"x of shape .* takes 64,000,000,000,000 bytes, but this process can have",
    ):
        wide(2_000_000_000_000)
    huge = rs.OracleProblem(
        n=2,
        dim=2_000_000_000_000,
        gradient=lambda i, x: x,
        value=lambda x: 0.0,
        smoothness=np.ones(2),
    )
    solvers: list[Any] = [rs.ProxRR(), rs.ExactProxRR(), rs.FISTA(), rs.ProxSGD()]
    for solver in solvers:
        with pytest.raises(rs.InputError, match="takes 64,000,000,000,000 bytes"):
            solver.solve(huge)


def test_groups_far_out_are_refused_with_their_bytes() -> None:
    with pytest.raises(rs.InputError, match="takes 8,000,000,000,008 bytes"):
        rs.penalties.GroupLasso(0.1, [[0, 10**12]])
    labels = np.array([0, 10**12])  # labels may have gaps of any size
    assert rs.penalties.GroupLasso(1.0, labels).value(np.array([3.0, 4.0])) == 7.0


def test_the_limits_of_the_process_and_of_its_container_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "max").write_text("123456789\n")
    monkeypatch.setattr(capacity, "CGROUP", (tmp_path / "none", tmp_path / "max"))
    assert capacity.memory() == 123456789
    (tmp_path / "max").write_text("max\n")
    assert capacity.memory() > 123456789
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (5 << 30, 5 << 30))\n"
        "from reshuffle.capacity import memory; print(memory())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 5 << 30


def test_memory_that_runs_out_on_the_way_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hungry:
        def value(self, x: Any) -> float:
            return 0.0

        def prox(self, x: Any, step: float) -> Any:
            return np.empty(10**17)

    problem = rs.Problem(np.eye(2), [1.0, -1.0], penalty=Hungry())
    with pytest.raises(rs.InputError, match=r"Unable to allocate .* x alone takes 16 bytes"):
        rs.ProxRR(step=0.1).solve(problem)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_a_run_needs_no_more_vectors_than_stated(name: str) -> None:
    """d = 5e7 with one row, and n = 5e6: ``pytest -m slow tests/problem/test_capacity.py``."""
    d, n = measured(name, 1, 50_000_000) / 4e8, measured(name, 5_000_000, 100) / 4e7
    assert d <= STATED[name][0]
    assert n <= STATED[name][1]


@pytest.mark.parametrize("name", ["ProxRR"])
def test_a_smaller_run_needs_no_more_than_stated(name: str) -> None:
    assert measured(name, 1, 3_000_000) / 2.4e7 <= STATED[name][0] + 1.0
