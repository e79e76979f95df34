"""How the time of an epoch grows with the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import reshuffle as rs
from benchmarks.figures import panels, save, style, tidy, write_points
from benchmarks.report import Finding
from benchmarks.timing import one_thread

FEATURES, STORED, EPOCHS = 1_000, 20, 3


def growth(quick: bool, out: Path | None = None) -> list[Finding]:
    """Seconds of ExactProxRR against the stored values: linear."""
    sizes = np.logspace(5, 6 if quick else 8, 3 if quick else 7)
    points = []
    for size in sizes:
        n = round(size / STORED)
        X, y = rs.datasets.synthetic(n, FEATURES, stored=STORED)
        best = min(_seconds(X, y) for _ in range(5 if n < 1_000_000 else 2))
        points.append({"stored": n * STORED, "n": n, "seconds": best / EPOCHS})
        del X, y
    stored, seconds = (np.array([p[name] for p in points]) for name in ("stored", "seconds"))
    slope, height = np.polyfit(np.log(stored), np.log(seconds), 1)
    if out is not None:
        figure, (ax,) = panels()
        ax.plot(stored, seconds, label="an epoch of ExactProxRR", **style(0) | {"ls": "none"})
        fit = np.exp(height) * stored**slope
        ax.plot(stored, fit, color="grey", ls="--", lw=1.2, label=f"slope {slope:.2f}")
        tidy(ax, "stored values", "seconds")
        ax.legend(frameon=False)
        save(figure, out / "growth.png")
        write_points(out / "growth-points.csv", points)
    each = seconds / stored * 1e9
    detail = f"{each[0]:.1f} ns per value at {stored[0]:.0e}, {each[-1]:.1f} at {stored[-1]:.0e}"
    return [Finding("fitted slope, log-log", float(slope), "", "at most", 1.15, detail)]


def _seconds(X: object, y: ArrayLike) -> float:
    """Of some epochs, without what is evaluated for the trace."""
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=1e-4, l2=1e-4))
    with one_thread():
        solver = rs.ExactProxRR(epochs=EPOCHS, eval_every=EPOCHS, tol=0.0, finish=False)
        trace = solver.solve(problem).trace
    return trace.last()["seconds"]
