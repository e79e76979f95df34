"""What a fit costs besides its passes: the wait in a new process, memory, proxes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import reshuffle as rs
from benchmarks.cases import CASES, Case
from benchmarks.figures import write_points
from benchmarks.fit_process import FITS, OURS
from benchmarks.race import reference
from benchmarks.report import Finding

Array = NDArray[np.float64]
TARGET = 1e-6  # (P - P*)/(P(0) - P*)
LONG = 5.0  # seconds, from which on one try is enough


def first_fit(quick: bool, out: Path | None = None) -> list[Finding]:
    """Seconds of the first fit of a new process on a1a, import included."""
    case = CASES["a1a"](quick)[0]
    best, rounds = reference(case), 1 if quick else 4
    seconds: dict[str, float] = {}
    details: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        _store(Path(folder), case)
        for name in FITS:
            run = _process(folder, name, "time")
            gap = case.judge.objective(np.array(run["x"])) - best
            again = rounds if run["seconds"] < LONG else 0
            tries = [run, *(_process(folder, name, "time") for _ in range(again))]
            seconds[name] = min(run["seconds"] for run in tries)
            details[name] = f"relative gap {gap / (case.at_zero - best):.0e}"
    findings = [
        Finding(f"first fit: {name}", s, "s", detail=details[name]) for name, s in seconds.items()
    ]
    ratio = seconds["skglm ProxNewton"] / seconds[OURS]
    findings.append(Finding("skglm over ours", ratio, "×", "at least", 5.0))
    if out is not None:
        points = [{"fit": name, "seconds": s} for name, s in seconds.items()]
        write_points(out / "first-fit-points.csv", points)
    return findings


def fit_memory(quick: bool, out: Path | None = None) -> list[Finding]:
    """Peak memory of a process that fits, and how much of that is above its data."""
    cases = [CASES["a9a"](quick)[1], CASES["unit-rows"](quick)[0]]
    findings: list[Finding] = []
    points: list[dict[str, Any]] = []
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            size = _store(Path(folder), case)
            peaks = {name: _process(folder, name, "memory") for name in FITS}
        rivals = [found["peak"] for name, found in peaks.items() if name != OURS]
        for name, found in peaks.items():
            bar = 1.1 * min(rivals) / 1e6 if name == OURS else None
            parts = size / 1e6, found["above"] / 1e6
            detail = "imports {:.0f} + data {:.0f} + fit {:.0f} MB".format(
                found["peak"] / 1e6 - sum(parts), *parts
            )
            what = f"{case.name}: {name}"
            findings.append(Finding(what, found["peak"] / 1e6, "MB", "at most", bar, detail))
            points.append({"case": case.name, "fit": name, "data": size} | found)
    if out is not None:
        write_points(out / "fit-memory-points.csv", points)
    return findings


def proxes(quick: bool, out: Path | None = None) -> list[Finding]:
    """Proxes to 1e-6 on a9a: ExactProxRR against saga, which has one per step."""
    from benchmarks.peers import fits

    case = CASES["a9a"](quick)[1]
    best = reference(case)
    level, n = best + TARGET * (case.at_zero - best), len(case.y)

    def arrived(result: rs.Result) -> bool:
        return result.trace.last()["objective"] <= level

    trace = rs.ExactProxRR(tol=0.0).solve(case.problem(), callbacks=[arrived]).trace
    ours = trace.last()["prox_evals"]
    saga = next(fit for name, fit in fits(case) if name == "sklearn saga")
    epochs = _fewest(lambda k: case.judge.objective(saga(k)) <= level)
    if out is not None:
        counts = {"ExactProxRR": ours, "sklearn saga": float(n * epochs)}
        write_points(
            out / "proxes-points.csv", [{"fit": k, "proxes": v} for k, v in counts.items()]
        )
    detail = f"{n * epochs:,} against {ours:,.0f}"
    return [Finding("saga's proxes over ours", n * epochs / ours, "×", "at least", 100.0, detail)]


def _fewest(enough: Callable[[int], bool]) -> int:
    """The smallest number that is enough, found by doubling, then halving the interval."""
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _store(folder: Path, case: Case) -> int:
    """The data as files that the processes read, by rows and by columns; returns its bytes."""
    for layout, X in (("csr", sp.csr_matrix(case.X)), ("csc", sp.csc_matrix(case.X))):
        np.savez(folder / f"{layout}.npz", data=X.data, indices=X.indices, indptr=X.indptr)
    np.savez(folder / "about.npz", y=case.y, shape=case.X.shape, strengths=[case.l1, case.l2])
    X = case.X
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + case.y.nbytes)


def _process(folder: str, name: str, what: str) -> dict[str, Any]:
    """What a fit prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.fit_process", folder, name, what]
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=inherited, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
