"""Wide dense sets of correlated columns, beside the solvers that are made for them.

``python -m benchmarks --only wide`` takes 500 rows of 2,000 and 5,000 columns to (P - P*)/f(0) ≤ 1e-6 with an ℓ1 penalty and
the logistic loss. Neighbouring columns have correlation 0.9. Rules and seconds are those of ``benchmarks.profile``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.corpus import Entry
from benchmarks.instances import Instance, largest_strength
from benchmarks.profile import CAP, measure
from benchmarks.profile_figure import Time, ratios
from benchmarks.report import Finding
from benchmarks.timing import one_thread
from benchmarks.truth import Minima

ROWS, COLUMNS, SHARES = 500, (2_000, 5_000), (0.5, 0.2, 0.1, 0.05)
CORRELATION = 0.9  # of neighbouring columns
ACCURACY, BAR = 1e-6, 1.2


def correlated(columns: int, share: float) -> Instance:
    """x_j = ρ·x_{j-1} + √(1-ρ²)·e_j, and a logistic model of twenty columns; λ1 is this share of λ_max."""
    rng = np.random.default_rng(columns)
    X = rng.standard_normal((ROWS, columns))
    for j in range(1, columns):
        X[:, j] = CORRELATION * X[:, j - 1] + np.sqrt(1 - CORRELATION**2) * X[:, j]
    truth = np.zeros(columns)
    truth[:: columns // 20] = rng.standard_normal(20)
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)
    found = Instance(
        name=f"{ROWS} x {columns:,}, {share:g} λ_max", X=X, y=y, loss="logistic", penalty="l1"
    )
    return found.with_(l1=share * largest_strength(found))


def entries(quick: bool) -> Iterator[Entry]:
    for columns in COLUMNS[: 1 if quick else None]:
        for share in SHARES:
            name = f"{ROWS} x {columns:,}, {share:g} λ_max"
            yield Entry(name, "large", partial(correlated, columns, share))


def wide(quick: bool) -> Iterator[Finding]:
    """The best peer's seconds over ours, to 1e-6."""
    minima = Minima()
    with one_thread():
        for entry in entries(quick):
            instance = entry.build()
            times = measure(entry, instance, minima.of(instance), CAP)
            yield _finding(entry.name, [t for t in times if t.accuracy == ACCURACY])


def _finding(name: str, times: list[Time]) -> Finding:
    ordered = sorted((t for t in times if t.solved), key=lambda t: t.seconds)
    detail = ", ".join(f"{t.solver} {1e3 * t.seconds:.1f} ms" for t in ordered[:4])
    return Finding(name, ratios(times)[0].value, "times", "at least", BAR, detail)
