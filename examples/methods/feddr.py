"""FedDR: Tran-Dinh, Pham, Phan, Nguyen 2021, with all clients in every round.

client m:  x_m ≈ prox_{τ_m f_m}(y_m),  τ_m = γN_m, by gradient steps from x,
server:    x⁺ = prox_{τR}( (1/M) Σ_m (2x_m - y_m) ),    y_m ← y_m + x⁺ - x_m.
"""

from dataclasses import dataclass

import numpy as np

from reshuffle.federated import ControlVariates, FederatedSolver, Local


class LocalProx(Local):
    def gradients(self, visits, samples, number):
        return samples * self.solver.local_steps

    def work(self, client, x, step, number, rng, control):
        tau = step * client.n
        for _ in range(self.solver.local_steps):
            x -= (client.gradient(x) + (x - control) / tau) / (client.smoothness.L_f + 1.0 / tau)
        return x


class Reflected(ControlVariates):
    def start(self, x0):
        return {"x": x0, "controls": np.repeat(x0[None], self.totals.size, axis=0)}

    def step(self, state, models, step):
        y, found = state["controls"], np.array(list(models.values()))
        x = self.consensus(dict(enumerate(2 * found - y)), step)
        return {"x": x, "controls": y + x - found}


@dataclass(frozen=True, kw_only=True)
class FedDR(FederatedSolver):
    local_class, server_class, needs_all = LocalProx, Reflected, True
    local_steps: int = 10  # gradient steps for the prox of f_m
