"""Plots traces, splits and paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.bands import (
    COLOURS,
    LABELS,
    LINES,
    LOGARITHMIC,
    MARKERS,
    Run,
    across,
    band,
    together,
    trace_of,
)
from reshuffle.errors import InputError, extra
from reshuffle.trace import Result, Trace

__all__ = ["COLOURS", "LINES", "MARKERS", "plot_gap", "plot_path", "plot_split"]

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle.estimators import Path
    from reshuffle.federated import Federation


def plot_gap(
    traces: Mapping[str, Run | Sequence[Run]] | Sequence[Run] | Run,
    minimum: float,
    against: str = "epoch",
    *,
    n: int | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """The gap P(x) - P* of several runs, on a logarithmic axis, against their cost.

    ``traces`` maps names to runs (results or traces), or to lists of runs with several seeds: then the
    line is their median, and the band goes from the smallest to the largest. A list of runs without names
    is numbered. ``against`` is "epoch", "rounds", "passes", "gradients", "prox_evals", "seconds", or
    "bytes"; ``n``, the number of samples in a pass, is needed if a trace does not know it.
    """
    named = _named(traces)
    costs = {name: [across(run, against, n) for run in runs] for name, runs in named.items()}
    ax = _axes(5, 3.6) if ax is None else ax
    ax.set_yscale("log")
    if against in LOGARITHMIC:
        ax.set_xscale("log")
    for k, (name, runs) in enumerate(named.items()):
        gaps = [trace_of(run)["objective"] - minimum for run in runs]
        band(
            ax, *together(costs[name], gaps, against in LOGARITHMIC), name, k, quantiles=(0, 0.5, 1)
        )
    ax.set_xlabel(LABELS[against])
    ax.set_ylabel("P(x) - P*")
    ax.grid(alpha=0.3)
    if legend:
        ax.legend(frameon=False)
    return ax


def _axes(width: float, height: float) -> Axes:
    """The axes of a new figure of this many inches."""
    with extra("cli", "matplotlib", "a figure"):
        import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _named(traces: Any) -> dict[str, list[Run]]:
    """A dict from names to runs; anything else is refused."""
    if isinstance(traces, (Result, Trace)):
        traces = [traces]
    if not isinstance(traces, Mapping):
        traces = {f"run {k}": run for k, run in enumerate(traces)}
    named = {
        str(name): [runs] if isinstance(runs, (Result, Trace)) else list(runs)
        for name, runs in traces.items()
    }
    for name, runs in named.items():
        if not runs or not all(isinstance(run, (Result, Trace)) for run in runs):
            raise InputError(f"traces[{name!r}] must be a result, a trace or a list of them")
    return named


def plot_split(federation: Federation, ax: Axes | None = None) -> Axes:
    """The number of samples of each client, by label if there are few labels."""
    ax = _axes(5, 3.6) if ax is None else ax
    targets = [getattr(client, "targets", np.empty(0)) for client in federation.clients]
    labels = np.unique(np.concatenate(targets))
    numbers = np.arange(len(federation.clients))
    if not 1 < labels.size <= len(COLOURS):
        ax.bar(numbers, federation.sizes, color=COLOURS[0])
    else:
        below = np.zeros(len(numbers))
        for colour, label in zip(COLOURS, labels, strict=False):
            counts = np.array([np.count_nonzero(y == label) for y in targets])
            ax.bar(numbers, counts, bottom=below, color=colour, label=f"label {label:g}")
            below += counts
        ax.set_ylim(0, 1.2 * federation.sizes.max())  # This leaves room for the legend.
        ax.legend(frameon=False, ncols=len(labels), loc="upper center")
    ax.set_xlabel("client")
    ax.set_ylabel("samples")
    return ax


def plot_path(
    path: Path,
    *,
    names: Sequence[str] | None = None,
    largest: int = 8,
    mark: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The coefficients along a path of strengths λ, from sparse to full, the largest by name.

    With several classes or outputs, a line is the Euclidean norm of a feature's coefficients.
    ``names`` are the features' names, if the path does not know them; ``mark`` is a λ to point out,
    such as ``lambda_`` of a cross-validated estimator.
    """
    ax = _axes(6, 3.8) if ax is None else ax
    coefs = path.coefs if path.coefs.ndim == 2 else path.coefs[:, 0]
    several = path.coefs.ndim == 3 and path.coefs.shape[1] > 1
    if several:
        coefs = np.linalg.norm(path.coefs, axis=1)
    known = path.names if names is None else names
    known = [f"x{j}" for j in range(coefs.shape[1])] if known is None else known
    if len(known) != coefs.shape[1]:
        raise InputError(f"names must be {coefs.shape[1]}, one per feature, got {len(known)}")
    order = np.argsort(-np.abs(coefs).max(axis=0), kind="stable")
    shown = [j for j in order[:largest] if np.any(coefs[:, j])]
    for j in order[len(shown) :]:
        ax.plot(path.lambdas, coefs[:, j], color="0.75", lw=0.8)
    for k, j in enumerate(shown):
        style: dict[str, Any] = {"color": COLOURS[k % 7], "ls": LINES[k // 7 % 7]}
        ax.plot(path.lambdas, coefs[:, j], label=plain_label(known[j]), lw=1.8, **style)
    if mark is not None:
        ax.axvline(float(mark), color="0.3", lw=1.0, ls=":", label=f"λ = {mark:.3g}")
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("λ")
    ax.set_ylabel("size of the coefficients" if several else "coefficients")
    ax.grid(alpha=0.3)
    if shown or mark is not None:
        ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def plain_label(name: object) -> str:
    """A name for matplotlib to show as it is: a $ begins no formula, and a leading underscore does not hide it from a legend."""
    text = str(name).replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text
