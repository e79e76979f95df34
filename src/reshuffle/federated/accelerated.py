"""The server of ExactFedRR: control variates, extrapolated over the last rounds, with a watch on the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from reshuffle.federated.anderson import GROWTH, extrapolated
from reshuffle.federated.server import ControlVariates, Prox
from reshuffle.objective import Array
from reshuffle.solvers.method import State

PATIENCE = 50  # rounds in which a residual that falls at all should have been halved
QUIET = 1e-8  # of the first residual: from here on rounding may have a part in it
STUCK = 0.8  # of the residual that was last a half: above it there is next to no progress
LEAST = 1.0 / 16.0  # of the step that was chosen: if it does not go with this, it is not the step


class Pace(NamedTuple):
    """How the residual ‖T(z) - z‖ goes: part of the state of a run."""

    factor: float = 1.0
    """Of the step that was chosen."""
    first: float = 0.0
    """The first residual of the run."""
    halved: float = np.inf
    """The residual when it had last fallen to a half."""
    since: float = 0.0
    """Rounds since then."""
    least: float = np.inf
    """The least residual with this step."""

    def after(self, residual: float) -> Pace:
        """The pace after a round with this residual."""
        new = self if self.first else self._replace(first=residual, halved=residual)
        new = new._replace(least=min(new.least, residual))
        if residual <= 0.5 * new.halved:
            return new._replace(halved=residual, since=0.0)
        return new._replace(since=new.since + 1.0)

    @property
    def stalls(self) -> bool:
        """Whether the residual has not fallen to a half for long, and is no rounding."""
        return self.since >= PATIENCE and self.halved > QUIET * self.first

    @property
    def stuck(self) -> bool:
        """Whether it stalls and has hardly fallen at all, or stalls for twice as long."""
        return self.stalls and (self.least > STUCK * self.halved or self.since >= 2 * PATIENCE)


class Accelerated(ControlVariates):
    """The same, extrapolated over the last rounds; for a constant γ.

    z_m = x̂_m - τ_m h_m says all about a round: x⁺ = prox(mean z), h_m = (x⁺ - z_m)/τ_m. So a round
    is a map z ← T(z), and ``memory`` rounds tell where its fixed point may lie (see ``anderson``).

    With the solutions as fixed points of a T that does not expand, plain rounds have residuals that do
    not grow. Where one grows, or hardly falls any more, γ may be too long for the local passes: an ``adaptive``
    server halves it, keeps x and the h_m, and begins anew.
    """

    def __init__(self, prox: Prox, totals: Array, memory: int, adaptive: bool = False) -> None:
        super().__init__(prox, totals)
        self.memory, self.adaptive = memory, adaptive

    def start(self, x0: Array) -> State:
        state = super().start(x0)
        empty = np.empty((0, *state["controls"].shape))
        return state | {"images": empty, "residuals": empty, "pace": np.array(Pace())}

    def shortened(self, state: State, step: float) -> float:
        return step * float(state["pace"][0])

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        x, h, lengths = state["x"], state["controls"], self.lengths(state, step)
        point = x - lengths * h
        image = np.array([models[c] for c in models]) - lengths * h
        residual = image - point
        images = np.concatenate([state["images"], image[None]])
        residuals = np.concatenate([state["residuals"], residual[None]])
        norm = _norm(residual)
        pace = Pace(*state["pace"].tolist()).after(norm)
        plain = len(state["residuals"]) == 1 and norm > QUIET * pace.first
        grew = plain and norm > GROWTH * _norm(state["residuals"][0])
        if self.adaptive and (grew or pace.stuck) and pace.factor > LEAST:
            return self._begun_anew(state, point if grew else image, step, pace)
        z, kept = extrapolated(images, residuals, self.memory)
        x = self.consensus(dict(enumerate(z)), step)
        memory = {"images": images[kept], "residuals": residuals[kept], "pace": np.array(pace)}
        return {"x": x, "controls": (x - z) / lengths} | memory

    def _begun_anew(self, state: State, z: Array, step: float, pace: Pace) -> State:
        """From the x and h_m that z stands for, with half the step and nothing remembered."""
        x, lengths = self.consensus(dict(enumerate(z)), step), self.lengths(state, step)
        h, lengths, step = (x - z) / lengths, 0.5 * lengths, 0.5 * step
        z = x - lengths * h
        x = self.consensus(dict(enumerate(z)), step)
        fresh = self.start(x) | {"controls": (x - z) / lengths}
        return fresh | {"pace": np.array(Pace(0.5 * pace.factor, pace.first))}

    def doubts(self, state: State) -> str:
        pace = Pace(*state["pace"].tolist())
        if not pace.stalls:
            return ""
        return (
            f"the residual of the rounds has not halved for {pace.since:.0f} rounds: try a shorter step, "
            "other local_passes, order=Reshuffle() with acceleration=0, or FedNewton"
        )


def _norm(array: Array) -> float:
    with np.errstate(over="ignore"):  # of a run that diverges, which is said elsewhere
        return float(np.sqrt(np.sum(array * array)))
