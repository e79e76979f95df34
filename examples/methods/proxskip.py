"""ProxSkip: Mishchenko, Malinovsky, Stich, Richtárik 2022.

x̂ = x - γ(∇f(x) - h);  with probability p  x = prox_{γψ/p}(x̂ - γh/p), else x = x̂;  h ← h + p(x - x̂)/γ.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.solvers import Epoch, Method, Solver


class Epochs(Method):
    """Gradient steps until the coin says prox, and the prox."""

    def default_step(self):
        return 1.0 / self.problem.smoothness.L_f

    def start(self, x0):
        return {"x": x0, "h": np.zeros_like(x0)}

    def advance(self, state, epoch, step):
        problem, x, h, p = self.problem, state["x"], state["h"], self.solver.probability
        count = int(self.random(epoch).geometric(p))
        for _ in range(count):
            x = x - step * (problem.gradient(x) - h)
        after = problem.prox(x - step / p * h, step / p)
        return Epoch({"x": after, "h": h + p / step * (after - x)}, count * problem.n, 1)


@dataclass(frozen=True, kw_only=True)
class ProxSkip(Solver):
    """``probability`` is p, of order √(μ/L) at best; ``step`` is 1/L_f where not given."""

    method_class = Epochs
    probability: float = 0.1
    step: Any = None
