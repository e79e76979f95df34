"""SCAFFOLD and Scaffnew of ``examples/methods``, which the benchmarks compare with, also with an accelerated server.

That server is the one of ExactFedRR, which extrapolates over the last rounds: what is then left between the methods is
what the clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from examples.methods import scaffnew, scaffold
from examples.methods.scaffnew import Descent
from reshuffle.federated import Federation, Local, Plan, Server
from reshuffle.federated.extrapolation import extrapolated
from reshuffle.federated.server import Extrapolated, Prox
from reshuffle.objective import Array
from reshuffle.solvers.method import State

__all__ = ["Descent", "Scaffnew", "Scaffold"]


class AcceleratedControls(scaffold.Controls):
    """SCAFFOLD's server, extrapolated over the last rounds: a round is a map of (x, h_1, …, h_M)."""

    def __init__(self, prox: Prox, totals: Array, memory: int) -> None:
        super().__init__(prox, totals)
        self.memory = memory

    def start(self, x0: Array) -> State:
        state = super().start(x0)
        empty = np.empty((0, 1 + self.totals.size, *x0.shape))
        return state | {"images": empty, "residuals": empty}

    def step(self, state: State, models: Mapping[int, Array], step: float) -> State:
        new: State = super().step(state, models, step)  # type: ignore[no-untyped-call]
        lengths = self.lengths(state, step)

        def together(of: State) -> Array:  # in the units of x
            return np.concatenate([of["x"][None], lengths * of["controls"]])

        images = np.concatenate([state["images"], together(new)[None]])
        residual = images[-1] - together(state)
        residuals = np.concatenate([state["residuals"], residual[None]])
        point, kept = extrapolated(images, residuals, self.memory)
        memory = {"images": images[kept], "residuals": residuals[kept]}
        return {"x": point[0], "controls": point[1:] / lengths} | memory


@dataclass(frozen=True, kw_only=True)
class Scaffold(scaffold.Scaffold):
    """SCAFFOLD; ``acceleration`` is the number of rounds that the server extrapolates over."""

    acceleration: int = 0

    def server(self, federation: Federation, work: Plan) -> Server:
        if self.acceleration:
            return AcceleratedControls(federation.prox, work.totals, self.acceleration)
        return super().server(federation, work)


@dataclass(frozen=True, kw_only=True)
class Scaffnew(scaffnew.Scaffnew):
    """Scaffnew; accelerated, every round has 1/p steps: a number that is drawn makes another map of each."""

    acceleration: int = 0

    def local(self, federation: Federation) -> Local:
        work: Descent = super().local(federation)  # type: ignore[no-untyped-call]
        return replace(work, drawn=not self.acceleration)

    def server(self, federation: Federation, work: Plan) -> Server:
        if self.acceleration:
            return Extrapolated(federation.prox, work.totals, self.acceleration)
        return super().server(federation, work)
