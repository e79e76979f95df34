"""``python -m benchmarks.phases``: a picture of three runs of the exact method, and what acts when in them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

import reshuffle as rs
from benchmarks.corpus import CORPUS
from benchmarks.figures import panels, save
from reshuffle.plotting import COLOURS
from reshuffle.solvers.exact.newton_compiled import CompiledNewton, is_small
from reshuffle.solvers.exact.newton_steps import Progress
from reshuffle.solvers.exact.view import SECOND_ORDER

Array = NDArray[np.float64]
DOCS = Path(__file__).parent.parent / "docs"
TOL = 1e-9
RUNS = {
    "a9a, ℓ1 at 0.01 λ_max: epochs, then Newton steps": "A8: a9a, 0.01",
    "sparse 5,000 × 1,000, ℓ1 at 0.01 λ_max:\nepochs, then steps on the face in turns with them": (
        "sparse narrow, log, l1, 0.01, b"
    ),
    "breast cancer raw, ℓ1 at 0.1 λ_max: Newton steps at once": "cancer, log, l1, 0.1, b",
}
LEAST = 1e-16  # what is drawn of a difference that is zero


class Way(NamedTuple):
    """Points of a run: passes, P, the certificate over f(0), and whether a Newton step led there."""

    passes: Array
    objective: Array
    certificate: Array
    stepped: NDArray[np.bool_]


def watched(problem: rs.Problem) -> Way:
    """A run, epoch by epoch and step by step."""
    trace = rs.ExactProxRR(tol=TOL, eval_every=1).solve(problem).trace
    made = np.sum([trace[name] for name in SECOND_ORDER if name in trace], axis=0)
    stepped = np.diff(made, prepend=0.0) > 0
    return Way(trace["gradients"] / problem.n, trace["objective"], trace["gap"], stepped)


def watched_small(problem: rs.Problem) -> Way:
    """The steps of a small set one by one, which a run makes in one call."""
    steps, x, progress, passes = CompiledNewton(problem), np.zeros(problem.shape), Progress(), 0
    at_zero, u = problem.value(x), steps.inner(x)
    points = [(0.0, problem.objective(x), np.nan)]
    while not progress.bound <= TOL * at_zero:
        end = steps.run(u, progress, TOL * at_zero, at_zero, 1)
        u, progress, passes = end.inner, end.progress, passes + end.passes
        points.append((float(passes), end.objective, progress.bound / at_zero))
    across, objective, certificate = np.array(points).T
    return Way(across, objective, certificate, np.arange(len(points)) > 0)


def draw(ax: Axes, problem: rs.Problem, title: str) -> None:
    """P(x) - P* and the certificate against passes, a mark for each epoch and step."""
    best = problem.objective(rs.ExactProxRR(tol=1e-13).solve(problem).x)
    way = watched_small(problem) if is_small(problem) else watched(problem)
    at_zero = problem.value(np.zeros(problem.shape))
    passes, stepped = way.passes, way.stepped
    gap = np.maximum((way.objective - best) / at_zero, LEAST)
    ax.plot(passes, gap, color="grey", lw=1.0, zorder=1)
    for mask, label, colour, marker in (
        (~stepped, "shuffled epochs", COLOURS[0], "o"),
        (stepped, "Newton steps", COLOURS[1], "s"),
    ):
        if mask[1:].any() or label == "shuffled epochs":
            ax.plot(passes[mask], gap[mask], marker, color=colour, ms=6, label=label)
    known = np.isfinite(way.certificate) & (way.certificate > 0)
    bounds = way.certificate[known]
    ax.plot(passes[known], bounds, "_", color="black", ms=14, mew=2, label="certificate")
    ax.axhline(TOL, color="grey", ls=":", lw=1.0)
    ax.set_yscale("log")
    ax.set_ylim(LEAST / 3, 10.0)
    ax.set_xlabel("passes over the data")
    ax.set_title(title, fontsize=10)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


@click.command()
@click.option("--docs", type=click.Path(path_type=Path), default=DOCS, help="Folder with images/.")
def main(docs: Path) -> None:
    """Draw the runs."""
    figure, axes = panels(len(RUNS))
    for ax, (title, name) in zip(axes, RUNS.items(), strict=True):
        draw(ax, CORPUS[name].build().problem(), title)
    axes[0].set_ylabel("(P(x) - P*)/f(0), and its bound")
    axes[0].legend(frameon=False)
    save(figure, docs / "images" / "phases.png")


if __name__ == "__main__":
    main()
