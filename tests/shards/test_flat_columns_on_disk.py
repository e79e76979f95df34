"""Columns without curvature of their own, on disk: constant beside an intercept, and zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.datasets import Conversion, convert, open_shards


@pytest.mark.parametrize(
    "penalty", [rs.penalties.L1(0.01), rs.penalties.L2Ball(1.0), rs.penalties.FusedLasso(0.1, 0.1), rs.penalties.Simplex(1.0)],
    ids=lambda penalty: type(penalty).__name__,
)  # fmt: skip
@pytest.mark.parametrize("value", [7.0, 0.0])
def test_columns_without_curvature(penalty: Any, value: float, tmp_path: Path) -> None:
    X, y = np.full((300, 1), value), np.where(np.arange(300) % 3, 1.0, -1.0)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    convert(tmp_path / "rows.npz", tmp_path / "shards", Conversion(shard_rows=50))
    rows, targets = open_shards(tmp_path / "shards", memory=100)
    problem = rs.Problem(rows, targets, penalty=penalty, fit_intercept=True)
    found = rs.ExactProxRR(tol=1e-7).solve(problem)
    assert found.converged
    wanted = rs.ExactProxRR(tol=1e-10).solve(rs.Problem(X, y, penalty=penalty, fit_intercept=True))
    above = problem.objective(found.x) - problem.objective(wanted.x)
    assert abs(above) <= 1e-7 * problem.datafit.at_zero
