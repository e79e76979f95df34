"""The report of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reshuffle.report import html, pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle.comparison.result import Comparison

COSTS = {
    "passes": "Passes over the data, which gradients cost.",
    "prox_evals": "Evaluations of the prox of the penalty.",
    "seconds": "Seconds on this machine, without the evaluation of P(x).",
}


def compare_page(found: Comparison, accuracy: float, about: Mapping[str, object]) -> str:
    """The whole page."""
    table = found.table(accuracy)
    seeds = max(len(by) for by in found.runs.values())
    text = (
        f"What it took to bring P(x) − P* down to {accuracy:g} of what it was at the start: least, median and most "
        f"over {seeds} seed{'s' if seeds > 1 else ''}; a dash where it was not reached. P* = {found.minimum:.10g} is the lowest value that "
        "any run has found."
    )

    def draw(ax: Axes, cost: str) -> None:
        found.plot(against=cost, ax=ax)
        ax.grid(alpha=1.0, lw=0.6)

    figures = [
        (pictures.drawn(f"gap by {cost}", draw, cost), caption) for cost, caption in COSTS.items()
    ]
    parts = [
        html.section("Cost", html.tag("p", text), html.table(table.columns, [line.cells() for line in table.lines])),
        html.section("Against each other", html.figures(*figures)),
        html.section("Data and settings", html.pairs(about)),
    ]  # fmt: skip
    title = f"{len(found.runs)} methods on one problem"
    return html.page(title, f"{found.n:,} rows", parts)
