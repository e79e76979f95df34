"""The paper's Figure 1: a prox each step against a prox each epoch, on a1a with an elastic net."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.bands import band
from reshuffle.callbacks import progress_bar
from reshuffle.errors import InputError, StepWarning
from reshuffle.experiments import claim
from reshuffle.experiments.figures import drawing, label
from reshuffle.experiments.recipe import (
    Curve,
    Numbers,
    Report,
    Runs,
    Settings,
    files_of,
    load,
    solve_all,
    write_traces,
)
from reshuffle.penalties import ElasticNet
from reshuffle.problem import Problem
from reshuffle.run_cache import RunCache
from reshuffle.solvers import ExactProxRR, ProxRR, ProxSGD, Solver
from reshuffle.solvers.fista import FISTA, stationary
from reshuffle.steps import InverseTime

DATA, OURS, EXACT = "a1a", "ProxRR", "ExactProxRR"
STRONGER = 3  # λ1 is doubled this many times to see where the claim ceases to hold,
FEW = 3  # with this many seeds.

TEXT = """\
Logistic loss with ψ(x) = λ1‖x‖₁ + (λ2/2)‖x‖², steps that begin with the largest of the theory, 1/L_max \
(ProxSGD: 1/(2L_max)), and decrease as O(1/t): γ_t = γ_0/(1 + γ_0·μ·n·t/2), which tends to 2/(μnt). \
Batches of one sample. Lines are medians over seeds, bands go from the first to the third quartile.

λ2 = L/n with L = L_f, the smoothness of the average loss, as in the authors' published code. λ1 is the \
smallest of λ_max/2, λ_max/4, … for which fewer than half of the coordinates of x* are nonzero; from λ_max \
on, x* = 0.

The last panel adds the exact method, which goes on to the minimiser."""


@dataclass(frozen=True, eq=False)
class CurveTask:
    """The problem with λ1 = λ_max/2^k, and its solution."""

    problem: Problem
    k: float
    l1: float
    l2: float
    nonzero: int
    minimum: float

    @property
    def suffix(self) -> str:
        """What the labels of its runs have after the method."""
        return f"-{self.k:.6g}"


def task(X: object, y: ArrayLike, k: float, store: RunCache) -> CurveTask:
    """The elastic net with λ1 = λ_max/2^k and λ2 = L_f/n, solved by FISTA to 1e-12."""
    plain = Problem(X, y)
    l1 = strongest(plain) / 2**k
    l2 = plain.smoothness.L_f / plain.n
    problem = Problem(X, y, penalty=ElasticNet(l1, l2))
    found = store.solve(
        f"minimum-{k:.6g}", FISTA(tol=0.0), problem, callbacks=[stationary(problem)]
    )
    nonzero, minimum = int(np.count_nonzero(found.x)), float(found.trace["objective"].min())
    return CurveTask(problem, k, l1, l2, nonzero, minimum)


def strongest(plain: Problem) -> float:
    """λ_max = ‖∇f(0)‖_∞, from which on x* = 0."""
    return float(np.abs(plain.gradient(np.zeros(plain.shape))).max())


def given(X: object, y: ArrayLike, l1: float, store: RunCache) -> CurveTask:
    """The task with the user's λ1."""
    largest = strongest(Problem(X, y))
    if not 0 < l1 < largest:
        raise InputError(
            f"l1 must lie between 0 and λ_max = {largest:.6g}, where x* = 0; got {l1:g}"
        )
    return task(X, y, float(np.log2(largest / l1)), store)


def choose(X: object, y: ArrayLike, store: RunCache) -> CurveTask:
    """The weakest of these penalties under which fewer than half of the coordinates of x* are nonzero."""
    chosen = task(X, y, 0, store)
    for k in count(1):
        weaker = task(X, y, k, store)
        if 2 * weaker.nonzero >= weaker.problem.features:
            break
        chosen = weaker
    return chosen


def methods(epochs: int, seed: int) -> dict[str, Solver]:
    """The three methods of the paper."""
    step = InverseTime()
    return {
        "ProxSGD": ProxSGD(step=step, epochs=epochs, seed=seed),
        "RR (heuristic)": ProxRR(step=step, prox="step", epochs=epochs, seed=seed),
        OURS: ProxRR(step=step, epochs=epochs, seed=seed),
    }


def exact(epochs: int, seed: int) -> dict[str, Solver]:
    """The method that converges to the minimiser; with ``tol=0`` it makes all epochs."""
    return {EXACT: ExactProxRR(tol=0.0, finish=False, epochs=epochs, seed=seed, eval_every=1)}


def run(settings: Settings) -> Report:
    """Run the recipe; figure, numbers and finished seeds go to ``settings.out``."""
    seeds, epochs = settings.amounts()
    data = load(settings, DATA)
    X, y = data.X, data.y
    store = RunCache(settings.out / "runs")
    chosen = choose(X, y, store) if settings.l1 is None else given(X, y, settings.l1, store)
    doublings = () if settings.quick else range(1, STRONGER + 1)
    stronger = [task(X, y, chosen.k - j, store) for j in doublings if chosen.k > j]
    few = seeds[:FEW]
    total = 4 * len(seeds) + 3 * len(few) * len(stronger)
    with progress_bar("figure 1", total, settings.progress) as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # The table says how strong the penalty is.
        solvers = partial(methods, epochs)
        runs = solve_all(store, chosen.problem, seeds, solvers, tick, chosen.suffix)
        last = solve_all(store, chosen.problem, seeds, partial(exact, epochs), tick, chosen.suffix)
        others = [solve_all(store, at.problem, few, solvers, tick, at.suffix) for at in stronger]
    paper, exactly = _curves(chosen, runs), _curves(chosen, last)
    runs |= last
    tables = [claim.numbers(paper, OURS), _last(chosen, runs, paper | exactly)]
    if others:
        more = [(at, _curves(at, found)) for at, found in zip(stronger, others, strict=True)]
        tables.append(_penalties([(chosen, paper), *more]))
    stem = settings.out / "figure1"
    _draw(paper, exactly[EXACT], stem)
    columns = ("gradients", "prox_evals", "seconds", "step", "objective")
    write_traces(stem.with_suffix(".csv"), runs, chosen.minimum, columns)
    return Report(
        title="Figure 1: one prox per step, or one per epoch",
        text=TEXT,
        configuration={"data": data.label} | _configuration(chosen, seeds, epochs, store),
        tables=tables,
        checks=claim.check(paper, OURS),
        files=files_of(stem),
        elsewhere="" if data.paper else data.label,
    )


def _curves(at: CurveTask, runs: Runs) -> dict[str, Curve]:
    return {name: Curve.of(results, at.minimum, at.problem.n) for name, results in runs.items()}


def _last(at: CurveTask, runs: Runs, curves: dict[str, Curve]) -> Numbers:
    rows = []
    for name, curve in curves.items():
        sparse = np.median([np.count_nonzero(result.x) for result in runs[name]])
        rows.append(
            [
                name,
                f"{curve.median[-1]:.1e}",
                f"{curve.passes[-1]:.0f}",
                f"{curve.prox_evals[-1]:,.0f}",
                f"{curve.milliseconds:.2f}",
                f"{sparse:.0f} of {at.problem.features}",
            ]
        )
    columns = ["method", "P(x) - P*", "passes", "prox evals", "ms per epoch", "nonzero"]
    return Numbers(f"After the last epoch (x*: {at.nonzero} nonzero)", columns, rows)


def _penalties(found: list[tuple[CurveTask, dict[str, Curve]]]) -> Numbers:
    names = list(found[0][1])
    columns = ["λ1", "nonzero", "γ0·n·λ1"]
    columns += [f"gap, {name.split()[0]}" for name in names] + ["claim"]
    rows = []
    for at, curves in found:
        holds = all(check.holds for check in claim.check(curves, OURS))
        strength = at.problem.n * at.l1 / at.problem.smoothness.L_max
        gaps = [f"{curves[name].median[-1]:.1e}" for name in names]
        first = [f"λ_max/{2**at.k:.6g}", str(at.nonzero), f"{strength:.2f}"]
        rows.append([*first, *gaps, "holds" if holds else "fails"])
    title = f"Stronger penalties, where one prox per epoch stalls (after the first row {FEW} seeds)"
    return Numbers(title, columns, rows)


def _configuration(at: CurveTask, seeds: list[int], epochs: int, store: RunCache) -> dict[str, str]:
    problem, L = at.problem, at.problem.smoothness
    return {
        "rows": f"{problem.n:,} × {problem.features}, sha256 {problem.fingerprint['data'][:16]}…",
        "L_max, L_f": f"{L.L_max:.6g}, {L.L_f:.6g}",
        "λ2 = L_f/n": f"{at.l2:.6g}",
        "λ1": f"{at.l1:.6g} = λ_max/{2**at.k:.6g}",
        "nonzero coordinates of x*": f"{at.nonzero} of {problem.features}",
        "P*": f"{at.minimum:.15g} (FISTA, gradient mapping ≤ 1e-12)",
        "γ_0": f"{1 / L.L_max:.6g}, for ProxSGD {0.5 / L.L_max:.6g}",
        "seeds": ", ".join(map(str, seeds)),
        "epochs": str(epochs),
        "runs": f"{store.computed} computed, {store.reused} reused",
    }


def _draw(paper: dict[str, Curve], last: Curve, stem: Path) -> None:
    with drawing(stem, (9.0, 7.4)) as figure:
        (passes, prox), (seconds, whole) = figure.subplots(2, 2)
        prox.set_xscale("log")
        for k, (name, curve) in enumerate(paper.items()):
            band(passes, curve.passes, curve.gaps, name, k)
            band(prox, curve.prox_evals, curve.gaps, name, k)
            band(seconds, curve.seconds, curve.gaps, name, k)
            band(whole, curve.passes, curve.gaps, name, k)
        band(whole, last.passes, last.gaps, EXACT, len(paper))
        work = "passes over the data"
        panels = {passes: work, prox: "prox evaluations", seconds: "seconds, one core", whole: work}
        label(figure, panels, 4)
        whole.set_title("(d) with the exact method", loc="left")
        for ax in (passes, seconds):
            ax.set_ylabel("P(x) - P*")
        for ax in (prox, seconds):
            ax.sharey(passes)
