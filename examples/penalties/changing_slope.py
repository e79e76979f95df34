"""
A slope that changes in steps: the fused lasso on a time series
===============================================================

How strongly does a share move with the market? The slope of its monthly return against that of an index is not the same in
every decade. One coefficient per month, with the sum of their differences penalised,

    ψ(x) = strength · Σ_t \\|x_{t+1} - x_t\\|,

is constant over periods, and jumps where the data asks for it. What one does today is a regression on a moving window, whose width has to be
chosen and which smooths every jump. The prices are those of ten shares and indices, 1990 to 2022, that come with matplotlib.
"""

import csv
import time

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data
from scipy.sparse import csr_array

import reshuffle as rs

with get_sample_data("Stocks.csv") as file:
    lines = [line.decode() if isinstance(line, bytes) else line for line in file]
rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
rows = [row for row in rows if row["AAPL"] and row["^GSPC"]]
years = np.array([int(row["Date"][:4]) + (int(row["Date"][5:7]) - 0.5) / 12 for row in rows])[1:]


def returns(name):
    """In percent a month."""
    return 100 * np.diff(np.log([float(row[name]) for row in rows]))


market = returns("^GSPC")
market -= market.mean()
months = np.arange(market.size)


# %%
# The problem has one row per month, with the market's return in the column of its month, and one unknown per month. A month that is left out
# has no row, and its slope is that of its neighbours: so the strength and the width are chosen, by ten interleaved tenths of the months.


def fused(known, y, strength):
    diagonal = csr_array((market[known], (np.arange(known.size), known)), (known.size, market.size))
    problem = rs.Problem(
        diagonal, y[known], rs.losses.Squared(), rs.penalties.FusedLasso(strength), ridge=1e-6
    )
    return rs.ExactProxRR(tol=1e-6, epochs=2000).solve(problem)


def moving(known, y, width):
    """Least squares on the known months at most half a width away."""
    near = np.abs(months[:, None] - known[None]) <= width / 2
    return (near @ (market[known] * y[known])) / (near @ market[known] ** 2)


SHARES, SHOWN = ("IBM", "AAPL", "MSFT", "XRX", "ADBE"), ("IBM", "MSFT")
STRENGTHS, WIDTHS = np.geomspace(0.1, 4.0, 8), (24, 36, 60, 90, 120, 180)
tenths = [(np.flatnonzero(months % 10 != k), months[months % 10 == k]) for k in range(10)]
found = {}
for name in SHARES:
    y = returns(name)
    y -= y.mean()
    error = {"one slope": [0.0], "moving window": np.zeros(6), "fused lasso": np.zeros(8)}
    for known, left_out in tenths:
        aim, across = y[left_out], market[left_out]
        one = (market[known] @ y[known]) / (market[known] @ market[known])
        error["one slope"][0] += np.sum((aim - one * across) ** 2)
        for k, width in enumerate(WIDTHS):
            slopes = moving(known, y, width)[left_out]
            error["moving window"][k] += np.sum((aim - slopes * across) ** 2)
        for k, strength in enumerate(STRENGTHS):
            slopes = fused(known, y, strength).x[left_out]
            error["fused lasso"][k] += np.sum((aim - slopes * across) ** 2)
    shares = {kind: 1 - np.min(values) / np.sum(y**2) for kind, values in error.items()}
    print(name, ", ".join(f"{kind} explains {share:.1%}" for kind, share in shares.items()))
    strength = STRENGTHS[np.argmin(error["fused lasso"])]
    width = WIDTHS[np.argmin(error["moving window"])]
    clock = time.process_time()
    result = fused(months, y, strength)
    print(f"  the fit: {1e3 * (time.process_time() - clock):.0f} ms, {result.message}")
    found[name] = y, width, result.x, moving(months, y, width)

# %%
# Of five shares the fused lasso tells the months that were left out better than the moving window on two, as well on one and worse on two; strength
# and width are each the best for these months, so that neither has an advantage. The slopes of two of them: a few periods with dates, and another slope in every month.

fig, axes = plt.subplots(len(SHOWN), 1, figsize=(9, 5.6), sharex=True, layout="constrained")
for ax, name in zip(axes, SHOWN, strict=True):
    y, width, slopes, window = found[name]
    pieces = 1 + np.count_nonzero(np.abs(np.diff(slopes)) > 1e-3)
    ax.plot(years, window, color="tab:gray", lw=1.2, label=f"moving window, {width} months")
    ax.plot(years, slopes, color="tab:red", lw=2, label=f"fused lasso, {pieces} pieces")
    ax.axhline(market @ y / (market @ market), color="black", ls=":", lw=1, label="one slope")
    ax.set_title(name, loc="left")
    ax.set_ylabel("slope against the S&P 500")
    ax.legend(frameon=False, ncols=3, loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_ylim(0, 1.35 * max(window.max(), slopes.max()))
axes[-1].set_xlabel("year")
plt.show()
