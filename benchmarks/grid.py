"""The default step and prox spacing of the exact method against the best of a grid of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import reshuffle as rs
from benchmarks.cases import CASES, Case
from benchmarks.figures import write_points
from benchmarks.race import reference
from benchmarks.report import Finding
from benchmarks.timing import interleaved, one_thread
from reshuffle.trace import Result

TARGET = 1e-6  # (P - P*)/(P(0) - P*)
STEPS = (0.125, 0.25, 0.5, 1.0, 2.0)  # of 1/L
DEFAULT_STEP = 0.5
LARGE = ("unit-rows", "heavy-tail", "dense", "regression")
PATIENCE = 4  # times the epochs of the default, after which a setting is given up


class Cost(NamedTuple):
    """To the target; infinite where it was not reached."""

    passes: float = np.inf
    seconds: float = np.inf


def grid(quick: bool, out: Path | None = None) -> list[Finding]:
    """Passes to 1e-6 with the defaults over the best of 25 settings."""
    findings: list[Finding] = []
    points: list[dict[str, Any]] = []
    for name, make in CASES.items():
        if quick and name in LARGE:
            continue
        for case in make(name in LARGE):
            found, tried = _one(case)
            findings.append(found)
            points += tried
    if out is not None:
        write_points(out / "grid-points.csv", points)
    return findings


def _one(case: Case) -> tuple[Finding, list[dict[str, Any]]]:
    best = reference(case)
    level = best + TARGET * (case.at_zero - best)
    default, epochs, step = _cost(case, level, 2_000)
    n = len(case.y)
    spacings = {"1": 1, "√n": round(n**0.5), "n/16": n // 16, "n/4": n // 4, "n": n}
    costs = {
        (part, spacing): _cost(
            case, level, PATIENCE * epochs, step=part / DEFAULT_STEP * step, steps_per_prox=m
        )[0]
        for part in STEPS
        for spacing, m in spacings.items()
    }
    (part, spacing), first = min(costs.items(), key=lambda item: item[1])
    fastest = min(costs, key=lambda key: costs[key].seconds)
    setting = {"step": fastest[0] / DEFAULT_STEP * step, "steps_per_prox": spacings[fastest[1]]}
    again = interleaved(
        {
            "default": lambda: _cost(case, level, epochs)[0].seconds,
            "fastest": lambda: _cost(case, level, PATIENCE * epochs, **setting)[0].seconds,
        },
        rounds=3,
    )
    detail = (
        f"{default.passes:.1f} passes, best {first.passes:.1f} at γ = {part:g}/L, m = {spacing}; "
        f"seconds: {again['default'] / again['fastest']:.2f} times the fastest"
    )
    points = [
        {
            "case": case.name, "step × L": part, "steps per prox": spacing, "passes": cost.passes,
            "seconds": cost.seconds,
        }
        for (part, spacing), cost in [*costs.items(), (("default", "default"), default)]
    ]  # fmt: skip
    ratio = default.passes / first.passes
    return Finding(f"{case.name}: default over best", ratio, "×", "at most", 2.0, detail), points


def _cost(case: Case, level: float, most: int, **setting: Any) -> tuple[Cost, int, float]:
    """What a setting costs, its epochs, and the step that it began with."""

    def arrived(result: Result) -> bool:
        return result.trace.last()["objective"] <= level

    solver = rs.ExactProxRR(tol=0.0, epochs=most, **setting)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = solver.solve(case.problem(), callbacks=[arrived])
        except rs.DivergenceError:
            return Cost(), most, np.nan
    last, step = result.trace.last(), float(result.trace.header["step"])
    if not last["objective"] <= level:
        return Cost(), result.epoch, step
    return Cost(last["gradients"] / len(case.y), last["seconds"]), result.epoch, step
