"""Metrics on held-out data: each client's sums, the columns of a trace over sites, and a callback for early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import xlogy

from reshuffle.arrays import AnyArray
from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError
from reshuffle.federated.federation import Federation
from reshuffle.losses.native import built_in
from reshuffle.objective import Array
from reshuffle.problem import Problem
from reshuffle.solvers.method import State
from reshuffle.trace import Result
from reshuffle.validation import check_positive

NAMES = ("loss", "accuracy", "auc", "r2", "d2")
"""The metrics that have columns in the trace."""


def metrics(problem: Problem, x: Array) -> dict[str, Plain]:
    """The numbers that leave a client: sums over its held-out samples, and its own AUC."""
    fit, y = problem.datafit, problem.targets
    z = fit.predictors(x)
    found: dict[str, Plain] = {"samples": problem.n, "losses": float(fit.value(x))}
    kind = fit.loss.targets
    if kind == "signs":
        found["correct"] = int(np.sum(np.where(z > fit.loss.boundary, 1.0, -1.0) == y))
        if np.ptp(y):
            found["auc"] = _auc(z, y > 0)
    elif kind == "classes":
        found["correct"] = int(np.sum(z.argmax(axis=1) == y))
    elif fit.loss.log_link:
        found |= {"errors": float(np.sum((np.exp(z) - y) ** 2)), "targets": float(y.sum())}
        if built_in(type(fit.loss)) == "poisson" and not fit.offsets.size:
            found["entropies"] = float(xlogy(y, y).sum())
    elif y.ndim == 1:
        found |= {
            "errors": float(np.sum((z - y) ** 2)),
            "targets": float(y.sum()),
            "squares": float(np.sum(y**2)),
        }
    return found


def overall(found: Mapping[int, Record]) -> dict[str, float]:
    """Metrics over all clients: loss, accuracy, R² and root mean squared error of the pooled samples, and the mean AUC, weighted
    by samples. Poisson's losses without offsets have D² in place of R², other losses with a log link neither: with the mean count m, half the deviance of the constant model is
    Σ y·log(y) - Σ y·log(m), and that of the model is the sum of Poisson's losses."""
    held = [r for r in found.values() if r.get("samples")]
    total = {name: sum(float(r[name]) for r in held if name in r)
             for name in ("samples", "losses", "correct", "errors", "targets", "squares", "entropies")}  # fmt: skip
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
        mean = total["targets"] / n
        if "entropies" in held[0]:
            deviance = total["entropies"] - float(xlogy(total["targets"], mean))
            result["d2"] = 1.0 - total["losses"] / deviance if deviance > 0 else 0.0
        elif "squares" in held[0]:
            spread = total["squares"] - total["targets"] * mean
            result["r2"] = 1.0 - total["errors"] / spread if spread > 0 else 0.0
        result["rmse"] = float(np.sqrt(total["errors"] / n))
    return result


def _auc(scores: Array, positive: AnyArray) -> float:
    """The share of pairs of a positive and a negative sample that are ranked correctly."""
    from scipy.stats import rankdata

    ranks, count = rankdata(scores), int(positive.sum())
    wins = ranks[positive].sum() - count * (count + 1) / 2
    return float(wins / (count * (positive.size - count)))


class HeldOutMetrics:
    """Asks every site, at regular rounds, how good the model is on its held-out samples.

    The state keeps the latest answers for the trace, ``held_out``: a row for each client, and one for all, with the
    loss, the accuracy, the AUC, R² and D²; ``held_out_known`` says which of them there are. The table of the final model, with
    names, is ``held_out`` of the result.
    """

    def __init__(self, problem: Federation, every: int) -> None:
        self.problem, self.every = problem, every

    def start(self) -> State:
        return self._state(np.full((self.problem.count + 1, len(NAMES)), np.nan))

    def after(self, rounds: int, state: State) -> State:
        """The part of the state after ``rounds`` rounds."""
        if rounds % self.every:
            return self.start()
        return self.told(self.problem.ask("metrics", state["x"]))

    def told(self, found: Mapping[int, Record]) -> State:
        """The part of the state from the answers of the sites."""
        rows = [_row({c: record}) for c, record in sorted(found.items())]
        return self._state(np.array([*rows, _row(found)]))

    def columns(self, state: State) -> dict[str, float]:
        """The metrics over all clients, NaN where a metric is not known."""
        values, known = state["held_out"][-1], state["held_out_known"][-1]
        shown = np.where(known, values, np.nan).tolist()
        return {f"held_out_{name}": value for name, value in zip(NAMES, shown, strict=True)}

    def _state(self, values: Array) -> State:
        known = ~np.isnan(values)
        return {"held_out": np.where(known, values, 0.0), "held_out_known": known}


def _row(found: Mapping[int, Record]) -> Array:
    known = overall(found)
    return np.array([known.get(name, np.nan) for name in NAMES])


class EarlyStopping:
    """Ends a run whose held-out loss has not fallen for ``patience`` evaluations.

    >>> import reshuffle as rs
    >>> stop = rs.federated.EarlyStopping(patience=3)
    >>> rs.FedRR(evaluate=2).solve(sites, callbacks=[stop])  # doctest: +SKIP
    """

    def __init__(self, patience: int = 3, metric: str = "loss") -> None:
        check_positive("patience", patience, integer=True)
        if metric not in NAMES:
            raise InputError(f"metric must be one of {', '.join(NAMES)}, got {metric!r}")
        self.patience, self.metric = patience, metric

    def __call__(self, result: Result) -> bool:
        column = f"held_out_{self.metric}"
        if column not in result.trace:
            raise InputError("EarlyStopping needs evaluate=k, and sites with test data")
        known = result.trace[column]
        known = known[~np.isnan(known)] * (1.0 if self.metric == "loss" else -1.0)
        return known.size > self.patience and int(known.argmin()) < known.size - self.patience
