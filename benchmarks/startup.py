"""What a new process waits for: imports, the first epoch, the first fit beside scikit-learn's."""

from __future__ import annotations

import os
import subprocess
import sys

import reshuffle as rs
from benchmarks.report import Finding
from benchmarks.timing import Contestant, interleaved, timed

IMPORT = """
import time, numpy, scipy.sparse
clock = time.perf_counter()
import reshuffle
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
FIRST_FIT = """
import time
clock = time.perf_counter()
from sklearn.datasets import load_breast_cancer
from {module} import {name}
X, y = load_breast_cancer(return_X_y=True)
{name}({options}).fit(X, y)
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
    """From the data of a1a in memory to the end of one epoch of ProxRR; a first fit beside scikit-learn's."""
    rs.datasets.load_libsvm("a1a")  # says so where it is missing
    ours = FIRST_FIT.format(module="reshuffle", name="RRClassifier", options="")
    theirs = FIRST_FIT.format(
        module="sklearn.linear_model", name="LogisticRegression", options="max_iter=10_000"
    )
    fits = {"epoch": _printed(FIRST_EPOCH), "ours": _printed(ours), "theirs": _printed(theirs)}
    best = interleaved(fits, rounds=3 if quick else 9)
    ratio, detail = best["ours"] / best["theirs"], "breast cancer, import and fit in a new process"
    return [
        Finding("first epoch", best["epoch"], "s"),
        Finding("import and first RRClassifier fit", best["ours"], "s"),
        Finding("over scikit-learn's LogisticRegression", ratio, "×", "at most", 1.3, detail),
    ]


def _printed(code: str) -> Contestant:
    """The seconds that the code prints in a new process."""
    return lambda: float(_run([sys.executable, "-c", code]))


def _help() -> None:
    _run([sys.executable, "-m", "reshuffle", "--help"])


def _run(command: list[str]) -> str:
    """What a process prints; it may keep bytecode, as it does where nothing forbids it."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=inherited, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout
