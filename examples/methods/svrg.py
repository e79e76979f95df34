"""SVRG with reshuffling: Malinovsky, Sailanbayev, Richtárik 2021; the prox as in Xiao, Zhang 2014.

y = x_t,    x ← prox_{γψ}(x - γ(∇f_i(x) - ∇f_i(y) + ∇f(y)))  for i in a fresh permutation.
"""

from dataclasses import dataclass
from typing import Any

from numba import njit

from reshuffle.own_loops import prox
from reshuffle.solvers import Epoch, Method, Solver


@njit(nogil=True, error_model="numpy")
def steps(slope, add, data, psi, x, table, g, visits, step):
    for i in visits:
        change = slope(data, i, x) - table[i]
        x -= step * g
        add(data, i, -step * change, x)
        prox(psi, x, step)


class Epochs(Method):
    """A pass that takes the slopes at y, and a shuffled one along the differences to them."""

    def advance(self, state, epoch, step):
        p, x = self.problem, state["x"].copy()
        steps(*p.functions, p.compiled_penalty, x, *p.slopes(x), self.reshuffled(epoch), step)
        return Epoch({"x": x}, gradients=2 * p.n, prox_evals=p.n)


@dataclass(frozen=True, kw_only=True)
class SvrgRR(Solver):
    """RR-SVRG with a prox after each step; ``step`` is 1/L_max where not given."""

    method_class = Epochs
    step: Any = None
