"""Group penalties inside the kernels, against the same penalty of which little is known."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from benchmarks.report import Finding
from benchmarks.timing import interleaved, timed

STRENGTHS = (0.1, 0.02)  # of λ_max
SIZE = 5  # features of a group


class Known:
    """A group lasso by its value, prox and dual alone: how 0.1.0 saw every group penalty."""

    def __init__(self, penalty: rs.penalties.GroupLasso) -> None:
        self.value, self.prox = penalty.value, penalty.prox
        self.has_dual = penalty.has_dual
        self.conjugate, self.dual_scale = penalty.conjugate, penalty.dual_scale


def groups(quick: bool) -> list[Finding]:
    """From the call to a certified 1e-6 with a group lasso, sparse 20,000 x 2,000, 1% of values."""
    n, d = (5_000, 500) if quick else (20_000, 2_000)
    rng = np.random.default_rng(0)
    X: Any = sp.random(
        n, d, density=0.01, random_state=0, format="csr", data_rvs=rng.standard_normal
    )
    truth = np.zeros(d)
    truth[: d // 40] = rng.standard_normal(d // 40)
    y = np.sign(X @ truth + 0.5 * rng.standard_normal(n))
    labels = np.arange(d) // SIZE
    largest = rs.Problem(X, y, penalty=rs.penalties.GroupLasso(1.0, labels)).lambda_max()
    solver = rs.ExactProxRR(tol=1e-6, eval_every=10**6)
    found = []
    for strength in STRENGTHS:
        penalty = rs.penalties.GroupLasso(strength * largest, labels)
        fits = {"compiled": partial(_fit, solver, X, y, penalty),
                "known by its prox": partial(_fit, solver, X, y, Known(penalty))}  # fmt: skip
        best = interleaved({name: timed(fit) for name, fit in fits.items()}, 3 if quick else 8)
        detail = ", ".join(f"{name} {1e3 * seconds:.0f} ms" for name, seconds in best.items())
        ratio = best["known by its prox"] / best["compiled"]
        what = f"{strength:g} λ_max: by its prox over compiled"
        found.append(Finding(what, ratio, "times", "at least", 2.0, detail))
    return found


def _fit(solver: rs.ExactProxRR, X: Any, y: Any, penalty: Any) -> None:
    result = solver.solve(rs.Problem(X, y, penalty=penalty))
    if not result.converged:
        raise RuntimeError(result.message)
