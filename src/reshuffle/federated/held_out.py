"""Held-out metrics in the trace of a run over sites, and a callback that stops on them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reshuffle.engines import Record
from reshuffle.errors import InputError
from reshuffle.federated.federation import Federation
from reshuffle.federated.metrics import NAMES, overall
from reshuffle.objective import Array
from reshuffle.solvers.method import State
from reshuffle.trace import Result
from reshuffle.validation import check_positive


class HeldOut:
    """Asks every site, every so many rounds, how good the model is on its held-out samples.

    The state keeps the latest answers for the trace, ``held_out``: a row for each client, and one for all, with the
    loss, the accuracy, the AUC and R²; ``held_out_known`` says which of them there are. The table of the final model, with
    names, is ``held_out`` of the result.
    """

    def __init__(self, problem: Federation, every: int) -> None:
        self.problem, self.every = problem, every

    def start(self) -> State:
        return self._state(np.full((self.problem.count + 1, len(NAMES)), np.nan))

    def after(self, rounds: int, state: State) -> State:
        """The state's part after so many rounds."""
        if rounds % self.every:
            return self.start()
        return self.told(self.problem.ask("metrics", state["x"]))

    def told(self, found: Mapping[int, Record]) -> State:
        """The state's part by what the sites said."""
        rows = [_row({c: record}) for c, record in sorted(found.items())]
        return self._state(np.array([*rows, _row(found)]))

    def columns(self, state: State) -> dict[str, float]:
        """Over all clients, NaN where there is nothing."""
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
