"""Drawing shared by the recipes: several seeds as a median with a band, written as PNG and PDF."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.errors import extra

if TYPE_CHECKING:
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
