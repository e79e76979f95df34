"""Turns runs into curves: the cost at each row of a trace, and several seeds as a median with a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.trace import Result, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

LABELS = {
    "epoch": "epochs",
    "rounds": "communication rounds",
    "passes": "passes over the data",
    "gradients": "gradient evaluations",
    "prox_evals": "prox evaluations",
    "seconds": "seconds",
    "bytes": "bytes sent, both ways",
}
LOGARITHMIC = ("prox_evals", "seconds", "bytes")
FLOOR = 1e-16
"""The lowest gap that is drawn: the rounding error of an objective of order 1."""
GRID = 200
"""Runs whose rows lie at different costs are interpolated to this many common costs."""

Run = Trace | Result


def trace_of(run: Run) -> Trace:
    """The trace of a result, or the trace itself."""
    return run.trace if isinstance(run, Result) else run


def across(run: Run, against: str, n: int | None = None) -> Array:
    """The cost of a run at each of its rows, in one of the units of ``LABELS``."""
    trace = trace_of(run)
    if against not in LABELS:
        raise InputError(f"against must be one of {', '.join(LABELS)}, got {against!r}")
    if against == "passes":
        samples = n or float(trace.header.get("samples", "nan"))
        if not samples > 0:
            raise InputError("against='passes' needs n, the number of samples")
        return trace["gradients"] / samples
    if against == "bytes":
        if "bytes_up" not in trace:
            raise InputError("against='bytes' is for federated runs; this trace has no bytes_up")
        return trace["bytes_up"] + trace["bytes_down"]
    return trace["epoch" if against == "rounds" else against]


def together(
    costs: Sequence[Array], gaps: Sequence[Array], logarithmic: bool
) -> tuple[Array, Array]:
    """Runs on a common scale: if their rows lie at different costs, the logarithm of the gap is interpolated.

    A run that ended earlier keeps its last gap.
    """
    first = costs[0]
    if all(np.array_equal(first, cost) for cost in costs):
        return first, np.array(gaps)
    end = max(cost[-1] for cost in costs)
    if logarithmic:
        grid = np.geomspace(min(cost[cost > 0].min(initial=end) for cost in costs), end, GRID)
    else:
        grid = np.linspace(0.0, end, GRID)
    logs = [np.log(np.maximum(gap, FLOOR)) for gap in gaps]
    rows = [np.exp(np.interp(grid, cost, log)) for cost, log in zip(costs, logs, strict=True)]
    return grid, np.array(rows)


def band(
    ax: Axes,
    costs: Array,
    gaps: Array,
    label: str,
    style: int,
    quantiles: tuple[float, float, float] = (0.25, 0.5, 0.75),
) -> None:
    """Draw the median of runs (rows of ``gaps``) as a line, and the range between the outer quantiles as a band."""
    low, middle, high = np.maximum(np.quantile(gaps, quantiles, axis=0), FLOOR)
    logarithmic = ax.get_xscale() == "log"
    if logarithmic:  # A logarithmic axis has no place for the start at zero.
        keep = costs > 0
        costs, low, middle, high = costs[keep], low[keep], middle[keep], high[keep]
    colour = COLOURS[style % 7]
    look: dict[str, Any] = {"ls": LINES[style // 7 % 7], "marker": MARKERS[style % 7]}
    if len(gaps) > 1:
        ax.fill_between(costs, low, high, color=colour, alpha=0.2, lw=0)
    where = _spread(np.log(costs) if logarithmic else costs, style) if costs.size else []
    ax.plot(
        costs, middle, label=label, color=colour, lw=1.6, ms=7, mec="white", mew=0.7,
        markevery=where, **look,
    )  # fmt: skip


def _spread(positions: Array, style: int) -> list[int]:
    """About six rows for markers, far apart on the axis, and different ones for each method."""
    wanted = np.linspace(positions[0], positions[-1], 7)[1:] - style * np.ptp(positions) / 30
    rows = np.abs(positions[:, None] - wanted).argmin(axis=0)
    return sorted({int(row) for row in rows})
