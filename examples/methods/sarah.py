"""SARAH (Nguyen, Liu, Scheinberg, Takáč 2017) with reshuffling, a prox after each step.

v = ∇f(x_0),    x_{k+1} = prox_{γψ}(x_k - γv),    v ← v + ∇f_i(x_{k+1}) - ∇f_i(x_k).
"""

from dataclasses import dataclass
from typing import Any

from numba import njit

from reshuffle.own_loops import prox
from reshuffle.solvers import Epoch, Method, Solver


@njit(nogil=True, error_model="numpy")
def steps(slope, add, data, psi, x, v, visits, step):
    for i in visits:
        old = slope(data, i, x)
        x -= step * v
        prox(psi, x, step)
        add(data, i, slope(data, i, x) - old, v)


class Epochs(Method):
    """The gradient at x, and n steps that carry it along."""

    def advance(self, state, epoch, step):
        p, x = self.problem, state["x"].copy()
        _, v = p.slopes(x)
        steps(*p.functions, p.compiled_penalty, x, v, self.reshuffled(epoch), step)
        return Epoch({"x": x}, gradients=3 * p.n, prox_evals=p.n)


@dataclass(frozen=True, kw_only=True)
class SarahRR(Solver):
    """SARAH over a fresh permutation in each epoch; ``step`` is 1/L_max where not given."""

    method_class = Epochs
    step: Any = None
