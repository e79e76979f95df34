"""Penalties whose prox is expensive: one that waits, and singular values."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reshuffle as rs
from benchmarks.cases import CASES
from benchmarks.figures import panels, save, style, tidy, write_points
from benchmarks.report import Finding
from benchmarks.timing import interleaved, one_thread, timed
from reshuffle.solvers import Solver
from reshuffle.trace import Result

Array = NDArray[np.float64]
TARGET = 1e-6  # (P - P*)/(P(0) - P*)
OURS, RARE, RR, SGD, DETERMINISTIC = (
    "ExactProxRR", "ExactProxRR, one prox per epoch", "ProxRR", "ProxSGD", "FISTA",
)  # fmt: skip
BARS = {SGD: 10.0, DETERMINISTIC: 3.0}


@dataclass(frozen=True, eq=False)
class Costly:
    """Another penalty, whose prox takes ``wait`` seconds longer."""

    inner: rs.penalties.Separable
    wait: float = 0.0

    @property
    def strong_convexity(self) -> float:
        return self.inner.strong_convexity

    def value(self, x: Array) -> float:
        return self.inner.value(x)

    def prox(self, x: Array, step: float) -> Array:
        end = time.perf_counter() + self.wait
        result = self.inner.prox(x, step)
        while time.perf_counter() < end:
            pass
        return result


@dataclass(frozen=True, eq=False)
class Run:
    """What a method needed to the target, or to the end of its epochs."""

    name: str
    reached: bool
    seconds: float
    proxes: float
    gradients: float
    gaps: Array
    """(P - P*)/(P(0) - P*) at every evaluated epoch,"""
    times: Array
    """and the seconds until then."""
    spacing: str
    """Gradient steps for each prox, where the method chose."""

    def at(self, wait: float) -> float:
        """Seconds if each prox took ``wait`` longer."""
        return self.seconds + self.proxes * wait

    @property
    def note(self) -> str:
        passed = f"{self.proxes:,.0f} proxes"
        return passed if self.reached else f"given up at {self.gaps[-1]:.1g} after {passed}"


def run(name: str, solver: Solver, problem: rs.Problem, best: float) -> Run:
    """Until the target is met; evaluations do not count."""
    zero = problem.objective(np.zeros(problem.shape))
    level = best + TARGET * (zero - best)

    def arrived(result: Result) -> bool:
        return result.trace.last()["objective"] <= level

    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a prox of parameter γn may take away most of an epoch
        trace = solver.solve(problem, callbacks=[arrived]).trace
    last, gaps = trace.last(), (trace["objective"] - best) / (zero - best)
    reached = bool(gaps[-1] <= TARGET)
    counts = last["seconds"], last["prox_evals"], last["gradients"]
    spacing = trace.header.get("steps per prox", "")
    return Run(name, reached, *counts, gaps, trace["seconds"], spacing)


def costly_prox(quick: bool, out: Path | None = None) -> list[Finding]:
    """Where the prox dominates: seconds to a relative gap of 1e-6."""
    waiting, nuclear = _waiting(quick), _nuclear(quick)
    if out is not None:
        _draw(waiting, nuclear, out)
    return waiting.findings + nuclear.findings


@dataclass(frozen=True, eq=False)
class Panel:
    """The runs on one problem, what was found, and the seconds of a gradient step there."""

    n: int
    gradient: float
    runs: list[Run]
    findings: list[Finding]

    @property
    def ks(self) -> list[int]:
        """Costs of a prox, in gradient steps."""
        return [100, 1_000, self.n // 10, 10_000, 100_000, 1_000_000]


def _waiting(quick: bool) -> Panel:
    """Elastic net on a9a, with a prox that takes k gradient steps."""
    case = next(c for c in CASES["a9a"](quick) if c.name.endswith("0.01 λ_max"))
    plain, elastic_net = case.problem(), rs.penalties.ElasticNet(case.l1, case.l2)
    best, n = _minimum(plain, 1e-14), plain.n
    epochs = 200 if quick else 1_000
    rate = np.sqrt(plain.smoothness.L_f * plain.strong_convexity)
    rare = rs.ExactProxRR(tol=0.0, steps_per_prox=n, step=1.0 / (n * rate))

    def costly(name: str, solver: Solver, wait: float = 0.0) -> Run:
        return run(
            name, solver, rs.Problem(case.X, case.y, penalty=Costly(elastic_net, wait)), best
        )

    own = min((costly(OURS, rs.ExactProxRR(tol=0.0)) for _ in range(5)), key=lambda r: r.seconds)
    runs = [
        own,
        costly(RARE, rare),
        costly(DETERMINISTIC, rs.FISTA(tol=0.0, epochs=2_000, eval_every=1)),
        _tuned(lambda step: costly(RR, rs.ProxRR(epochs=epochs, eval_every=10, step=step)), plain),
        _tuned(  # with the compiled prox, so that k is all the wait
            lambda step: run(SGD, rs.ProxSGD(epochs=epochs, eval_every=10, step=step), plain, best),
            plain,
        ),
    ]
    gradient = own.seconds / own.gradients
    panel = Panel(n, gradient, runs, [])
    for found in runs[:2]:
        detail = f"one every {found.spacing} steps, {found.gradients / n:.0f} passes; n = {n:,}"
        panel.findings.append(Finding(f"a9a: {found.name}", found.proxes, "proxes", detail=detail))
    for name, bar in BARS.items():
        other = next(r for r in runs if r.name == name)
        for k in (k for k in panel.ks if k >= n // 10):
            ratio = other.at(k * gradient) / own.at(k * gradient)
            what, note = f"a9a, k = {k:,}: {name} over {OURS}", f"{other.note}; ours {own.note}"
            panel.findings.append(Finding(what, ratio, "×", "at least", bar, note))
    k = 10_000
    real = costly(OURS, rs.ExactProxRR(tol=0.0), k * gradient).seconds
    computed = own.at(k * gradient)
    detail = f"k = {k:,} really waited for: {real:.3g} s, computed {computed:.3g} s"
    off = 100.0 * abs(real - computed) / real
    panel.findings.append(Finding("the accounting is off by", off, "%", detail=detail))
    return panel


def _nuclear(quick: bool) -> Panel:
    """A multinomial model of low rank on the digits: the prox is a singular value decomposition."""
    digits, loss = CASES["digits"](quick)[0], rs.losses.Multinomial()
    bare = rs.Problem(digits.X, digits.y, loss=loss)
    largest = float(np.linalg.norm(bare.gradient(np.zeros(bare.shape)), 2))  # beyond it x* = 0
    penalty = rs.penalties.NuclearNorm(0.1 * largest)
    problem = rs.Problem(digits.X, digits.y, loss, penalty)
    best = _minimum(problem, 1e-12)
    few, many = (5, 100) if quick else (20, 1_000)
    runs = [
        run(OURS, rs.ExactProxRR(tol=0.0), problem, best),
        run(DETERMINISTIC, rs.FISTA(tol=0.0, epochs=5_000, eval_every=1), problem, best),
        _tuned(lambda step: run(RR, rs.ProxRR(epochs=many, step=step), problem, best), problem),
        _tuned(lambda step: run(SGD, rs.ProxSGD(epochs=few, step=step), problem, best), problem),
    ]
    own, prox = runs[0], _prox_seconds(problem)
    gradient = (own.seconds - own.proxes * prox) / own.gradients
    panel = Panel(problem.n, gradient, runs, [])
    for other in runs[1:]:
        what, note = f"nuclear norm: {other.name} over {OURS}", f"{other.note}; ours {own.note}"
        ratio, bar = other.seconds / own.seconds, BARS.get(other.name)
        panel.findings.append(Finding(what, ratio, "×", "at least", bar, note))
    detail = f"{prox * 1e6:.0f} µs, n = {problem.n:,}"
    panel.findings.append(
        Finding("nuclear norm: a prox", prox / gradient, "gradients", detail=detail)
    )
    return panel


def _tuned(method: Callable[[rs.steps.InverseTime], Run], problem: rs.Problem) -> Run:
    """The best of three decreasing steps γ_0/(1 + t/10): γ_0 = 1/(2 L_max), a tenth, a hundredth."""
    largest = 0.5 / problem.smoothness.L_max
    steps = [rs.steps.InverseTime(largest / part, 0.1) for part in (1.0, 10.0, 100.0)]
    runs = list(map(method, steps))
    arrived = [found for found in runs if found.reached]
    if arrived:
        return min(arrived, key=lambda found: found.seconds)
    return min(runs, key=lambda found: float(found.gaps[-1]))


def _prox_seconds(problem: rs.Problem) -> float:
    """The best of a hundred."""
    x = np.random.default_rng(0).standard_normal(problem.shape)
    return interleaved({"prox": timed(lambda: problem.prox(x, 1.0))}, rounds=100)["prox"]


def _minimum(problem: rs.Problem, tol: float) -> float:
    """P*."""
    solver = rs.ExactProxRR(tol=tol, epochs=2_000, eval_every=2_000)
    return problem.objective(solver.solve(problem).x)


def _draw(waiting: Panel, nuclear: Panel, out: Path) -> None:
    figure, (left, right) = panels(2)
    points: list[dict[str, Any]] = []
    for k, found in enumerate(waiting.runs):
        seconds = [found.at(cost * waiting.gradient) for cost in waiting.ks]
        shown = style(k) | ({} if found.reached else {"mfc": "white"})
        name = (
            found.name
            if found.reached
            else f"{found.name} (a bound: it came to {found.gaps[-1]:.0e})"
        )
        left.plot(waiting.ks, seconds, label=name, **shown)
        points += [
            {
                "problem": "a9a", "method": found.name, "k": cost, "seconds": taken,
                "relative gap": found.gaps[-1], "proxes": found.proxes,
                "gradients": found.gradients,
            }
            for cost, taken in zip(waiting.ks, seconds, strict=True)
        ]  # fmt: skip
    left.axvline(waiting.n, color="grey", lw=0.8, ls=":")
    left.text(
        waiting.n, 0.02, " n", color="grey", va="bottom", transform=left.get_xaxis_transform()
    )
    tidy(
        left,
        "a prox costs as much as this many gradient steps",
        "seconds to a relative gap of 1e-6",
    )
    order = [found.name for found in waiting.runs]
    for found in nuclear.runs:
        seen = np.unique(np.geomspace(1, len(found.times) - 1, 40).astype(int))
        shown = style(order.index(found.name)) | {"markevery": max(1, len(seen) // 8)}
        right.plot(found.times[seen], found.gaps[seen], **shown)
        points += [
            {
                "problem": "digits", "method": found.name, "k": "", "seconds": taken,
                "relative gap": gap, "proxes": "", "gradients": "",
            }
            for taken, gap in zip(found.times, found.gaps, strict=True)
        ]  # fmt: skip
    tidy(right, "seconds", "relative gap")
    left.set_title("a9a, elastic net with a prox that waits", fontsize=10)
    right.set_title("digits, multinomial, nuclear norm", fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(figure, out / "costly-prox.png")
    write_points(out / "costly-prox-points.csv", points)
