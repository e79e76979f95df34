"""Figures without a window, and the points that are in them as CSV files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reshuffle.plotting import COLOURS, LINES, MARKERS


def panels(count: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels side by side."""
    figure = Figure(figsize=(5.4 * count, 4.2), layout="constrained")
    return figure, [figure.add_subplot(1, count, k + 1) for k in range(count)]


def style(k: int) -> dict[str, Any]:
    """Colour, line and marker of the k-th line."""
    return {"color": COLOURS[k], "ls": LINES[k], "marker": MARKERS[k], "lw": 1.8, "ms": 5}


def tidy(ax: Axes, across: str, up: str) -> None:
    """Logarithmic axes with names, few lines."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.grid(alpha=0.25, which="major")
    ax.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def write_points(path: Path, points: Sequence[Mapping[str, Any]]) -> None:
    """A line a point, the columns named in the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(points[0]))
        writer.writeheader()
        writer.writerows(points)
