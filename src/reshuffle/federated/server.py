"""The server's side of a round: how the clients' models become the next one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from reshuffle.engines import Plain, Record
from reshuffle.objective import Array
from reshuffle.solvers.method import State

Prox = Callable[[Array, float], Array]


class Server(ABC):
    """Keeps nothing: what a server remembers between rounds lies in the state.

    ``prox`` is that of R (with the ridge, where the clients' steps leave it out), and ``totals`` are
    τ_m/γ, the lengths of the clients' epochs.
    """

    needs_all: ClassVar[bool] = False
    """Whether a round without some client's model is of no use."""
    sums: ClassVar[bool] = False
    """Whether replies are added up as they come (``add_up``), and none is kept."""

    def __init__(self, prox: Prox, totals: Array) -> None:
        self.prox, self.totals = prox, totals

    def start(self, x0: Array) -> State:
        return {"x": x0}

    def restarted(self, state: State) -> State:
        """Where all clients begin anew from x."""
        return self.start(state["x"])

    def message(self, state: State) -> Array:
        """What is sent to every client: x, unless a method has more to say."""
        return state["x"]

    def controls(self, state: State) -> Array | None:
        """What is sent along with it, a row for each client."""
        return None

    def shortened(self, state: State, step: float) -> float:
        """γ of the next round, where the server has found the one that was chosen too long."""
        return step

    def stalled(self, state: State) -> str:
        """Why no further round would change anything, where that is so."""
        return ""

    def rejects(self, state: State, objective: float) -> bool:
        """Whether x of this state, where P is ``objective``, is a trial point that is worse than the last one."""
        return False

    def model_decrease(self, state: State) -> float:
        """The decrease of P that the last model of P promised; infinite before the first model, 0 without models."""
        return 0.0

    def doubts(self, state: State) -> str:
        """What whoever gets the model of this state should know and try, where it may be far off."""
        return ""

    def letter(self, state: State) -> tuple[dict[str, Plain], dict[int, dict[str, Plain]]]:
        """What else clients need to know: all of them, and each."""
        return {}, {}

    def add_up(
        self, state: State, total: Array, said: Mapping[int, Record], step: float, number: int
    ) -> State:
        """The next state of a server that ``sums``, from Σ_m of the replies and what came with them."""
        raise NotImplementedError

    @abstractmethod
    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        """The next state, from the models in the order of the clients; a dict of them may be emptied on the way."""

    def check_state(self, state: State) -> None:
        """Refuse a saved state that no run can have; see ``Method.check_state``."""
        return  # most have nothing to refuse

    def consensus(self, models: Mapping[int, Array], step: float) -> Array:
        """prox_{γ(S/M)R}( (1/M) Σ_m x_m ), the prox of R + consensus on the product space."""
        total = np.zeros_like(next(iter(models.values())))
        for model in models.values():  # one after the other: the same sum on every engine
            total += model
        length = step * (self.totals[list(models)].sum() / len(models))
        return self.prox(total / len(models), length)


class Averaging(Server):
    """x⁺ = prox_{γ(S/M)R}( mean_m x̂_m )."""

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        return {"x": self.consensus(models, step)}


class ControlVariates(Server):
    """x⁺ = prox_{γ(S/M)R}( mean_m (x̂_m - τ_m h_m) ),   h_m ← h_m + (x⁺ - x̂_m)/τ_m."""

    needs_all = True

    def start(self, x0: Array) -> State:
        return {"x": x0, "controls": np.zeros((self.totals.size, *x0.shape))}

    def controls(self, state: State) -> Array:
        return state["controls"]

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        h, lengths = state["controls"], self.lengths(state, step)
        found = np.array([models[c] for c in models])
        x = self.consensus(dict(enumerate(found - lengths * h)), step)
        return {"x": x, "controls": h + (x - found) / lengths}

    def lengths(self, state: State, step: float) -> Array:
        """τ_m = γ·totals_m, a row for each client."""
        return (step * self.totals).reshape(-1, *[1] * state["x"].ndim)
