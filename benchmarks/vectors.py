"""How many vectors of length d, and of length n, a run needs at its peak beyond its data: each in a fresh process.

python -m benchmarks.vectors             # d = 5e7 with one row, n = 5e6: some minutes, up to 12 GB
python -m benchmarks.vectors --quick     # a tenth of both
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.memory import status

WIDE, TALL = 50_000_000, 5_000_000
SOLVERS: dict[str, Any] = {
    "ProxRR": rs.ProxRR(epochs=2, step=1e-3),
    "ProxRR, prox each step": rs.ProxRR(epochs=2, step=1e-3, prox="step"),
    "ProxRR, ShuffleOnce": rs.ProxRR(epochs=2, step=1e-3, order=rs.orders.ShuffleOnce()),
    "ProxSGD": rs.ProxSGD(epochs=2, step=1e-3),
    "FISTA": rs.FISTA(epochs=3),
    "ExactProxRR": rs.ExactProxRR(epochs=3),
    "ExactProxRR, no Newton steps": rs.ExactProxRR(epochs=3, finish=False),
}
STATED = {
    "ProxRR": (10, 2),
    "ProxRR, prox each step": (10, 2),
    "ProxRR, ShuffleOnce": (10, 7),
    "ProxSGD": (10, 2),
    "FISTA": (24, 2),
    "ExactProxRR": (23, 15),
    "ExactProxRR, no Newton steps": (17, 6),
}
"""What docs/runs.md says: vectors of length d, and of length n, of 8 bytes for each entry."""


def problem(n: int, d: int) -> rs.Problem:
    """n rows of at most two values, squared loss, an ℓ1 penalty."""
    indptr = 2 * np.arange(n + 1, dtype=np.int32)
    indices = np.empty(2 * n, dtype=np.int32)
    indices[::2], indices[1::2] = np.arange(n) % (d - 1), d - 1
    data = np.ones(2 * n)
    data[::2] = 0.5
    X = sp.csr_matrix((data, indices, indptr), shape=(n, d))
    y = np.ones(n)
    y[::2] = -1.0
    return rs.Problem(X, y, rs.losses.Squared(), rs.penalties.L1(1e-9))


def over(name: str, n: int, d: int) -> float:
    """Bytes at the peak of a run, less those of the process with the data in it."""
    solver = SOLVERS[name]
    solver.solve(problem(3, 40))
    solver.solve(problem(300, 40))
    data = problem(n, d)
    before = status("VmRSS")
    solver.solve(data)
    return float(status("VmHWM") - before)


def measured(name: str, n: int, d: int) -> float:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.vectors",
        "--one",
        name,
        str(n),
        str(d),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        name, n, d = options.one
        print(json.dumps(over(name, int(n), int(d))))
        return
    wide, tall = (WIDE // 10, TALL // 10) if options.quick else (WIDE, TALL)
    print("| solver | vectors of length d | stated | vectors of length n | stated |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in SOLVERS:
        d, n = measured(name, 1, wide) / (8 * wide), measured(name, tall, 100) / (8 * tall)
        stated = STATED.get(name, ("?", "?"))
        print(f"| {name} | {d:.1f} | {stated[0]} | {n:.1f} | {stated[1]} |", flush=True)


if __name__ == "__main__":
    main()
