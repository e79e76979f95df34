"""Time to accuracy: every solver with growing budgets, then the budgets that just suffice, in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

import reshuffle as rs
from benchmarks.cases import CASES, Case
from benchmarks.peers import OURS, Fit, fits
from benchmarks.race_figures import draw_curves, draw_ratios, write_times
from benchmarks.report import Finding
from benchmarks.timing import Contestant, interleaved, one_thread, timed

TARGETS = (1e-3, 1e-6, 1e-9)
PATIENCE = 10.0  # times our seconds to the last target, after which a solver is given up,
MOST = 3.0  # and at most so many seconds, or three times ours
LONGEST = 4.0  # seconds of a fit that is timed again
OWN = ("ProxRR", "ProxSGD", "FISTA")  # ours too, not peers


@dataclass
class Run:
    """What a solver did with growing budgets."""

    name: str
    fit: Fit
    budgets: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)

    def enough(self, level: float) -> int | None:
        """The smallest budget that brought the objective to this level."""
        found = zip(self.budgets, self.objectives, strict=True)
        return min((budget for budget, value in found if value <= level), default=None)


@dataclass
class Race:
    """All solvers on one case."""

    case: Case
    best: float
    """P*: the smallest objective that any run found."""
    runs: list[Run]
    times: dict[tuple[str, float], float] = field(default_factory=dict)
    """(solver, target) -> the best seconds of a fit that reaches the target."""

    def level(self, target: float) -> float:
        return self.best + target * (self.case.at_zero - self.best)

    def gaps(self, run: Run) -> list[float]:
        """(P - P*)/(P(0) - P*) of its budgets."""
        return [(v - self.best) / (self.case.at_zero - self.best) for v in run.objectives]

    def ratio(self, target: float) -> tuple[float, str]:
        """The best peer's seconds over ours, and who that is; infinite where no peer came there."""
        ours = self.times.get((OURS, target), np.inf)
        peers = {
            name: seconds
            for (name, reached), seconds in self.times.items()
            if reached == target and name != OURS and name not in OWN
        }
        if not peers:
            return np.inf, "no peer in the time given"
        first = min(peers, key=lambda name: peers[name])
        return peers[first] / ours, first


def solvers(quick: bool, out: Path | None = None) -> list[Finding]:
    """Seconds to relative accuracy 1e-3, 1e-6 and 1e-9: the best peer's over those of ExactProxRR."""
    races: list[Race] = []
    findings: list[Finding] = []
    for name, make in CASES.items():
        if quick and name in ("a9a", "heavy-tail"):
            continue
        for case in make(quick):
            races.append(race(case, rounds=2 if quick else 5))
            findings += _findings(races[-1])
            shown = ", ".join(f"{found.measured:.2f}" for found in findings[-len(TARGETS) :])
            print(f"{case.name}: {shown}", file=sys.stderr, flush=True)
    finite = [races[k].ratio(target)[0] for k in range(len(races)) for target in TARGETS]
    twice = 100.0 * float(np.mean([ratio >= 2.0 for ratio in finite]))
    pairs = f"of {len(finite)} pairs of a problem and a target"
    findings += [
        Finding("at least twice as fast as the best peer", twice, "%", "at least", 80.0, pairs),
        Finding("the worst pair", min(finite), "x", "at least", 1.0 / 1.2, pairs),
    ]
    if out is not None:
        write_times(races, out / "times-to-accuracy.csv")
        draw_curves(races, out / "time-to-accuracy.png")
        draw_ratios(races, TARGETS, out / "best-peer-over-ours.png")
    return findings


def _findings(found: Race) -> Iterator[Finding]:
    for target in TARGETS:
        ratio, who = found.ratio(target)
        ours = found.times.get((OURS, target), np.inf)
        detail = f"ours {1e3 * ours:.3g} ms; {who}"
        yield Finding(f"{found.case.name}: {target:g}", ratio, "x", "at least", None, detail)


def race(case: Case, rounds: int, chosen: Callable[[str], bool] = lambda name: True) -> Race:
    """Scan the budgets of every solver, then time those that suffice for the targets."""
    best, runs, limit = reference(case), [], np.inf
    with one_thread():
        for name, fit in fits(case):
            if not chosen(name):
                continue
            run = Run(name, fit)
            scan(run, case, best, limit)
            runs.append(run)
            if name == OURS:
                ours = run.seconds[-1]
                limit = max(0.3, min(PATIENCE * ours, max(MOST, 3.0 * ours)))
    found = Race(case, min(best, *(value for run in runs for value in run.objectives)), runs)
    again: dict[tuple[str, float], Contestant] = {}
    for target in TARGETS:
        for run in runs:
            budget = run.enough(found.level(target))
            if budget is None:
                continue
            key = run.name, target
            found.times[key] = run.seconds[run.budgets.index(budget)]
            if found.times[key] < LONGEST:
                again[key] = timed(partial(run.fit, budget))
    found.times |= interleaved(again, rounds)
    return found


def reference(case: Case) -> float:
    """P at a point that is certified to 1e-14 of f(0), or as near as 400 epochs come."""
    problem = case.problem()
    result = rs.ExactProxRR(tol=1e-14, epochs=400, eval_every=400).solve(problem)
    return problem.objective(result.x)


def scan(run: Run, case: Case, best: float, limit: float) -> None:
    """Growing budgets until the last target is met or a fit takes longer than ``limit``."""
    for budget in (2, 6):  # compiles what there is to compile
        run.fit(budget)
    level = best + 0.5 * TARGETS[-1] * (case.at_zero - best)
    total, budget = 0.0, 1
    while total <= (1 if run.name in OWN else 4) * limit:
        clock = time.perf_counter()
        x = run.fit(budget)
        seconds = time.perf_counter() - clock
        total += seconds
        run.budgets.append(budget)
        run.seconds.append(seconds)
        run.objectives.append(case.judge.objective(x))
        if run.objectives[-1] <= level or seconds > limit:
            return
        budget = max(budget + 1, round(budget * (1.5 if run.name in OWN else 7 / 6)))
