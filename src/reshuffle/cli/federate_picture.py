"""Draws a federated run: the gap to its best value, and each client's samples and loss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reshuffle.federated.replies import ClientTally
from reshuffle.trace import Trace

COLOUR, OTHER = "#0072B2", "#D55E00"
FEW = 12  # The names of at most this many clients fit below their bars.
LETTERS = 14  # Characters of a client's name below its bar.


def draw(trace: Trace, clients: Sequence[ClientTally], path: Path) -> None:
    """P(x) - P(best) on a logarithmic axis; each client's samples, and its final loss if known."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    known = ~np.isnan(trace["objective"])
    rounds, values = trace["epoch"][known], trace["objective"][known]
    if values.size:
        gap = values - values.min()
        left.plot(rounds[gap > 0], gap[gap > 0], color=COLOUR, lw=1.8, marker="o", ms=3)
    if np.any(values > values.min(initial=np.inf)):
        left.set_yscale("log")
    left.set_xlabel("rounds")
    left.set_ylabel("P(x) − P(best of this run)")
    names = [client.name for client in clients]
    sizes = [client.samples or 0 for client in clients]
    places = np.arange(len(sizes))
    middle.bar(places, sizes, color=COLOUR)
    if max(sizes) > 20 * min(sizes):
        middle.set_yscale("log")  # A logarithmic axis shows small clients, too.
    else:
        middle.yaxis.set_major_locator(MaxNLocator(integer=True))
    middle.set_ylabel("samples")
    losses = np.array([np.nan if client.loss is None else client.loss for client in clients])
    shares = losses * np.asarray(sizes) / np.sum(sizes)
    right.bar(places, shares, color=OTHER)
    right.set_ylabel("contribution to f(x) at the end")
    for axes in (middle, right):
        axes.set_xlabel("client")
        if len(names) <= FEW:
            shown = [name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…" for name in names]
            axes.set_xticks(places, shown, rotation=30 if max(map(len, shown)) > 4 else 0)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
