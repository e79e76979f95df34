"""
A method of your own
====================

A method is one small class that says what an epoch does. Stopping at an accuracy, traces, callbacks, interruption,
saving and resuming come with it, and every loss and penalty works. Here: random reshuffling with heavy-ball momentum
between epochs, written in twenty lines and compared with what is there.
"""

from dataclasses import dataclass

import numpy as np

import reshuffle as rs
from reshuffle.orders import shuffled
from reshuffle.randomness import generator
from reshuffle.solvers import Epoch, Method, Solver


class Momentum(Method):
    """x ← prox(shuffled pass from x + β(x - x_before)): what an epoch does."""

    def __init__(self, problem, solver):
        super().__init__(problem)
        self.solver = solver
        self.safe_step = 1 / (problem.n * problem.smoothness.L_max)
        self.schedule = lambda epoch: self.safe_step

    def start(self, x0):
        return {"x": x0, "before": x0}

    def advance(self, state, epoch, step):
        n, rng = self.problem.n, generator(self.solver.seed, epoch)
        x = state["x"] + self.solver.beta * (state["x"] - state["before"])
        self.problem.sweep(x, shuffled(np.arange(n, dtype=np.uint32), rng), step)
        return Epoch({"x": self.problem.prox(x, step * n), "before": state["x"]}, n, 1)


@dataclass(frozen=True, kw_only=True)
class HeavyBallRR(Solver):
    """The hyper-parameters."""

    beta: float = 0.9

    def bind(self, problem):
        return Momentum(problem, self)


# %%
# It runs like the others. At this short, constant step momentum helps; the decreasing step of the paper, which needs
# the strong convexity of the penalty, helps more.
X, y = rs.datasets.breast_cancer()
problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1=0.01, l2=0.01))
minimum = rs.ExactProxRR(tol=1e-13).solve(problem).trace["objective"][-1]
runs = {
    f"HeavyBallRR, β = {beta}": HeavyBallRR(beta=beta, epochs=300).solve(problem)
    for beta in (0.0, 0.5, 0.9)
}
runs["ProxRR, 1/t"] = rs.ProxRR(step=rs.steps.InverseTime(), epochs=300).solve(problem)
ax = rs.plotting.plot_gap(runs, minimum)
ax.legend(frameon=False)
for name, run in runs.items():
    print(f"{name:<20} {run.trace['objective'][-1] - minimum:.1e} above the minimum")
