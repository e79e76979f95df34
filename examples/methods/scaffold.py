"""SCAFFOLD (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh 2020), option II, global step 1.

client m:  y_m after steps along ∇f(y) - (c_m - c),    server:  x⁺ = prox(mean_m y_m),
c_m ← c_m - c + (x - y_m)/τ_m,  c their mean. (With a prox the server leaves a drift.)
"""

from dataclasses import dataclass

import numpy as np

from examples.methods.scaffnew import Descent
from reshuffle.federated import ControlVariates, FederatedSolver, Local
from reshuffle.orders import shuffled


class Drifting(Local):  # a reshuffled pass; the ridge's part, which changes little, is that at x
    def work(self, client, x, step, number, rng, control):
        control[: client.features] -= client.ridge * x[: client.features]
        visits = shuffled(np.arange(client.n, dtype=np.uint32), rng)
        client.corrected_sweep(x, visits, step, np.zeros((client.n, *x.shape[1:])), -control)
        return x


class Controls(ControlVariates):
    def step(self, state, models, step):
        moved = state["x"] - np.array(list(models.values()))
        c = state["controls"] + moved / self.lengths(state, step)
        mean = np.tensordot(self.totals / self.totals.sum(), c, axes=1)
        return {"x": self.consensus(models, step), "controls": c - mean}


@dataclass(frozen=True, kw_only=True)
class Scaffold(FederatedSolver):
    server_class, needs_all = Controls, True
    local_steps: int | None = None  # full-gradient steps; a pass of single samples where not given

    def local(self, federation):
        many = self.local_steps
        return Drifting(self) if many is None else Descent(self.seed, many, drawn=False)
