"""What a new process waits for: imports, compiled code from the disk, the first epoch."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import reshuffle as rs
from benchmarks.report import Finding
from benchmarks.timing import Contestant, interleaved, timed

IMPORT = """
import time, numpy, scipy.sparse
clock = time.perf_counter()
import reshuffle
print(time.perf_counter() - clock)
"""
NUMBA = """
import time, numpy, scipy.sparse, sklearn.datasets
clock = time.perf_counter()
import numba
numba.njit(lambda x: x + 1.0)(1.0)
print(time.perf_counter() - clock)
"""
FIRST_EPOCH = """
import time, numpy, scipy.sparse
import reshuffle as rs
X, y = rs.datasets.load_libsvm("a1a")
clock = time.perf_counter()
problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=1e-3, l2=1e-3))
rs.ProxRR(step=0.01, epochs=1).solve(problem)
print(time.perf_counter() - clock)
"""


def startup(quick: bool) -> list[Finding]:
    """Imports and the command's help."""
    contestants = {"import": _printed(IMPORT), "help": timed(_help)}
    best = interleaved(contestants, rounds=3 if quick else 9)
    return [
        Finding("import reshuffle", best["import"], "s", "at most", 0.15, "after numpy and scipy"),
        Finding("reshuffle --help", best["help"], "s", "at most", 0.5, "the whole process"),
    ]


def first_epoch(quick: bool) -> list[Finding]:
    """From the data of a1a in memory to the end of one epoch of ProxRR."""
    rs.datasets.load_libsvm("a1a")  # says so where it is missing
    with tempfile.TemporaryDirectory() as cache:
        first = _printed(FIRST_EPOCH, NUMBA_CACHE_DIR=cache)
        cold = first()
        best = interleaved({"warm": first, "numba": _printed(NUMBA)}, rounds=3 if quick else 9)
    return [
        Finding("compiled before", best["warm"], "s", "at most", 0.6, "from numba's cache"),
        Finding("compiled now", cold, "s"),
        Finding("numba alone", best["numba"], "s", detail="its import and one trivial function"),
    ]


def _printed(code: str, **variables: str) -> Contestant:
    """The seconds that the code prints in a new process."""
    return lambda: float(_run([sys.executable, "-c", code], variables))


def _help() -> None:
    _run([sys.executable, "-m", "reshuffle.cli", "--help"], {})


def _run(command: list[str], variables: dict[str, str]) -> str:
    """What a process prints; it may keep bytecode, as it does where nothing forbids it."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, env=inherited | variables, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout
