"""ProxRR with heavy-ball momentum between epochs.

y = x_t + β(x_t - x_{t-1}),    n shuffled steps from y,    x_{t+1} = prox_{γnψ}.
"""

from dataclasses import dataclass
from typing import Any

from reshuffle.solvers import Epoch, Method, Solver


class Epochs(Method):
    """An epoch of ProxRR from an extrapolated point."""

    def start(self, x0):
        return {"x": x0, "before": x0}

    def advance(self, state, epoch, step):
        x = state["x"] + self.solver.beta * (state["x"] - state["before"])
        self.problem.sweep(x, self.reshuffled(epoch), step)
        x = self.problem.prox(x, step * self.problem.n)
        return Epoch({"x": x, "before": state["x"]}, gradients=self.problem.n, prox_evals=1)


@dataclass(frozen=True, kw_only=True)
class MomentumRR(Solver):
    """ProxRR with momentum β; with β = 0 it is ProxRR to the bit."""

    method_class = Epochs
    beta: float = 0.5
    step: Any = None
