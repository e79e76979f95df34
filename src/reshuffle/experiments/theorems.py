"""The paper's theorems, checked: bounds against exact expectations, rates against fitted slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from reshuffle import theory
from reshuffle.arrays import Array
from reshuffle.callbacks import progress_bar
from reshuffle.experiments.comparisons import STEPS, RateComparison, everything, mistakes, tightest
from reshuffle.experiments.figures import drawing
from reshuffle.experiments.paths import (
    all_orders,
    make,
    proxrr,
    psi_strongly_convex,
    shuffled_once,
    starts,
)
from reshuffle.experiments.recipe import (
    ClaimCheck,
    Numbers,
    Report,
    Settings,
    files_of,
)
from reshuffle.files import write_csv
from reshuffle.plotting import COLOURS, MARKERS
from reshuffle.solvers import ProxRR, ProxSGD, Solver
from reshuffle.steps import Decreasing, InverseTime

RATES = {"ProxRR, decreasing steps": (-2.0, 0.2), "ProxSGD, 1/t steps": (-1.0, 0.35)}
"""For each method, the power of T in its theorem and how far the fitted power may be from it."""

TEXT = """\
For three or four functions the expectation over permutations is a finite sum: all paths are walked with \
the package's own sweep and prox, a fresh order each epoch (RR) or one for all (SO), with steps of 1, 0.3 \
and 0.03 times the largest that the theorem allows. Starts are far from x*, where the contraction is seen, \
and x* itself, where the noise is. f or ψ after a method's name is what is strongly convex. The table has \
the comparisons that come closest to their bound; all of them are in the CSV file.

The mistakes must break a bound: a check that cannot fail shows nothing. The rates are slopes of \
log E‖x_T - x*‖² against log T, with E the mean over seeds."""


def run(settings: Settings) -> Report:
    """Run the recipe."""
    horizons = np.array([50, 100, 200, 400] if settings.quick else [50, 100, 200, 400, 800])
    with progress_bar("theorems", 3, settings.progress) as tick:
        found = list(everything())
        tick()
        wrong = list(mistakes())
        tick()
        errors = rates(horizons)
        tick()
    slopes = {name: slope(horizons, column) for name, column in errors.items()}
    stem = settings.out / "theorems"
    _draw(horizons, errors, slopes, stem)
    columns = ("theorem", "problem", "method", "start", "step", "epoch", "exact", "bound")
    cells = ([getattr(one, name) for name in columns] for one in found + wrong)
    write_csv(stem.with_suffix(".csv"), columns, cells)
    return Report(
        title="The theorems, against exact expectations",
        text=TEXT,
        configuration={
            "comparisons": f"{len(found)}, each over all permutations and all epochs",
            "steps": ", ".join(f"{fraction:g}" for fraction in STEPS)
            + " times the largest of the theorem",
            "horizons of the rates": ", ".join(map(str, horizons)),
        },
        tables=[
            _tightest(found),
            _mistakes(wrong),
            Numbers(
                "Rates",
                ["method", "power of T", "fitted"],
                [[name, f"{RATES[name][0]:g}", f"{slopes[name]:.2f}"] for name in slopes],
            ),
        ],
        checks=_checks(found, wrong, slopes),
        files=files_of(stem),
    )


def rates(horizons: Sequence[int] | Array) -> dict[str, Array]:
    """E‖x_T - x*‖² of eight squared losses after T epochs, for each horizon T; 10 to 40 seeds."""
    problem = make("squared", 8, ridge=0.0, l1=0.05, l2=0.3, d=3)
    x_star = theory.solve(problem)

    def error(solver: Solver, T: int) -> float:
        runs = [replace(solver, epochs=T, eval_every=T, seed=s) for s in range(1600 // T + 8)]
        return float(np.mean([np.sum((run.solve(problem).x - x_star) ** 2) for run in runs]))

    solvers = (ProxRR(step=Decreasing()), ProxSGD(step=InverseTime()))
    found = [np.array([error(solver, int(T)) for T in horizons]) for solver in solvers]
    return dict(zip(RATES, found, strict=True))


def slope(horizons: Sequence[int] | Array, errors: Array) -> float:
    """The slope of log errors against log T."""
    return float(np.polyfit(np.log(horizons), np.log(errors), 1)[0])


def _checks(
    found: list[RateComparison], wrong: list[RateComparison], slopes: dict[str, float]
) -> list[ClaimCheck]:
    broken = [one for one in found if not one.holds]
    worst = max(one.ratio for one in found)
    checks = [
        ClaimCheck(
            "Every bound holds in every comparison.",
            not broken,
            f"{len(found) - len(broken)} of {len(found)} hold, the closest at {worst:.3f} of its bound",
        )
    ]
    for right, mistaken in zip(wrong[::2], wrong[1::2], strict=True):
        checks.append(
            ClaimCheck(
                f"A mistake breaks a bound: {mistaken.method}.",
                right.holds and not mistaken.holds,
                f"{mistaken.ratio:.3g} times the bound, {right.ratio:.3g} without the mistake",
            )
        )
    for name, (power, tolerance) in RATES.items():
        checks.append(
            ClaimCheck(
                f"{name}: E‖x_T - x*‖² falls like T^{power:g}, to within {tolerance:g}.",
                abs(slopes[name] - power) <= tolerance,
                f"T^{slopes[name]:.2f}",
            )
        )
    return checks


def _tightest(found: list[RateComparison]) -> Numbers:
    columns = ["theorem", "order", "far: exact", "bound", "ratio", "x*: exact", "bound", "ratio"]
    rows = []
    for (theorem, method), best in tightest(found).items():
        cells = [_cells(best[start]) for start in ("far", "x*")]
        rows.append([theorem, method, *cells[0], *cells[1]])
    return Numbers("E‖x_t - x*‖², where it comes closest to the bound", columns, rows)


def _mistakes(wrong: list[RateComparison]) -> Numbers:
    columns = ["mistake", "t", "exact", "bound", "ratio"]
    rows = [[one.method, str(one.epoch), *_cells(one)] for one in wrong]
    return Numbers("Mistakes, to be found out", columns, rows)


def _cells(one: RateComparison) -> list[str]:
    return [f"{v:.2g}" if v >= 0.01 else f"{v:.0e}" for v in (one.exact, one.bound, one.ratio)]


def _draw(horizons: Array, errors: dict[str, Array], slopes: dict[str, float], stem: Path) -> None:
    with drawing(stem, (9.0, 4.4)) as figure:
        left, right = figure.subplots(1, 2)
        problem, epochs = psi_strongly_convex(), np.arange(41)
        x_star = theory.solve(problem)
        x0 = starts(x_star)[0]
        c = theory.constants(problem, x_star, x0=x0)
        for k, fraction in enumerate(STEPS):
            step = fraction / c.L_max
            radius = theory.shuffling_radius(problem, x_star, step)
            exact = shuffled_once(proxrr(problem, step), all_orders(3), x0, x_star, 40)
            left.plot(epochs, exact, color=COLOURS[k], marker=MARKERS[k], markevery=8, lw=2,
                      label=f"γ = {fraction:g}/L_max")  # fmt: skip
            left.plot(epochs, theory.proxrr_psi_bound(c, epochs, step, radius), "--",
                      color=COLOURS[k], lw=1.4)  # fmt: skip
        left.plot([], [], "--", color="0.4", label="bound")
        left.set_title("ProxSO, ψ strongly convex, n = 3", loc="left")
        left.set_xlabel("epochs")
        for k, (name, column) in enumerate(errors.items()):
            right.loglog(horizons, column, color=COLOURS[k], marker=MARKERS[k], lw=2,
                         label=f"{name.split(',')[0]}: slope {slopes[name]:.2f}")  # fmt: skip
        right.set_xticks(horizons, [str(T) for T in horizons])
        right.minorticks_off()
        right.set_title("decreasing steps, n = 8", loc="left")
        right.set_xlabel("epochs T, known beforehand")
        left.set_yscale("log")
        for ax in (left, right):
            ax.set_ylabel("E‖x - x*‖²")
            ax.legend(frameon=False, fontsize=11)
