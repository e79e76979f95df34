"""Drawing that the recipes share: several seeds as a median and a band, PNG and PDF."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.objective import Array
from reshuffle.plotting import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = {
    "font.size": 13,
    "axes.titlesize": 13,
    "legend.fontsize": 13,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "pdf.fonttype": 42,  # text stays text
}
FLOOR = 1e-16  # the rounding error of an objective of order 1, the lowest that is drawn


@contextmanager
def drawing(stem: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure that is written to ``stem``.png and ``stem``.pdf when the block ends."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(stem.with_suffix(".png"), dpi=150)
        figure.savefig(stem.with_suffix(".pdf"))


def band(ax: Axes, across: Array, gaps: Array, label: str, style: int) -> None:
    """The median of runs (rows of ``gaps``) as a line, all between their quartiles as a band."""
    low, middle, high = np.maximum(np.quantile(gaps, [0.25, 0.5, 0.75], axis=0), FLOOR)
    logarithmic = ax.get_xscale() == "log"
    if logarithmic:  # which has no place for the start at zero
        keep = across > 0
        across, low, middle, high = across[keep], low[keep], middle[keep], high[keep]
    ax.fill_between(across, low, high, color=COLOURS[style], alpha=0.2, lw=0)
    ax.plot(
        across,
        middle,
        label=label,
        color=COLOURS[style],
        lw=1.6,
        marker=MARKERS[style],
        ms=7,
        mec="white",
        mew=0.7,
        markevery=_spread(np.log(across) if logarithmic else across, style),
    )


def _spread(positions: Array, style: int) -> list[int]:
    """Six or so rows, far apart on the axis, and others for another method."""
    wanted = np.linspace(positions[0], positions[-1], 7)[1:] - style * np.ptp(positions) / 30
    rows = np.abs(positions[:, None] - wanted).argmin(axis=0)
    return sorted({int(row) for row in rows})
