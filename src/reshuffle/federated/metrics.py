"""How good a model is on held-out samples: sums at each client, and what they come to over all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reshuffle.engines import Plain, Record
from reshuffle.objective import Array
from reshuffle.problem import Problem

NAMES = ("loss", "accuracy", "auc", "r2")
"""Those that the trace has columns of."""


def metrics(problem: Problem, x: Array) -> dict[str, Plain]:
    """The numbers that leave a client: sums over its held-out samples, and its own AUC."""
    fit, y, z = problem.datafit, problem.targets, problem.margins(x)
    found: dict[str, Plain] = {"samples": problem.n, "losses": float(fit.value(x))}
    kind = fit.loss.targets
    if kind == "signs":
        found["correct"] = int(np.sum(np.where(z > 0, 1.0, -1.0) == y))
        if np.ptp(y):
            found["auc"] = _auc(z, y > 0)
    elif kind == "classes":
        found["correct"] = int(np.sum(z.argmax(axis=1) == y))
    elif y.ndim == 1:
        found |= {
            "errors": float(np.sum((z - y) ** 2)),
            "targets": float(y.sum()),
            "squares": float(np.sum(y**2)),
        }
    return found


def overall(found: Mapping[int, Record]) -> dict[str, float]:
    """Over all clients: loss, accuracy, R² and root mean squared error of the pooled samples; of the AUC the mean, weighed
    by samples."""
    held = [r for r in found.values() if r.get("samples")]
    total = {name: sum(float(r[name]) for r in held if name in r)
             for name in ("samples", "losses", "correct", "errors", "targets", "squares")}  # fmt: skip
    result: dict[str, float] = {}
    if not held:
        return result
    n = total["samples"]
    result["samples"] = n
    result["loss"] = total["losses"] / n
    if "correct" in held[0]:
        result["accuracy"] = total["correct"] / n
    ranked: Any = [(r["samples"], r["auc"]) for r in held if "auc" in r]
    if ranked:
        result["auc"] = float(np.average([a for _, a in ranked], weights=[w for w, _ in ranked]))
    if "errors" in held[0]:
        spread = total["squares"] - total["targets"] ** 2 / n
        result["r2"] = 1.0 - total["errors"] / spread if spread > 0 else 0.0
        result["rmse"] = float(np.sqrt(total["errors"] / n))
    return result


def _auc(scores: Array, positive: Any) -> float:
    """The share of pairs of a positive and a negative sample that are ranked right."""
    from scipy.stats import rankdata

    ranks, count = rankdata(scores), int(positive.sum())
    wins = ranks[positive].sum() - count * (count + 1) / 2
    return float(wins / (count * (positive.size - count)))
