"""Drawing shared by the recipes: several seeds as a median with a band, written as PNG and PDF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.errors import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = {
    "font.size": 13,
    "axes.titlesize": 13,
    "legend.fontsize": 13,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "pdf.fonttype": 42,  # TrueType fonts keep the text of a PDF searchable.
}


@contextmanager
def drawing(stem: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure that is written to ``stem``.png and ``stem``.pdf when the block ends."""
    with extra("cli", "matplotlib", "a figure"):
        import matplotlib as mpl
        from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(stem.with_suffix(".png"), dpi=150)
        figure.savefig(stem.with_suffix(".pdf"))


def label(figure: Figure, panels: Mapping[Axes, str], columns: int) -> None:
    """Panels (a), (b), … of gaps on a logarithmic scale, with these labels below, and one legend for all."""
    for letter, (ax, words) in zip("abcd", panels.items(), strict=False):
        ax.set_yscale("log")
        ax.set_xlabel(words)
        ax.set_title(f"({letter})", loc="left")
    shown = ax.get_legend_handles_labels()  # The last panel has all methods.
    figure.legend(
        *shown,
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        columnspacing=1.2,
        handlelength=2.2,
    )
