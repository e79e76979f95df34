"""The server of ExactFedRR: control variates, extrapolated over the last rounds, with a watch on the step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reshuffle.federated.anderson import extrapolated
from reshuffle.federated.remembered import check_slots, remembered, slots
from reshuffle.federated.safeguard import Pace
from reshuffle.federated.server import ControlVariates, Prox
from reshuffle.objective import Array
from reshuffle.solvers.method import State


class Accelerated(ControlVariates):
    """The same, extrapolated over the last rounds; for a constant γ.

    z_m = x̂_m - τ_m h_m says all about a round: x⁺ = prox(mean z), h_m = (x⁺ - z_m)/τ_m. So a round
    is a map z ← T(z), and ``memory`` rounds tell where its fixed point may lie (see ``anderson``).

    Where the residual says that γ is too long (``safeguard``), an ``adaptive`` server halves it, keeps x and
    the h_m, and begins anew.

    A set of all z_m is M·d numbers. The state holds 2·``memory`` + 1 of them, and a step needs three more.
    """

    def __init__(self, prox: Prox, totals: Array, memory: int, adaptive: bool = False) -> None:
        super().__init__(prox, totals)
        self.memory, self.adaptive = memory, adaptive

    def start(self, x0: Array) -> State:
        return super().start(x0) | self._slots(x0, [], []) | {"pace": np.array(Pace())}

    def check_state(self, state: State) -> None:
        check_slots(state, self.memory, "image", "residual")

    def shortened(self, state: State, step: float) -> float:
        return step * Pace.of(state["pace"]).factor

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        x, h, lengths = state["x"], state["controls"], self.lengths(state, step)
        image, residual = _taken(models, x, h, lengths)
        images = [*remembered(state, "image", self.memory), image]
        residuals = [*remembered(state, "residual", self.memory), residual]
        norm = _norm(residual)
        pace = Pace.of(state["pace"]).after(norm)
        if self.adaptive:
            before = _norm(residuals[0]) if len(residuals) == 2 else None
            trouble = pace.trouble(norm, before)
            if trouble:
                z = x - lengths * h if trouble == "grew" else image
                return self._begun_anew(state, z, step, pace)
        z, kept = extrapolated(images, residuals, self.memory)
        x = self.consensus(dict(enumerate(z)), step)
        memory = self._slots(x, images[kept], residuals[kept]) | {"pace": np.array(pace)}
        return {"x": x, "controls": _controls(x, z, lengths)} | memory

    def _begun_anew(self, state: State, z: Array, step: float, pace: Pace) -> State:
        """From the x and h_m that z stands for, with half the step and nothing remembered."""
        x, lengths = self.consensus(dict(enumerate(z)), step), self.lengths(state, step)
        h, lengths, step = (x - z) / lengths, 0.5 * lengths, 0.5 * step
        z = x - lengths * h
        x = self.consensus(dict(enumerate(z)), step)
        return self.start(x) | {
            "controls": _controls(x, z, lengths),
            "pace": np.array(pace.anew()),
        }

    def _slots(self, x: Array, images: list[Array], residuals: list[Array]) -> State:
        shape = (self.totals.size, *x.shape)
        return slots("image", images, self.memory, shape) | slots(
            "residual", residuals, self.memory, shape
        )

    def doubts(self, state: State) -> str:
        return Pace.of(state["pace"]).doubts


def _taken(models: Mapping[int, Array], x: Array, h: Array, lengths: Array) -> tuple[Array, Array]:
    """T(z) and T(z) - z. Models are given up one after the other, so that none is held twice."""
    image, residual = np.empty_like(h), np.empty_like(h)
    taken = models.pop if isinstance(models, dict) else models.__getitem__
    for k, c in enumerate(list(models)):
        moved = lengths[k] * h[k]
        image[k] = taken(c) - moved
        residual[k] = image[k] - (x - moved)
    return image, residual


def _controls(x: Array, z: Array, lengths: Array) -> Array:
    """(x - z_m)/τ_m, in the place of z."""
    np.subtract(x, z, out=z)
    z /= lengths
    return z


def _norm(array: Array) -> float:
    with np.errstate(over="ignore"):  # of a run that diverges, which is said elsewhere
        return float(np.sqrt(sum(float(np.sum(row * row)) for row in array)))
