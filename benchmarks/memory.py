"""The memory of a run beyond its data: at most 16n + 64d bytes + 64 MB, each in a fresh process."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.report import Finding

SLACK = 64e6  # bytes: the interpreter's own ups and downs
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Data:
    """A synthetic problem; without ``stored`` it is dense."""

    n: int = 8_000_000
    features: int = 100
    stored: int | None = 2
    dtype: type = np.float64


@dataclass(frozen=True)
class Case:
    """A solver for two epochs on some data."""

    what: str
    solver: Any
    data: Data = Data()
    copies: int = 0
    """How often the run is allowed to hold the data once more (rows stored in another order)."""


STEP: dict[str, Any] = {"step": 0.01, "epochs": 2}
CASES = {
    case.what: case
    for case in (
        Case("Reshuffle", rs.ProxRR(**STEP)),
        Case("ShuffleOnce", rs.ProxRR(**STEP, order=rs.orders.ShuffleOnce()), copies=1),
        Case("importance", rs.ProxRR(**STEP, importance=True)),
        Case("ProxSGD", rs.ProxSGD(**STEP)),
        Case("ProxSGD, importance", rs.ProxSGD(**STEP, importance=True)),
        Case("Reshuffle, float32", rs.ProxRR(**STEP), Data(dtype=np.float32)),
        Case("Reshuffle, dense", rs.ProxRR(**STEP), Data(features=4, stored=None)),
        Case(
            "ShuffleOnce, dense",
            rs.ProxRR(**STEP, order=rs.orders.ShuffleOnce()),
            Data(features=4, stored=None),
            copies=1,
        ),
        Case(
            "Reshuffle, dense float32",
            rs.ProxRR(**STEP),
            Data(features=4, stored=None, dtype=np.float32),
        ),
        Case("Reshuffle, wide", rs.ProxRR(**STEP), Data(n=200_000, features=4_000_000, stored=20)),
    )
}


def memory(quick: bool) -> Iterator[Finding]:
    """Peak resident memory above the interpreter and the data."""
    if not STATUS.exists():
        raise NotImplementedError(f"{STATUS} is needed to read a process's peak memory")
    shrink = 8 if quick else 1
    for data, cases in groupby(CASES.values(), key=lambda case: case.data):
        n = data.n // shrink
        bar = 16 * n + 64 * data.features + SLACK
        with tempfile.TemporaryDirectory() as folder:
            size = _save(Path(folder), data, n)
            for case in cases:
                over = _measured(folder, case.what)
                detail = f"data {size / 1e6:.0f} MB, {over / n:.1f} bytes per row"
                yield Finding(case.what, over / 1e6, "MB", "at most", bar / 1e6, detail)


def _save(folder: Path, data: Data, n: int) -> int:
    """Write the arrays of the problem; returns their bytes."""
    X, y = rs.datasets.synthetic(n, data.features, stored=data.stored, dtype=data.dtype)
    arrays = [X, y] if data.stored is None else [X.data, X.indices, X.indptr, y]
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    return sum(array.nbytes for array in arrays)


def _measured(folder: str, what: str) -> float:
    """What this module prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", folder, what]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout)["over"])


# --- in the fresh process ------------------------------------------------------------------------


def _solve_and_measure(folder: Path, case: Case) -> float:
    """Bytes at the peak of the run, less those of the warm interpreter and of the data."""
    data = case.data
    small, signs = rs.datasets.synthetic(50, data.features, stored=data.stored, dtype=data.dtype)
    _solve(case, small, signs)
    del small, signs
    gc.collect()
    baseline = status("VmRSS")
    arrays = [np.load(folder / f"{k}.npy") for k in range(2 if data.stored is None else 4)]
    size = sum(int(array.nbytes) for array in arrays)
    *parts, y = arrays
    shape = (y.size, data.features)
    X = parts[0] if data.stored is None else sp.csr_matrix(tuple(parts), shape=shape)
    _solve(case, X, y)
    return status("VmHWM") - baseline - size * (1 + case.copies)


def _solve(case: Case, X: Any, y: Any) -> None:
    case.solver.solve(rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=1e-6, l2=1e-6)))


def status(name: str) -> int:
    """Bytes of a line of the process's status: VmRSS now, VmHWM at its peak."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps({"over": _solve_and_measure(Path(sys.argv[1]), CASES[sys.argv[2]])}))
