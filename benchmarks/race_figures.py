"""What the race found, as figures and as a table of all times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.figures import save, write_points
from benchmarks.peers import OURS

if TYPE_CHECKING:
    from benchmarks.race import Race

GREY = "#9a9a9a"
COLOURS = {
    "ExactProxRR": "#c1272d",
    "ProxRR": "#e58b88",
    "ProxSGD": "#e5b1a0",
    "FISTA": "#d2a24c",
    "cyanure svrg": "#08519c",
    "cyanure qning-svrg": "#3182bd",
    "cyanure auto": "#9ecae1",
    "sklearn saga": "#238b45",
    "sklearn liblinear": "#74c476",
    "sklearn SGD averaged": "#a1d99b",
    "sklearn ElasticNet": "#006d2c",
    "sklearn ElasticNet, Gram": "#41ab5d",
    "skglm AndersonCD": "#9e77c9",
    "skglm ProxNewton": "#54278f",
    "celer": "#111111",
}


def draw_curves(races: list[Race], path: Path) -> None:
    """(P - P*)/(P(0) - P*) against seconds, a panel a problem."""
    across = 4
    down = -(-len(races) // across)
    figure = Figure(figsize=(3.4 * across, 2.7 * down + 0.7), layout="constrained")
    shown: dict[str, Line2D] = {}
    for k, found in enumerate(races):
        ax = figure.add_subplot(down, across, k + 1)
        for run in found.runs:
            gaps = np.maximum(found.gaps(run), 1e-16)
            ours = run.name == OURS
            (line,) = ax.plot(
                run.seconds, np.minimum.accumulate(gaps), color=COLOURS.get(run.name, GREY),
                lw=2.6 if ours else 1.3, zorder=3 if ours else 2,
            )  # fmt: skip
            shown.setdefault(run.name, line)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(1e-10, 2)
        ax.set_title(found.case.name, fontsize=9)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        if k % across == 0:
            ax.set_ylabel("relative accuracy", fontsize=9)
        if k >= len(races) - across:
            ax.set_xlabel("seconds", fontsize=9)
    figure.legend(
        list(shown.values()),
        list(shown),
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=9,
    )
    save(figure, path)


def draw_ratios(races: list[Race], targets: tuple[float, ...], path: Path) -> None:
    """The best peer's seconds over ours: one row per problem, one mark per target."""
    most = 12.0
    figure = Figure(figsize=(8.2, 0.34 * len(races) + 1.3), layout="constrained")
    ax = figure.add_subplot()
    marks = ("o", "s", "D")
    for k, target in enumerate(targets):
        ratios = np.array([found.ratio(target)[0] for found in races])
        rows = np.arange(len(races)) + 0.2 * (k - 1)
        ax.plot(
            np.minimum(ratios, most), rows, marks[k], ms=6, label=f"to {target:g}",
            color=("#f4a582", "#d6604d", "#b2182b")[k],
        )  # fmt: skip
        for ratio, row in zip(ratios, rows, strict=True):
            if ratio > most:
                ax.annotate("›", (most, row), xytext=(6, -4), textcoords="offset points")
    ax.axvline(1.0, color="#444444", lw=1)
    ax.axvline(2.0, color="#444444", lw=1, ls=":")
    ax.set_xscale("log")
    ax.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    ax.minorticks_off()
    ax.set_yticks(range(len(races)), [found.case.name for found in races], fontsize=9)
    ax.invert_yaxis()
    ax.set_xlabel("seconds of the best peer / seconds of ExactProxRR")
    ax.grid(alpha=0.25, axis="x")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right", fontsize=9)
    save(figure, path)


def write_times(races: list[Race], path: Path) -> None:
    """Every time that was measured."""
    write_points(
        path,
        [
            {
                "problem": found.case.name, "samples": len(found.case.y), "stored": found.case.stored,
                "solver": name, "accuracy": target, "seconds": f"{seconds:.6g}",
            }
            for found in races
            for (name, target), seconds in found.times.items()
        ],
    )  # fmt: skip
