"""Writes the files of a run over clients, for the command and for Flower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from reshuffle.cli.common import shortened
from reshuffle.estimators import from_federation
from reshuffle.estimators.linear import Linear
from reshuffle.federated import FederatedResult
from reshuffle.federated.replies import ClientTally
from reshuffle.files import write_atomically
from reshuffle.report import federated_page
from reshuffle.report.words import data_table
from reshuffle.trace import Trace

RUN = ("checkpoint.npz", "result.npz", "model.npz")
"""A folder with one of these files holds a run."""
COLOUR, OTHER = "#0072B2", "#D55E00"
FEW = 12  # The names of at most this many clients fit below their bars.
LETTERS = 14  # Characters of a client's name below its bar.


def file_of_a_run(out: Path) -> Path | None:
    """A file that an earlier run has left in this folder; None if there is none."""
    return next((out / name for name in RUN if (out / name).exists()), None)


def write_outcome(result: FederatedResult, out: Path, about: Mapping[str, object]) -> Linear:
    """Write result.npz, trace.csv, federation.png, model.npz and report.html; returns the model."""
    result.save(out / "result.npz")
    result.trace.to_csv(out / "trace.csv")
    _draw(result.trace, result.tally.parts, out / "federation.png")
    model: Linear = from_federation(result)
    model.save(out / "model.npz")
    encoding = model.encoding_
    names = list(map(shortened, encoding.feature_names))
    told = {**about, **data_table(encoding), "target": encoding.target or "the labels of the files"}
    page = federated_page(model, result, names, told, encoding.target)
    write_atomically(out / "report.html", page.encode())
    return model


def _draw(trace: Trace, clients: Sequence[ClientTally], path: Path) -> None:
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
            shown = [shortened(name, LETTERS) for name in names]
            axes.set_xticks(places, shown, rotation=30 if max(map(len, shown)) > 4 else 0)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
