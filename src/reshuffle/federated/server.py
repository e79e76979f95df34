"""The server's side of a round: how the clients' models become the next one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from reshuffle.errors import InputError
from reshuffle.federated.anderson import extrapolated
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

    def __init__(self, prox: Prox, totals: Array) -> None:
        self.prox, self.totals = prox, totals

    def start(self, x0: Array) -> State:
        return {"x": x0}

    def controls(self, state: State) -> Array | None:
        """What is sent along with x, a row for each client."""
        return None

    @abstractmethod
    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        """The next state, from the models in the order of the clients."""

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


class Accelerated(ControlVariates):
    """The same, extrapolated over the last rounds; for a constant γ.

    z_m = x̂_m - τ_m h_m says all about a round: x⁺ = prox(mean z), h_m = (x⁺ - z_m)/τ_m. So a round
    is a map z ← T(z), and ``memory`` rounds tell where its fixed point may lie (see ``anderson``).
    """

    def __init__(self, prox: Prox, totals: Array, memory: int) -> None:
        super().__init__(prox, totals)
        self.memory = memory

    def start(self, x0: Array) -> State:
        state = super().start(x0)
        empty = np.empty((0, *state["controls"].shape))
        return state | {"images": empty, "residuals": empty}

    def check_state(self, state: State) -> None:
        count, other = len(state["images"]), len(state["residuals"])
        if count != other or count > self.memory:
            raise InputError(
                f"resume: the saved state has {count} images and {other} residuals; they must be as many, "
                f"and at most {self.memory}"
            )

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        x, h, lengths = state["x"], state["controls"], self.lengths(state, step)
        image = np.array([models[c] for c in models]) - lengths * h
        residual = image - (x - lengths * h)
        images = np.concatenate([state["images"], image[None]])
        residuals = np.concatenate([state["residuals"], residual[None]])
        z, kept = extrapolated(images, residuals, self.memory)
        x = self.consensus(dict(enumerate(z)), step)
        controls = (x - z) / lengths
        return {"x": x, "controls": controls, "images": images[kept], "residuals": residuals[kept]}
