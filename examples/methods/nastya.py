"""Nastya: Malinovsky, Mishchenko, Richtárik 2022. A step of the server on top of FedRR.

client m:  x_m after a reshuffled local pass with γ,    server:  g = (1/M) Σ_m (x - x_m)/(γN/M),
x⁺ = prox_{ηR}(x - ηg).   With η = γN/M it is FedRR.
"""

from dataclasses import dataclass

import numpy as np

from reshuffle.federated import FedRR, Server


class ServerStep(Server):
    """The mean of the clients' moves as a gradient, and a proximal step along it."""

    def step(self, state, models, step):
        x, length = state["x"], step * self.totals.mean()
        g = (x - np.mean(list(models.values()), axis=0)) / length
        return {"x": self.prox(x - self.eta * g, self.eta)}


@dataclass(frozen=True, kw_only=True)
class Nastya(FedRR):
    """``server_step`` is η, 1/L_f where not given; ``step``, the clients' γ, should be far shorter."""

    server_step: float | None = None

    def server(self, federation, work):
        server = ServerStep(federation.prox, work.totals)
        server.eta = self.server_step or 1.0 / federation.smoothness.L_f
        return server
