"""Pictures inside a page: drawn by matplotlib, coloured by the page's style sheet."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle import plotting
from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import extra
from reshuffle.report.html import Markup, safe
from reshuffle.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, LINE, ACCENT, OTHER = "#010201", "#010202", "#010203", "#010204", "#010205"
COLOURS = {
    INK: "--ink", SOFT: "--soft", LINE: "--line", ACCENT: "--accent", OTHER: "--other",
    "#000000": "--ink", "#4d4d4d": "--soft", "#bfbfbf": "--line", plotting.COLOURS[0]: "--accent",
}  # fmt: skip
"""The colours that matplotlib draws with, and the style sheet's variable that replaces each."""
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "reshuffle", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "text.color": INK, "axes.labelcolor": SOFT, "axes.edgecolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "grid.color": LINE, "axes.facecolor": "none", "figure.facecolor": "none",
    "savefig.facecolor": "none", "legend.labelcolor": INK, "axes.axisbelow": True,
}  # fmt: skip
POINTS = 600
"""A scatter plot shows at most this many points: more make a large page and a black spot."""


def drawn(title: str, draw: Callable[..., None], *data: Any, height: float = 3.1) -> Markup:
    """The drawing that ``draw`` makes of data on axes, as SVG for a page."""
    with extra("cli", "matplotlib", "a figure"):
        import matplotlib as mpl
        from matplotlib.figure import Figure

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # Text is drawn in the fonts of the reader's browser.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure(figsize=(4.6, height), layout="constrained")
        draw(figure.subplots(), *data)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return Markup(_themed(file.getvalue(), title))


def _themed(svg: str, title: str) -> str:
    """The SVG without its file header, with identifiers of its own and the colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W+", "-", title)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    for colour, variable in COLOURS.items():
        svg = re.sub(colour, f"var({variable})", svg, flags=re.IGNORECASE)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{safe(title)}" ', 1)


def convergence(
    trace: Trace, measure: str, tol: float, counted: str
) -> Iterator[tuple[Markup, str]]:
    """The objective and the certificate, epoch by epoch or round by round."""
    epochs, values = trace["epoch"], trace["objective"]
    above = values - np.min(values, where=np.isfinite(values), initial=np.inf)
    known = trace[measure] if measure in trace else np.full(epochs.size, np.nan)
    if np.count_nonzero(above > 0) > 1:
        name = "P(x) above its lowest"
        picture = drawn("objective", descent, epochs, above, counted, name, 0.0)
        said = "The objective, mean loss plus penalty: how far above the lowest value of the run."
        yield picture, said
    if np.count_nonzero(np.isfinite(known) & (known > 0)) > 1:
        name = measure.replace("_", " ")
        picture = drawn("certificate", descent, epochs, known, counted, name, tol)
        dashed = "; dashed: the requested accuracy" if tol > 0 else ""
        yield picture, f"The certificate: how far from the minimum at most{dashed}."


def descent(ax: Axes, at: Array, values: Array, counted: str, name: str, line: float) -> None:
    """Positive numbers that fall by powers of ten, and a line at the number that was asked for."""
    from matplotlib.ticker import MaxNLocator

    course(ax, at, np.where(values > 0, values, np.nan), counted, name)
    if line > 0:
        ax.axhline(line, color=SOFT, lw=1.0, ls="--")
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def course(ax: Axes, at: Array, values: Array, counted: str, name: str) -> None:
    """A number as it was after some of the epochs or rounds."""
    known = np.isfinite(values)
    ax.plot(at[known], values[known], color=ACCENT, lw=1.8, marker="o", ms=3)
    labelled(ax, counted, name)


def by_site(
    ax: Axes, names: list[str], values: list[float], overall: float | None, label: str
) -> None:
    """A bar for each site's number, and a line for the number of all sites together."""
    places = np.arange(len(names))[::-1]
    ax.barh(places, values, color=ACCENT, height=0.7)
    ax.set_yticks(places, names)
    if overall is not None:
        ax.axvline(overall, color=SOFT, lw=1.2, ls="--")
    ax.set_xlabel(label)
    ax.grid(axis="x", alpha=1.0, lw=0.6)


def calibration(ax: Axes, said: Array, found: Array, counts: Array) -> None:
    """Predicted probabilities against observed frequencies."""
    ax.plot([0, 1], [0, 1], color=LINE, lw=1.5)
    error = np.sqrt(np.maximum(found * (1 - found), 0.0) / np.maximum(counts, 1))
    ax.errorbar(said, found, yerr=error, color=ACCENT, marker="o", ms=4, lw=1.5, elinewidth=1.0)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    labelled(ax, "predicted probability", "how often it was so")


def cloud(ax: Axes, predicted: AnyArray, true: AnyArray) -> None:
    """Predictions against the truth."""
    some = np.linspace(0, true.size - 1, min(true.size, POINTS)).astype(int)
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    ax.plot(ends, ends, color=LINE, lw=1.5)
    ax.plot(predicted[some], true[some], ".", color=ACCENT, ms=4, alpha=0.6)
    labelled(ax, "predicted", "true")


def residuals(ax: Axes, values: Array) -> None:
    """A histogram of the errors."""
    low, high = np.quantile(values, [0.005, 0.995])
    ax.hist(np.clip(values, low, high), bins=30, color=ACCENT)
    ax.axvline(0.0, color=SOFT, lw=1.0)
    labelled(ax, "true − predicted", "rows")


def labelled(ax: Axes, across: str, up: str) -> None:
    """Name both axes, and draw the grid."""
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.grid(alpha=1.0, lw=0.6)
